/* SPDX-License-Identifier: MIT */
/*
 * Times of steps in virtual time: a device that does one thing after the other, its events, and
 * programs that wait for it or run ahead of it.
 */
#include <check.h>
#include <string.h>

#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/modules/steps/step_time.h"
#include "suite.h"

#define MILLISECOND ((uint64_t)1000000)
#define STREAM      ((CUstream)0x200)
enum { DEVICE = 1, EVENTS = 64 };

/* --- the world --- */

static CUcontext here = (CUcontext)0x100, there = (CUcontext)0x101, gone = (CUcontext)0x102;

static struct {
	uint64_t now, work_ends; /* of the device */
	struct event {
		CUcontext context;
		bool is_made, is_recorded;
		uint64_t at;
	} event[EVENTS];
	size_t events, recorded, asked;
	CUcontext current;
	bool makes_no_events;
	uint64_t steps, told_ns; /* of the program */
	struct step_ends ends;
	struct step_timed timed; /* the newest answer */
	size_t stretches;
	uint64_t timed_number; /* of the newest stretch */
} world;

struct driver driver;

static struct event *known(CUevent event)
{
	struct event *e = (struct event *)event;

	ck_assert(e >= world.event && e < world.event + world.events && e->is_made);
	ck_assert_ptr_eq(e->context, world.current);
	ck_assert_ptr_ne(e->context, gone);
	return e;
}

static CUresult event_create(CUevent *event, unsigned int flags)
{
	ck_assert_uint_eq(flags, CU_EVENT_DEFAULT);
	if (world.makes_no_events)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_assert_uint_lt(world.events, EVENTS);
	world.event[world.events] = (struct event){.context = world.current, .is_made = true};
	*event = (CUevent)&world.event[world.events++];
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
	known(event)->is_made = false;
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	struct event *e = known(event);

	ck_assert_ptr_eq(stream, STREAM);
	ck_assert_uint_eq(capture_count, 0);
	world.recorded++;
	e->is_recorded = true;
	e->at = world.work_ends > world.now ? world.work_ends : world.now;
	return CUDA_SUCCESS;
}

static CUresult event_elapsed(float *ms, CUevent begin, CUevent end)
{
	const struct event *b = known(begin), *e = known(end);

	ck_assert(b->is_recorded && e->is_recorded);
	ck_assert_uint_eq(capture_count, 0);
	world.asked++;
	if (e->at > world.now)
		return CUDA_ERROR_NOT_READY;
	*ms = (float)((double)(e->at - b->at) / 1e6);
	return CUDA_SUCCESS;
}

static CUcontext before_push;

CUresult context_push(CUcontext handle)
{
	before_push = world.current;
	world.current = handle;
	return CUDA_SUCCESS;
}

void context_pop(CUcontext handle)
{
	ck_assert_ptr_eq(handle, world.current);
	world.current = before_push;
}

/* --- the program --- */

enum { WHOLE, MIXED, FIRST };

/* Takes a step of so long on the device, which the host launches in so long. */
static void step(uint64_t host_ns, uint64_t device_ns, int kind)
{
	bool is_told;

	world.now += host_ns;
	world.work_ends = (world.work_ends > world.now ? world.work_ends : world.now) + device_ns;
	world.steps++;
	world.ends.count++;
	world.ends.number = world.steps;
	world.ends.are_mixed |= kind == MIXED;
	world.ends.are_first |= kind == FIRST;
	is_told = world.now - world.told_ns >= MILLISECOND;
	if (!is_told && !step_time_wants(DEVICE, world.ends.count))
		return;
	if (is_told)
		world.told_ns = world.now;
	world.ends.context = world.current;
	world.ends.stream = STREAM;
	world.ends.now_ns = world.now;
	world.ends.are_told = is_told;
	world.timed = step_time_take(DEVICE, &world.ends);
	world.ends = (struct step_ends){0};
	if (world.timed.ns) {
		world.stretches++;
		world.timed_number = world.timed.number;
	}
	ck_assert_uint_le(world.timed.end_ns, world.now);
}

static void wait(void)
{
	if (world.work_ends > world.now)
		world.now = world.work_ends;
}

static void set_up(void)
{
	memset(&world, 0, sizeof(world));
	world.now = 1000 * MILLISECOND;
	world.current = here;
	driver.cuEventCreate = event_create;
	driver.cuEventDestroy_v2 = event_destroy;
	driver.cuEventRecord = event_record;
	driver.cuEventElapsedTime = event_elapsed;
	step(0, 0, FIRST);
}

static void tear_down(void)
{
	step_time_leave_context(here);
	step_time_leave_context(there);
	ck_assert_uint_eq(capture_count, 0);
}

/* Asserts that a step takes so long, but for a hundredth. */
static void takes(uint64_t ns)
{
	ck_assert_uint_ge(world.timed.mean_ns, ns - ns / 100);
	ck_assert_uint_le(world.timed.mean_ns, ns + ns / 100);
}

