/* SPDX-License-Identifier: MIT */
/*
 * Frees that do not wait: the fence before each, the calls that wait for it, and frees in a
 * capture.
 */
#include <check.h>
#include <stdlib.h>

#include "tests/unit/devices.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/arena/arena.h"
#include "core/memory/alloc/allocation.h"
#include "core/cuda/capture.h"
#include "fake_driver.h"
#include "calls.h"
#include "suite.h"
#include "test_job.h"

#define MIB ((size_t)1 << 20)

enum { EVENTS = 64, AT_ONCE = 0 };

static struct device_set devices;
static struct device *gpu;

/* Work is a number: what was put into the context, and what of it is done. */
static struct {
	uint64_t issued, done;
	uint64_t event[EVENTS];
	size_t events;
	int records, waits;
	bool no_records;
	int asked_in_capture;
} work;

static CUresult create_event(CUevent *event, unsigned int flags)
{
	ck_assert_uint_eq(flags, CU_EVENT_DISABLE_TIMING);
	ck_assert_uint_lt(work.events, EVENTS);
	*event = (CUevent)(uintptr_t)++work.events;
	return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
	ck_assert_uint_ne((uintptr_t)event, 0);
	return CUDA_SUCCESS;
}

static CUresult record(CUcontext context, CUevent event)
{
	ck_assert_ptr_eq(context, fake.current);
	work.asked_in_capture += capture_is_active();
	work.records++;
	if (work.no_records)
		return CUDA_ERROR_NOT_SUPPORTED;
	work.event[(uintptr_t)event - 1] = work.issued;
	return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
	work.asked_in_capture += capture_is_active();
	return work.event[(uintptr_t)event - 1] <= work.done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult wait_for_all(void)
{
	work.asked_in_capture += capture_is_active();
	work.waits++;
	work.done = work.issued;
	return CUDA_SUCCESS;
}

static void set_limits(uint64_t limit, uint64_t host, uint64_t spill_after)
{
	struct config_gpu settings = {.memory = limit,
	                              .host_memory = host,
	                              .host_limit_of_moves = host,
	                              .share = 100000,
	                              .spill = SPILL_AUTO,
	                              .deferred_free = true,
	                              .spill_after = spill_after,
	                              .demote_deadline = AT_ONCE};

	device_apply(gpu, &settings);
}

/* As the driver's answer to cuCtxDestroy has it. */
static void destroy_context(void)
{
	struct context gone;

	if (!context_find(fake.current, &gone) || !context_gone(&gone))
		return;
	vmem_forget_context(&gone);
	context_forget(gone.handle);
}

static void finish(void)
{
	destroy_context();
	device_set_clear(&devices);
}

/* All that is asked for is on the host: nothing fits below the limit. */
static void start(void)
{
	finish();
	fake_driver_reset(256 * MIB);
	memset(&work, 0, sizeof(work));
	driver.cuEventCreate = create_event;
	driver.cuEventDestroy_v2 = destroy_event;
	driver.cuEventQuery = query;
	driver.cuCtxRecordEvent = record;
	driver.cuCtxSynchronize = wait_for_all;
	ck_assert_int_eq(device_set_fill(&devices, test_job(), "test"), 0);
	gpu = &devices.device[0];
	device_set_start_contexts(&devices);
	set_limits(0, 64 * MIB, 0);
}

static CUdeviceptr make(size_t size)
{
	CUdeviceptr address = 0;

	ck_assert_int_eq(allocate(size, &address), CUDA_SUCCESS);
	return address;
}

static uint64_t charged(void)
{
	return device_charged(gpu, SEGMENT_ON_HOST) / MIB;
}

START_TEST(it_goes_when_all_that_was_in_flight_is_done)
{
	CUdeviceptr a, b, c;

	start();
	a = make(8 * MIB);
	b = make(4 * MIB);
	c = make(2 * MIB);
	work.issued = 1;
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert_int_eq(work.waits, 0);
	ck_assert_uint_eq(charged(), 14);
	ck_assert(freed_has(a + 8 * MIB - 1));
	ck_assert(!freed_has(b));
	/* Freed twice: the driver is not asked, which still has it and would free it under us. */
	ck_assert_int_eq(release(a), CUDA_ERROR_INVALID_VALUE);
	/* The fence of the first tells nothing of what was put in since. */
	work.issued = 2;
	ck_assert_int_eq(release(b), CUDA_SUCCESS);
	work.done = 1;
	freed_poll();
	ck_assert_uint_eq(charged(), 6);
	freed_poll();
	ck_assert_uint_eq(charged(), 6);
	work.done = 2;
	freed_poll();
	ck_assert_uint_eq(charged(), 2);
	ck_assert(!freed_has(a) && !freed_has(b));
	/* With nothing in flight it goes at the next look. */
	ck_assert_int_eq(release(c), CUDA_SUCCESS);
	freed_poll();
	ck_assert_uint_eq(charged(), 0);
	ck_assert_int_eq(work.waits, 0);
	ck_assert_int_eq(fake.misuse, 0);
	ck_assert_int_eq(fake.count, 0);
}
END_TEST

START_TEST(one_fence_serves_many_frees)
{
	CUdeviceptr p[32];

	start();
	for (int i = 0; i < 32; i++)
		p[i] = make(2 * MIB);
	work.issued = 1;
	for (int i = 0; i < 32; i++)
		ck_assert_int_eq(release(p[i]), CUDA_SUCCESS);
	ck_assert_int_eq(work.records, 1);
	work.done = 1;
	freed_poll();
	ck_assert_uint_eq(charged(), 62);
	ck_assert_int_eq(work.records, 2);
	freed_poll();
	ck_assert_uint_eq(charged(), 0);
	ck_assert_uint_eq(work.events, 1);
}
END_TEST

START_TEST(what_would_be_refused_waits_for_it)
{
	CUdeviceptr a;

	start();
	a = make(40 * MIB);
	work.issued = 1;
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert_int_eq(work.waits, 0);
	a = make(40 * MIB);
	ck_assert_int_ge(work.waits, 1);
	ck_assert_uint_eq(charged(), 40);
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	freed_poll();
	ck_assert_uint_eq(charged(), 0);
}
END_TEST

/* Waiting for what was freed is another try of the same call, not another answer to the program. */
START_TEST(a_refusal_is_what_the_program_is_told)
{
	CUdeviceptr a, refused = 42;

	start();
	a = make(8 * MIB);
	set_limits(0, 64 * MIB, 2);
	for (unsigned int told = 1; told <= 2; told++) {
		work.issued++;
		ck_assert_int_eq(release(a), CUDA_SUCCESS);
		ck_assert_uint_eq(charged(), 8);
		ck_assert_int_eq(allocate(8 * MIB, &refused), CUDA_ERROR_OUT_OF_MEMORY);
		ck_assert_uint_eq(refused, 42);
		ck_assert_uint_eq(charged(), 0);
		ck_assert_uint_eq(gpu->statistics->refusals, told);
		set_limits(0, 64 * MIB, 0);
		a = make(8 * MIB);
		set_limits(0, 64 * MIB, 2);
	}
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	work.issued++;
	a = make(8 * MIB);
	ck_assert_uint_eq(gpu->statistics->refusals, 2);
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
}
END_TEST

START_TEST(without_a_fence_it_waits)
{
	CUdeviceptr a, b;

	start();
	a = make(8 * MIB);
	b = make(8 * MIB);
	work.issued = 1;
	work.no_records = true;
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert_int_ge(work.waits, 1);
	ck_assert_uint_eq(charged(), 8);
	/* Also for those that were to be behind the next one. */
	work.no_records = false;
	work.issued = 2;
	a = make(8 * MIB);
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert_int_eq(release(b), CUDA_SUCCESS);
	work.waits = 0;
	work.no_records = true;
	work.done = 2;
	freed_poll();
	ck_assert_uint_eq(charged(), 8);
	ck_assert_int_eq(work.waits, 0);
	freed_settle();
	ck_assert_uint_eq(charged(), 0);
	ck_assert_int_ge(work.waits, 1);
}
END_TEST

START_TEST(a_capture_is_not_disturbed)
{
	CUstream captured = (CUstream)(uintptr_t)0x5000;
	CUdeviceptr a, b;

	start();
	a = make(8 * MIB);
	b = make(8 * MIB);
	work.issued = 1;
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	capture_began(captured);
	work.done = 1;
	/* What the driver says of freeing now: it knows no such address, so it would free. */
	ck_assert_int_eq(release(b), CUDA_SUCCESS);
	freed_poll();
	freed_settle();
	ck_assert(!freed_wait());
	ck_assert_uint_eq(charged(), 16);
	ck_assert_int_eq(work.asked_in_capture, 0);
	capture_is_over(captured);
	freed_poll();
	ck_assert_uint_eq(charged(), 8);
	freed_settle();
	ck_assert_uint_eq(charged(), 0);
}
END_TEST

START_TEST(it_goes_with_its_context)
{
	CUdeviceptr a, b;

	start();
	a = make(8 * MIB);
	b = make(8 * MIB);
	work.issued = 1;
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	work.issued = 2;
	ck_assert_int_eq(release(b), CUDA_SUCCESS);
	destroy_context();
	ck_assert_uint_eq(charged(), 0);
	/*
	 * The driver has waited and freed it, which this one does not imitate; nobody asks in what
	 * is gone.
	 */
	ck_assert_int_eq(fake.count, 2);
	ck_assert_int_eq(fake.misuse, 0);
	ck_assert_int_eq(work.waits, 0);
}
END_TEST

static CUresult has_all(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	*value = attribute != CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
	return CUDA_SUCCESS;
}

static CUresult nothing_runs(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

/* Memory of an arena outlives its context: what was freed there becomes spare. */
START_TEST(it_goes_with_its_context_from_the_arena)
{
	CUdeviceptr a, b;

	start();
	driver.cuDeviceGetAttribute = has_all;
	driver.cuStreamQuery = nothing_runs;
	vmem_start(&devices, true);
	a = make(2 * MIB);
	b = make(2 * MIB);
	ck_assert(arena_at(a) && arena_at(b));
	fake.misuse = 0;
	work.issued = 1;
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	work.issued = 2;
	ck_assert_int_eq(release(b), CUDA_SUCCESS);
	ck_assert_uint_eq(device_spare(gpu, SEGMENT_ON_HOST), 0);
	destroy_context();
	ck_assert_uint_eq(charged(), 4);
	ck_assert_uint_eq(device_spare(gpu, SEGMENT_ON_HOST), 4 * MIB);
	vmem_left_context(&devices);
	ck_assert_uint_eq(charged(), 0);
	ck_assert_int_eq(fake.misuse, 0);
	ck_assert_int_eq(work.waits, 0);
}
END_TEST

/* The driver is asked to destroy the context: its work may run still, and what it uses stays. */
START_TEST(it_stays_while_its_context_is_leaving)
{
	struct context context;
	CUdeviceptr a;

	start();
	a = make(8 * MIB);
	work.issued = 1;
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert(context_leave(fake.current, &context));
	work.done = 1;
	freed_poll();
	ck_assert_uint_eq(charged(), 8);
	ck_assert(context_is_leaving(fake.current));
	ck_assert(context_stay(&context)); /* it refuses */
	freed_poll();
	ck_assert_uint_eq(charged(), 0);
	ck_assert_int_eq(fake.count, 0);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("deferred");

	tcase_add_test(tests, it_goes_when_all_that_was_in_flight_is_done);
	tcase_add_test(tests, one_fence_serves_many_frees);
	tcase_add_test(tests, what_would_be_refused_waits_for_it);
	tcase_add_test(tests, a_refusal_is_what_the_program_is_told);
	tcase_add_test(tests, without_a_fence_it_waits);
	tcase_add_test(tests, a_capture_is_not_disturbed);
	tcase_add_test(tests, it_goes_with_its_context);
	tcase_add_test(tests, it_goes_with_its_context_from_the_arena);
	tcase_add_test(tests, it_stays_while_its_context_is_leaving);
	tcase_add_checked_fixture(tests, NULL, finish);
	return suite_run("deferred", tests);
}
