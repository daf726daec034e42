/* SPDX-License-Identifier: MIT */
/*
 * Tests of the advice that stands with the driver for managed memory: ours where the limit holds it
 * back, else the program's.
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/devices.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/alloc/managed.h"

#include "fake_driver.h"
#include "suite.h"
#include "test_job.h"

#define MIB ((size_t)1 << 20)

enum { PAGE = 4096, SIZE = 12 << 20, PAGES = SIZE / PAGE };
#define BASE ((CUdeviceptr)0x7f0000000000)

static struct device_set devices;
static struct device *gpu;

/* A page, as a driver keeps it. */
struct page {
	int preferred;
	bool used_by_gpu, used_by_host, read_mostly;
};

static struct page with_driver[PAGES], wanted[PAGES];

static void keep(struct page *pages, CUdeviceptr address, size_t size, CUmem_advise advice,
                 CUdevice device)
{
	for (size_t i = (address - BASE) / PAGE; i <= (address + size - 1 - BASE) / PAGE; i++) {
		bool is_set = advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
		              advice == CU_MEM_ADVISE_SET_READ_MOSTLY;

		if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION)
			pages[i].preferred = device;
		else if (advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
			pages[i].preferred = CU_DEVICE_INVALID;
		else if (advice == CU_MEM_ADVISE_SET_READ_MOSTLY ||
		         advice == CU_MEM_ADVISE_UNSET_READ_MOSTLY)
			pages[i].read_mostly = is_set;
		else if (device == CU_DEVICE_CPU)
			pages[i].used_by_host = is_set;
		else
			pages[i].used_by_gpu = is_set;
	}
}

static CUresult driver_advise(CUdeviceptr address, size_t size, CUmem_advise advice,
                              CUdevice device)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	keep(with_driver, address, size, advice, device);
	pthread_mutex_unlock(&lock);
	return CUDA_SUCCESS;
}

static void set_limit(uint64_t limit)
{
	struct config_gpu settings = {
	    .memory = limit, .host_memory = 0, .share = 100000, .spill = SPILL_AUTO};

	device_apply(gpu, &settings);
}

static void start(uint64_t limit)
{
	context_forget(fake.current);
	device_set_clear(&devices);
	fake_driver_reset(256 * MIB);
	driver.cuMemAdvise = driver_advise;
	ck_assert_int_eq(device_set_fill(&devices, test_job(), "test"), 0);
	gpu = &devices.device[0];
	device_set_start_contexts(&devices);
	set_limit(limit);
	for (int i = 0; i < PAGES; i++)
		with_driver[i] = wanted[i] = (struct page){.preferred = CU_DEVICE_INVALID};
	managed_made(BASE, SIZE);
}

static CUresult driver_frees(void *cookie, CUdeviceptr address)
{
	(void)cookie, (void)address;
	return CUDA_SUCCESS;
}

static void finish(void)
{
	ck_assert_int_eq(vmem_free(BASE, &(struct vmem_free){.native = driver_frees}),
	                 CUDA_SUCCESS);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 0);
}

/* As the hook of cuMemAdvise() does it. */
static void program_advises(size_t page, size_t pages, CUmem_advise advice, CUdevice device)
{
	CUdeviceptr address = BASE + page * PAGE;
	uint64_t mark = managed_mark();
	size_t follow = pages * PAGE;
	CUmem_advise given = advice;
	CUdevice to = device;

	if (advice == CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION ||
	    (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION && device != CU_DEVICE_CPU))
		follow = managed_may_come(address, follow);
	if (!follow) {
		follow = pages * PAGE;
		given = CU_MEM_ADVISE_SET_PREFERRED_LOCATION;
		to = CU_DEVICE_CPU;
	}
	ck_assert_int_eq(driver.cuMemAdvise(address, follow, given, to), CUDA_SUCCESS);
	managed_advised(address, pages * PAGE, advice, managed_location(device), mark);
	keep(wanted, address, pages * PAGE, advice, device);
}

static int answer(CUmem_range_attribute attribute, size_t page)
{
	int value[2] = {42, 42};

	managed_answer(value, attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY ? sizeof value : 4,
	               attribute, BASE + page * PAGE, PAGE);
	return value[0];
}

static bool is_right(size_t page, bool is_charged)
{
	const struct page *has = &with_driver[page], *wants = &wanted[page];
	int user = wants->used_by_gpu ? 0 : wants->used_by_host ? CU_DEVICE_CPU : CU_DEVICE_INVALID;

	if (has->read_mostly != wants->read_mostly || has->used_by_host != wants->used_by_host)
		return false;
	if (is_charged)
		return has->preferred == wants->preferred && has->used_by_gpu == wants->used_by_gpu;
	return has->preferred == CU_DEVICE_CPU && has->used_by_gpu &&
	       answer(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, page) == wants->preferred &&
	       answer(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, page) == wants->read_mostly &&
	       answer(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, page) == user;
}

