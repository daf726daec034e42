/* SPDX-License-Identifier: MIT */
/*
 * Deadlines, and the waits that end with them: on a machine where each nap lasts much longer than
 * it was to.
 */
#include <check.h>
#include <pthread.h>
#include <semaphore.h>

#include "tests/unit/devices.h"
#include "core/base/deadline.h"
#include "core/budget/device.h"
#include "core/cuda/gate.h"
#include "core/cuda/idle.h"
#include "core/cuda/capture.h"
#include "fake_driver.h"
#include "jumping_clock.h"
#include "suite.h"

#define MS 1000000ull

START_TEST(its_time_begins_with_the_first_wait)
{
	struct deadline until = DEADLINE_IN(10 * MS);

	jumping_start();
	jumping.now_ns += 100 * MS;
	ck_assert(!deadline_has_passed(&until));
	ck_assert_uint_eq(deadline_left(&until), 10 * MS);
	jumping.now_ns += 10 * MS - 1;
	ck_assert(!deadline_has_passed(&until));
	jumping.now_ns += 1;
	ck_assert(deadline_has_passed(&until));
	ck_assert_uint_eq(deadline_left(&until), 0);
	ck_assert(!deadline_nap(&until, MS));
	ck_assert_int_eq(jumping.naps, 0);
}
END_TEST

START_TEST(naps_end_with_it_however_long_each_is)
{
	struct deadline until = DEADLINE_IN(10 * MS);
	int naps = 0;

	jumping_start();
	while (deadline_nap(&until, 50000))
		naps++;
	ck_assert_int_eq(naps, jumps_in_ms(10));
	ck_assert_int_eq(jumping.naps, naps);
}
END_TEST

START_TEST(without_patience_nobody_waits)
{
	struct deadline until = DEADLINE_IN(0), part;

	jumping_start();
	ck_assert(!deadline_nap(&until, MS));
	part = deadline_within(&until, 10 * MS);
	ck_assert(deadline_has_passed(&part));
	ck_assert_int_eq(jumping.naps, 0);
}
END_TEST

START_TEST(a_part_ends_with_the_whole)
{
	struct deadline until = DEADLINE_IN(10 * MS), part;

	jumping_start();
	part = deadline_within(&until, 4 * MS);
	ck_assert_uint_eq(deadline_left(&part), 4 * MS);
	jumping.now_ns += 8 * MS;
	part = deadline_within(&until, 4 * MS);
	ck_assert_uint_eq(deadline_left(&part), 2 * MS);
	part = deadline_within(&until, 0);
	ck_assert(deadline_has_passed(&part));
	/* Forever is no overflow. */
	until = DEADLINE_IN(UINT64_MAX);
	ck_assert(!deadline_has_passed(&until));
	ck_assert(deadline_nap(&until, UINT64_MAX));
}
END_TEST

/* --- waits of the house --- */

static sem_t let_go;

static CUresult runs_on(void)
{
	while (sem_wait(&let_go) != 0)
		;
	return CUDA_SUCCESS;
}

static struct device_set devices;

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	(void)mode;
	return CUDA_SUCCESS;
}

/* What runs is in no stream that can be asked. */
static CUresult nothing_runs(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

static void start(void)
{
	fake_driver_reset(64 << 20);
	driver.cuStreamQuery = nothing_runs;
	driver.cuThreadExchangeStreamCaptureMode = exchange_mode;
	ck_assert_int_eq(device_set_fill(&devices, NULL, "test"), 0);
	device_set_start_contexts(&devices);
	context_enter(fake.current, 0, NULL);
	jumping_start();
}

/*
 * With the gate seized: 5 ms were 250 naps of 20 us, of which each lasted as long as the machine
 * liked.
 */
START_TEST(the_gate_is_not_seized_for_longer_than_was_said)
{
	start();
	sem_init(&let_go, 0, 0);
	driver.cuCtxSynchronize = runs_on;
	ck_assert_int_eq(idle_now(5 * MS), IDLE_BUSY);
	ck_assert_int_eq(jumping.naps, jumps_in_ms(5));
	sem_post(&let_go);
}
END_TEST

START_TEST(a_capture_waits_for_a_call_only_so_long)
{
	start();
	ck_assert(capture_sync_enter());
	capture_announce();
	ck_assert_int_eq(jumping.naps, jumps_in_ms(100));
	capture_announced();
	capture_sync_leave();
}
END_TEST

START_TEST(a_context_is_waited_for_only_so_long)
{
	struct context context;

	start();
	ck_assert_int_eq(context_push(fake.current), CUDA_SUCCESS);
	ck_assert(context_leave(fake.current, &context));
	ck_assert_int_eq(jumping.naps, jumps_in_ms(5000));
	ck_assert(context_stay(&context));
	context_pop(fake.current);
}
END_TEST

static pthread_barrier_t is_inside, may_leave;

static void *stay_inside(void *cookie)
{
	(void)cookie;
	gate_enter();
	pthread_barrier_wait(&is_inside);
	pthread_barrier_wait(&may_leave);
	gate_leave();
	return NULL;
}

START_TEST(who_is_inside_is_waited_for_only_so_long)
{
	pthread_t inside;

	gate_start();
	pthread_barrier_init(&is_inside, NULL, 2);
	pthread_barrier_init(&may_leave, NULL, 2);
	pthread_create(&inside, NULL, stay_inside, NULL);
	pthread_barrier_wait(&is_inside);
	jumping_start();
	ck_assert(!gate_hold(20 * MS, 20 * MS));
	ck_assert_int_eq(jumping.naps, jumps_in_ms(20));
	pthread_barrier_wait(&may_leave);
	pthread_join(inside, NULL);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("deadline");

	tcase_add_test(tests, its_time_begins_with_the_first_wait);
	tcase_add_test(tests, naps_end_with_it_however_long_each_is);
	tcase_add_test(tests, without_patience_nobody_waits);
	tcase_add_test(tests, a_part_ends_with_the_whole);
	tcase_add_test(tests, the_gate_is_not_seized_for_longer_than_was_said);
	tcase_add_test(tests, a_capture_waits_for_a_call_only_so_long);
	tcase_add_test(tests, a_context_is_waited_for_only_so_long);
	tcase_add_test(tests, who_is_inside_is_waited_for_only_so_long);
	return suite_run("deadline", tests);
}
