/* SPDX-License-Identifier: MIT */
/* The calls that hold memory, as a refusal's message and the job's file of refusals name them. */
#include <unistd.h>

#include "core/budget/refusal.h"
#include "core/cuda/context.h"
#include "core/job/module.h"
#include "core/job/process.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/own_memory.h"
#include "core/memory/uses/counted.h"
#include "core/registry/actions.h"
#include "core/state/directory.h"
#include "tests/unit/devices.h"
#include "tests/unit/fake_driver.h"
#include "tests/unit/jumping_clock.h"
#include "tests/unit/scratch.h"
#include "tests/unit/test_job.h"

#define MIB ((size_t)1 << 20)

extern const struct module module_holders;

static char said[512]; /* of the last refusal */

/* Runs after the module. */
static int keep_text(void *cookie, void *subject)
{
	(void)cookie;
	snprintf(said, sizeof(said), "%s", ((const struct refusal *)subject)->more);
	return 0;
}

static void start(void)
{
	static const struct action last = {ACTION_MEASURES, "test", keep_text, NULL};
	const struct config_gpu settings = {
	    .memory = 256 * MIB, .host_memory = 256 * MIB, .share = 100000, .spill = SPILL_AUTO};
	bool has_started = true;

	fake_driver_reset(256 * MIB);
	this_job.segment = test_job();
	snprintf(this_job.config.name, sizeof(this_job.config.name), "held");
	ck_assert_int_eq(device_set_fill(&this_job.devices, this_job.segment, "held"), 0);
	device_set_start_contexts(&this_job.devices);
	device_apply(&this_job.devices.device[0], &settings);
	vmem_start(&this_job.devices, false);
	module_holders.start(&has_started);
	ck_assert(has_started);
	ck_assert_int_eq(action_add(ACTION_REFUSED, &last), 0);
}

static CUresult native(void *cookie, CUdeviceptr *address)
{
	return driver.cuMemAlloc_v2(address, *(const size_t *)cookie);
}

static void allocate(const void *site, size_t size)
{
	CUdeviceptr address;

	refusal_site = site;
	ck_assert_int_eq(
	    vmem_allocate(&(struct vmem_request){.size = size, .native = native, .cookie = &size},
	                  &address),
	    CUDA_SUCCESS);
}

static void create(const void *site, size_t size)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;

	refusal_site = site;
	ck_assert_int_eq(own_memory_create(&this_job.devices, &handle, size, &prop, 0, false,
	                                   driver.cuMemCreate),
	                 CUDA_SUCCESS);
}

static void refuse(void)
{
	const struct refused refused = {REFUSED_HOST_LIMIT, 8 * MIB, 2 * MIB, 16 * MIB};

	refusal_note(&this_job.devices.device[0], REFUSED_ALLOCATION, &refused);
}

/* Returns the text by which a function of this program is named. */
static const char *name_of(const void *site)
{
	static char names[4][64];
	static int next;
	char *name = names[next++ % 4];
	extern const char __executable_start;

	snprintf(name, sizeof(names[0]), "test_holders+0x%zx",
	         (size_t)((const char *)site - &__executable_start));
	return name;
}

/* The three largest, by site: allocations and memory of cuMemCreate; addresses are no memory. */
START_TEST(the_largest_holders)
{
	char expected[512];
	const void *one = (const void *)start, *two = (const void *)allocate,
	           *three = (const void *)create, *four = (const void *)refuse;

	allocate(one, 8 * MIB);
	allocate(one, 8 * MIB);
	create(two, 20 * MIB);
	create(three, 12 * MIB);
	allocate(four, 4 * MIB);
	counted_enter(&counted_type_reservation, NULL, 0x1000, 64 * MIB, 0);
	refuse();
	ck_assert_msg(strstr(said, " Largest holders: 20.0 MiB by ") == said, "%s", said);
	ck_assert_ptr_nonnull(strstr(said, name_of(two)));
	snprintf(expected, sizeof(expected), ", 16.0 MiB by %s (2, oldest ", name_of(one));
	ck_assert_msg(strstr(said, expected) != NULL, "%s: not in %s", expected, said);
	snprintf(expected, sizeof(expected), ", 12.0 MiB by %s (1, oldest ", name_of(three));
	ck_assert_msg(strstr(said, expected) != NULL, "%s: not in %s", expected, said);
	ck_assert_ptr_null(strstr(said, name_of(four)));
}
END_TEST

/* A site that no module holds, and memory whose call is not known. */
START_TEST(no_module)
{
	allocate((const void *)16, 8 * MIB);
	allocate(NULL, 4 * MIB);
	refuse();
	ck_assert_msg(strstr(said, "8.00 MiB by generated code (1,") != NULL, "%s", said);
	ck_assert_msg(strstr(said, "4.00 MiB by allocation (1,") != NULL, "%s", said);
}
END_TEST

/* A program that asks again and again has them once a second; the age is that of the oldest. */
START_TEST(once_a_second)
{
	jumping_start();
	allocate((const void *)start, 8 * MIB);
	jumping.now_ns += 5000000000;
	refuse();
	ck_assert_ptr_nonnull(strstr(said, "Largest holders"));
	refuse();
	ck_assert_str_eq(said, "");
	jumping.now_ns += 1000000000;
	refuse();
	ck_assert_ptr_nonnull(strstr(said, "Largest holders"));
}
END_TEST

/* Each line has its time and its process; a file that is full begins anew. */
START_TEST(the_file)
{
	char path[PATH_MAX], expected[64];
	struct stat status;
	char *text;

	jumping_start();
	allocate((const void *)start, 8 * MIB);
	refuse();
	ck_assert_int_eq(directory_refused_path("held", path, sizeof(path)), 0);
	text = scratch_read(path);
	snprintf(expected, sizeof(expected), " UTC: process %d, gpu 0: refused 8.00 MiB",
	         (int)getpid());
	ck_assert_ptr_nonnull(strstr(text, expected));
	ck_assert_ptr_nonnull(strstr(text, "Largest holders: 8.00 MiB by test_holders+0x"));
	ck_assert_int_eq(text[23], ' '); /* 2026-11-28 12:00:00.123 UTC */
	ck_assert_int_eq(text[19], '.');
	free(text);
	for (int i = 0; i < 200; i++) {
		jumping.now_ns += 1000000000;
		refuse();
		ck_assert_int_eq(stat(path, &status), 0);
		ck_assert_int_le(status.st_size, 16384 + 1024);
	}
	remove(path);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("holders");
	TCase *tests = tcase_create("holders");

	tcase_add_checked_fixture(tests, start, NULL);
	tcase_add_test(tests, the_largest_holders);
	tcase_add_test(tests, no_module);
	tcase_add_test(tests, once_a_second);
	tcase_add_test(tests, the_file);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