/*
 * Checks that the driver has the program's advice of `charged` bytes, and ours of the rest; what
 * may be asked is the program's.
 */
static void ck_assert_advice(size_t charged)
{
	for (size_t i = 0; i < PAGES; i++)
		if (!is_right(i, i * PAGE < charged))
			ck_abort_msg(
			    "page %zu of %zu charged: the driver prefers %d, the program %d, "
			    "and is told %d",
			    i, charged / PAGE, with_driver[i].preferred, wanted[i].preferred,
			    answer(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, i));
}

/*
 * The program prefers the host; room comes back; a prefetch to the device does not make it forget
 * that.
 */
START_TEST(what_the_program_prefers_outlives_a_prefetch)
{
	start(4 * MIB);
	ck_assert_advice(4 * MIB);
	program_advises(4 * MIB / PAGE, 100, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
	program_advises(4 * MIB / PAGE + 50, 100, CU_MEM_ADVISE_SET_ACCESSED_BY, 0);
	ck_assert_advice(4 * MIB);
	set_limit(64 * MIB);
	ck_assert_uint_eq(managed_may_come(BASE, SIZE), SIZE);
	ck_assert_advice(SIZE);
	finish();
}
END_TEST

/* A range that is not wholly ours is the driver's to judge; what no book holds, its to answer. */
START_TEST(nothing_is_kept_for_memory_that_is_not_ours)
{
	int value = 42;

	start(4 * MIB);
	ck_assert_uint_eq(managed_may_come(BASE, SIZE + PAGE), SIZE + PAGE);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 4 * MIB);
	managed_answer(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, BASE - PAGE, PAGE);
	managed_answer(&value, sizeof value, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, BASE, 4 * MIB);
	ck_assert_int_eq(value, 42);
	finish();
}
END_TEST

static size_t charged_now(void)
{
	size_t charged = device_charged(gpu, SEGMENT_ON_DEVICE);

	return charged < SIZE ? charged : SIZE;
}

START_TEST(random_advice_as_the_limit_rises)
{
	static const CUdevice places[] = {0, CU_DEVICE_CPU};

	for (unsigned int seed = 1; seed <= 20; seed++) {
		srand(seed);
		start((size_t)(rand() % 4) * 2 * MIB);
		for (int i = 0; i < 120; i++) {
			size_t page = (size_t)rand() % PAGES;
			size_t pages = 1 + (size_t)rand() % (PAGES - page);

			if (rand() % 12 == 0)
				set_limit((size_t)(1 + i / 16) * 2 * MIB);
			if (rand() % 6 == 0)
				(void)managed_may_come(BASE + page * PAGE, pages * PAGE);
			else
				program_advises(page, pages, (CUmem_advise)(1 + rand() % 6),
				                places[rand() % 2]);
			if (i % 10 == 0)
				ck_assert_advice(charged_now());
		}
		set_limit(64 * MIB);
		ck_assert_uint_eq(managed_may_come(BASE, SIZE), SIZE);
		ck_assert_advice(SIZE);
		finish();
	}
}
END_TEST

static void *make_room(void *cookie)
{
	(void)cookie;
	set_limit(64 * MIB);
	(void)managed_may_come(BASE, SIZE);
	return NULL;
}

/*
 * The program advises while another thread's prefetch lets the memory come: whoever is last, the
 * program's advice stands.
 */
START_TEST(advice_while_room_is_made)
{
	enum { ROUNDS = 1000, CALLS = 6 };

	for (unsigned int round = 0; round < ROUNDS; round++) {
		pthread_t thread;

		srand(round);
		start(2 * MIB);
		ck_assert_int_eq(pthread_create(&thread, NULL, make_room, NULL), 0);
		for (int i = 0; i < CALLS; i++)
			program_advises((size_t)rand() % 1000, 2000,
			                rand() % 2 ? CU_MEM_ADVISE_SET_PREFERRED_LOCATION
			                           : CU_MEM_ADVISE_SET_ACCESSED_BY,
			                rand() % 2 ? CU_DEVICE_CPU : 0);
		pthread_join(thread, NULL);
		ck_assert_advice(SIZE);
		finish();
	}
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("managed");

	tcase_add_test(tests, what_the_program_prefers_outlives_a_prefetch);
	tcase_add_test(tests, nothing_is_kept_for_memory_that_is_not_ours);
	tcase_add_test(tests, random_advice_as_the_limit_rises);
	tcase_add_test(tests, advice_while_room_is_made);
	tcase_set_timeout(tests, 120); /* on a busy machine */
	return suite_run("managed", tests);
}