/* --- tests --- */

/* 45 steps are launched in a millisecond, and then those of the time before are waited for. */
START_TEST(a_program_that_runs_ahead_takes_what_the_device_takes)
{
	uint64_t before_ns = world.now;

	for (int epoch = 0; epoch < 14; epoch++) {
		for (int i = 0; i < 45; i++)
			step(23000, 2 * MILLISECOND, i ? WHOLE : MIXED);
		if (epoch % 2)
			before_ns = world.work_ends;
		else if (epoch)
			world.now = before_ns > world.now ? before_ns : world.now;
		if (world.stretches)
			takes(2 * MILLISECOND);
	}
	ck_assert_uint_ge(world.stretches, 3);
}
END_TEST

/* As far ahead as the driver's queue lets it, without a wait. */
/* Behind a wait two steps come at once, as their data was ready: no stretch is of them alone. */
START_TEST(steps_behind_a_wait_are_not_all)
{
	for (int epoch = 0; epoch < 50; epoch++) {
		for (int i = 0; i < 45; i++)
			step(23000, i < 2 ? 1000 : 2 * MILLISECOND, i ? WHOLE : MIXED);
		wait();
	}
	ck_assert_uint_ge(world.stretches, 40);
	ck_assert_uint_ge(world.timed.mean_ns, 2 * MILLISECOND * 9 / 10);
	ck_assert_uint_le(world.timed.mean_ns, 2 * MILLISECOND);
}
END_TEST

START_TEST(a_program_that_is_always_ahead_is_timed)
{
	for (int i = 0; i < 600; i++) {
		step(23000, 2 * MILLISECOND, WHOLE);
		if (world.work_ends > world.now + 100 * MILLISECOND)
			world.now = world.work_ends - 100 * MILLISECOND;
	}
	takes(2 * MILLISECOND);
	ck_assert_uint_ge(world.timed_number, 500);
}
END_TEST

/* All is launched before the device has done the second step: how long one takes is not known. */
START_TEST(what_the_device_has_not_done_is_not_told)
{
	for (int i = 0; i < 630; i++)
		step(23, 2 * MILLISECOND, WHOLE);
	for (int i = 0; i < 40; i++)
		step(23000, 2 * MILLISECOND, WHOLE);
	ck_assert_uint_eq(world.timed.mean_ns, 0);
	ck_assert_uint_eq(world.stretches, 0);
}
END_TEST

/* Each is timed, and where it was in time is told, one after the other. */
START_TEST(a_program_that_waits_has_each_step_timed)
{
	uint64_t end_ns = 0;

	for (uint64_t i = 0; i < 300; i++) {
		step(100000, (i % 3 + 2) * MILLISECOND, WHOLE);
		wait();
		if (!world.timed.ns)
			continue;
		ck_assert_uint_ge(world.timed.end_ns, end_ns + world.timed.ns - 1000);
		end_ns = world.timed.end_ns;
		ck_assert_uint_eq(world.timed.number, world.steps - 1);
	}
	takes(3 * MILLISECOND + 100000);
	ck_assert_uint_ge(world.stretches, 296);
}
END_TEST

START_TEST(steps_that_are_short_cost_few_calls)
{
	for (int i = 0; i < 10000; i++) {
		step(1000, 9000, WHOLE);
		wait();
	}
	takes(10000);
	ck_assert_uint_le(world.recorded, 4 * 100 + 4);
	ck_assert_uint_le(world.asked, 100 + 4);
}
END_TEST

/* The program says: 80 validations of 50 ms, 400 steps of 2.1 ms. */
START_TEST(other_work_counts_from_step_to_step_and_in_no_stretch)
{
	for (int i = 0; i < 400; i++) {
		bool validates = i % 5 == 0;

		step(validates ? 50 * MILLISECOND : 100000, 2 * MILLISECOND,
		     validates ? MIXED : WHOLE);
		wait();
		ck_assert_uint_le(world.timed.ns, 2 * MILLISECOND + 101000);
	}
	takes(12 * MILLISECOND + 80000);
	ck_assert_uint_ge(world.stretches, 200);
	ck_assert_uint_le(world.stretches, 320);
}
END_TEST

/* A notebook rests for an hour; a validation takes as long as 15 steps. */
START_TEST(a_break_is_left_out)
{
	for (int i = 0; i < 300; i++) {
		step(i == 100 ? 3600 * 1000 * MILLISECOND : 100000, 100 * MILLISECOND,
		     i % 50 == 49 ? MIXED : WHOLE);
		wait();
	}
	takes(100 * MILLISECOND + 100000);
	for (int i = 0; i < 2000; i++) {
		step(i % 100 == 99 ? 1500 * MILLISECOND : 0, 100 * MILLISECOND,
		     i % 100 == 99 ? MIXED : WHOLE);
		wait();
	}
	takes(115 * MILLISECOND);
}
END_TEST

/* 1000 steps took 9 ms each before they were trusted, 500 take 3 ms. */
START_TEST(steps_before_they_were_found_count)
{
	world.steps = 1000;
	world.ends.first = 0;
	world.ends.first_ns = world.now;
	world.now += 9000 * MILLISECOND;
	step(0, 0, FIRST);
	for (int i = 0; i < 500; i++) {
		step(0, 3 * MILLISECOND, WHOLE);
		wait();
	}
	takes(7 * MILLISECOND);
}
END_TEST

/* 1000 steps were launched in 1 ms each before they were trusted, and the device takes 3 ms. */
START_TEST(steps_that_the_device_has_not_done_do_not_count)
{
	world.steps = 1000;
	world.ends.first = 0;
	world.ends.first_ns = world.now;
	world.now += 1000 * MILLISECOND;
	world.work_ends = world.now + 2000 * MILLISECOND;
	step(0, 0, FIRST);
	for (int i = 0; i < 100; i++) {
		step(0, 3 * MILLISECOND, WHOLE);
		wait();
	}
	takes(3 * MILLISECOND);
}
END_TEST

START_TEST(other_steps_have_a_time_of_their_own)
{
	for (int i = 0; i < 50; i++) {
		step(100000, 2 * MILLISECOND, WHOLE);
		wait();
	}
	takes(2 * MILLISECOND + 100000);
	step(100000, 7 * MILLISECOND, FIRST);
	ck_assert_uint_eq(world.timed.mean_ns, 0);
	for (int i = 0; i < 3; i++) {
		wait();
		step(100000, 7 * MILLISECOND, WHOLE);
	}
	takes(7 * MILLISECOND + 100000);
}
END_TEST

/* The mean follows the newest several hundred. */
START_TEST(steps_that_become_longer_are_followed)
{
	for (int i = 0; i < 6000; i++) {
		step(100000, (i < 2000 ? 1 : 9) * MILLISECOND, WHOLE);
		wait();
	}
	takes(9 * MILLISECOND + 100000);
}
END_TEST

/* Its events are gone with it, whatever takes its place; those of one that stays are given back. */
START_TEST(steps_in_several_contexts_are_timed_in_each)
{
	for (int i = 0; i < 60; i++) {
		world.current = i / 20 % 2 ? there : here;
		step(100000, 2 * MILLISECOND, WHOLE);
		wait();
		if (_i && i % 20 == 19) {
			step_time_leave_context(world.current);
			for (size_t e = 0; e < world.events; e++)
				if (world.event[e].context == world.current)
					world.event[e].context = gone;
		}
	}
	takes(2 * MILLISECOND + 100000);
	ck_assert_uint_ge(world.stretches, 3 * 17);
	ck_assert_uint_le(world.events, 6);
}
END_TEST

START_TEST(a_driver_that_makes_no_events_lets_nothing_be_told)
{
	world.makes_no_events = true;
	step_time_leave_context(here);
	for (int i = 0; i < 20; i++) {
		step(100000, 2 * MILLISECOND, WHOLE);
		wait();
	}
	ck_assert_uint_eq(world.timed.mean_ns, 0);
	world.makes_no_events = false;
	for (int i = 0; i < 20; i++) {
		step(100000, 2 * MILLISECOND, WHOLE);
		wait();
	}
	takes(2 * MILLISECOND + 100000);
}
END_TEST

START_TEST(no_call_is_made_beside_a_capture)
{
	for (int i = 0; i < 60; i++) {
		size_t calls = world.recorded + world.asked;

		capture_count = i / 10 % 2;
		step(100000, 2 * MILLISECOND, WHOLE);
		wait();
		ck_assert(!capture_count || world.recorded + world.asked == calls);
	}
	capture_count = 0;
	takes(2 * MILLISECOND + 100000);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("step time");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, a_program_that_runs_ahead_takes_what_the_device_takes);
	tcase_add_test(tests, steps_behind_a_wait_are_not_all);
	tcase_add_test(tests, a_program_that_is_always_ahead_is_timed);
	tcase_add_test(tests, what_the_device_has_not_done_is_not_told);
	tcase_add_test(tests, a_program_that_waits_has_each_step_timed);
	tcase_add_test(tests, steps_that_are_short_cost_few_calls);
	tcase_add_test(tests, other_work_counts_from_step_to_step_and_in_no_stretch);
	tcase_add_test(tests, a_break_is_left_out);
	tcase_add_test(tests, steps_before_they_were_found_count);
	tcase_add_test(tests, steps_that_the_device_has_not_done_do_not_count);
	tcase_add_test(tests, other_steps_have_a_time_of_their_own);
	tcase_add_test(tests, steps_that_become_longer_are_followed);
	tcase_add_loop_test(tests, steps_in_several_contexts_are_timed_in_each, 0, 2);
	tcase_add_test(tests, a_driver_that_makes_no_events_lets_nothing_be_told);
	tcase_add_test(tests, no_call_is_made_beside_a_capture);
	return suite_run("step time", tests);
}
