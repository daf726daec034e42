/* SPDX-License-Identifier: MIT */
/*
 * Surveys in virtual time: a device that runs one kernel after the other, and its events. The state
 * machine runs from the first launch to the last time that is read. Each way in which a survey
 * fails is tested, too.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/modules/placement/survey.h"
#include "core/modules/placement/touch.h"
#include "suite.h"

#define SECOND  ((uint64_t)1000000000)
#define CONTEXT ((CUcontext)0x100)
#define STREAM  ((CUstream)0x200)
#define KERNEL  ((CUfunction)0x300)
#define GRAPH   ((CUgraphExec)0x400)
enum { DEVICE = 1, OTHER = 2 };

/* --- the world --- */

enum { EVENTS = 2 * SURVEY_LAUNCHES + 8 };

static struct {
	uint64_t now, work_ends; /* of the device */
	struct event {
		bool is_made, is_recorded;
		uint64_t at;
	} event[EVENTS];
	size_t events, made, destroyed;
	bool makes_no_events, is_context_gone;
	int pushed;
	bool is_asked, is_asked_for_steps;
	int uses;          /* that the next launch has; -1: nobody knows */
	CUdeviceptr given; /* the address that its kernel is given; 0: not known */
} world;

struct driver driver;

static CUresult event_create(CUevent *event, unsigned int flags)
{
	(void)flags;
	if (world.makes_no_events)
		return CUDA_ERROR_OUT_OF_MEMORY;
	ck_assert_uint_lt(world.events, EVENTS);
	world.event[world.events].is_made = true;
	*event = (CUevent)&world.event[world.events++];
	world.made++;
	return CUDA_SUCCESS;
}

static CUresult event_destroy(CUevent event)
{
	struct event *e = (struct event *)event;

	ck_assert(e->is_made);
	ck_assert_int_gt(world.pushed, 0);
	e->is_made = false;
	world.destroyed++;
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	struct event *e = (struct event *)event;

	ck_assert(e->is_made);
	ck_assert_ptr_eq(stream, STREAM);
	e->is_recorded = true;
	e->at = world.work_ends > world.now ? world.work_ends : world.now;
	return CUDA_SUCCESS;
}

static CUresult event_elapsed(float *ms, CUevent begin, CUevent end)
{
	const struct event *b = (struct event *)begin, *e = (struct event *)end;

	ck_assert(b->is_made && e->is_made);
	ck_assert_int_gt(world.pushed, 0);
	if (!b->is_recorded || !e->is_recorded)
		return CUDA_ERROR_INVALID_HANDLE;
	if (e->at > world.now)
		return CUDA_ERROR_NOT_READY;
	*ms = (float)((double)(e->at - b->at) / 1e6);
	return CUDA_SUCCESS;
}

CUresult context_push(CUcontext handle)
{
	ck_assert_ptr_eq(handle, CONTEXT);
	if (world.is_context_gone)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	world.pushed++;
	return CUDA_SUCCESS;
}

void context_pop(CUcontext handle)
{
	ck_assert_ptr_eq(handle, CONTEXT);
	world.pushed--;
}

static int write_uses(CUdeviceptr *runs, size_t room)
{
	if (world.uses < 0 || (size_t)world.uses > room)
		return -1;
	for (int i = 0; i < world.uses; i++)
		runs[i] = 0x1000 * (CUdeviceptr)(i + 1);
	return world.uses;
}

static void check_launch(const void *graph, CUfunction function, void **parameters, void **extra)
{
	ck_assert(graph ? graph == GRAPH : function == KERNEL && !parameters && !extra);
}

int heat_uses_of(const void *graph, CUfunction function, void **parameters, void **extra,
                 CUdeviceptr *runs, size_t room)
{
	check_launch(graph, function, parameters, extra);
	return write_uses(runs, room);
}

uint64_t heat_value_of_uses(const void *graph, CUfunction function, void **parameters, void **extra)
{
	check_launch(graph, function, parameters, extra);
	return 64 * (uint64_t)world.uses;
}

/* The kernel of a launch was given one address; of a graph they are not known. */
size_t heat_given(CUdeviceptr *words, size_t room)
{
	ck_assert_uint_ge(room, 2);
	if (!world.given)
		return 0;
	words[0] = world.given;
	words[1] = 0;
	return 2;
}

static void ask(int ordinal, bool launches, bool steps)
{
	ck_assert_int_eq(ordinal, DEVICE);
	world.is_asked = launches;
	world.is_asked_for_steps = steps;
}

/* --- the program --- */

static struct survey_launch launch_of(bool is_graph)
{
	return (struct survey_launch){.key = is_graph ? 2 : 1,
	                              .stream = STREAM,
	                              .graph = is_graph ? GRAPH : NULL,
	                              .function = KERNEL,
	                              .is_launched = true};
}

static void launch(bool is_graph, uint64_t ns)
{
	struct survey_mark mark = survey_before(DEVICE, CONTEXT, STREAM);
	struct survey_launch launch = launch_of(is_graph);

	world.work_ends = (world.work_ends > world.now ? world.work_ends : world.now) + ns;
	survey_after(&mark, &launch);
}

static void set_up(void)
{
	memset(&world, 0, sizeof(world));
	world.now = SECOND;
	world.uses = 2;
	driver.cuEventCreate = event_create;
	driver.cuEventDestroy_v2 = event_destroy;
	driver.cuEventRecord = event_record;
	driver.cuEventElapsedTime = event_elapsed;
	survey_serve(ask);
}

static void tear_down(void)
{
	survey_end();
	ck_assert(!world.is_asked);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_NONE);
	ck_assert_int_eq(world.pushed, 0);
	if (!world.is_context_gone)
		ck_assert_uint_eq(world.made, world.destroyed);
	ck_assert_uint_eq(capture_count, 0);
}

/* Begins one, and lets time pass in which something might have come again. */
static void begin_seeking(void)
{
	ck_assert(survey_begin(DEVICE, true, world.now));
	ck_assert_int_eq(survey_poll(world.now += SURVEY_TRIES_NS), SURVEY_SOUGHT);
}

static void begin_taking(void)
{
	begin_seeking();
	survey_step_ended(DEVICE);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_TAKEN);
}

/* --- tests --- */

START_TEST(two_steps_are_measured)
{
	const struct survey *found;

	ck_assert(survey_begin(DEVICE, true, world.now));
	ck_assert(world.is_asked && world.is_asked_for_steps);
	ck_assert(!survey_begin(OTHER, true, world.now)); /* one at a time */
	launch(false, 5000);                              /* before the first step has ended */
	ck_assert_int_eq(survey_poll(world.now), SURVEY_SOUGHT);
	survey_step_ended(OTHER);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_SOUGHT);
	survey_step_ended(DEVICE); /* before anything might have come again */
	ck_assert_int_eq(survey_poll(world.now += SURVEY_TRIES_NS), SURVEY_SOUGHT);
	survey_step_ended(DEVICE);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_TAKEN);
	for (int step = 0; step < SURVEY_STEPS; step++) {
		world.given = 0x1234;
		launch(false, 1000000);
		world.given = 0;
		world.uses = 3;
		launch(true, 2000000);
		world.uses = 0;
		launch(false, 3000000);
		world.uses = 2;
		ck_assert_int_eq(survey_poll(world.now), SURVEY_TAKEN);
		survey_step_ended(DEVICE);
	}
	launch(false, 4000000); /* after the last */
	ck_assert_int_eq(survey_poll(world.now), SURVEY_READ);
	ck_assert(!world.is_asked); /* the program is left in peace while the device works */
	ck_assert(!survey_found());
	world.now = world.work_ends;
	ck_assert_int_eq(survey_poll(world.now), SURVEY_DONE);
	found = survey_found();
	ck_assert_uint_eq(found->kernels, 6);
	ck_assert_uint_eq(found->uses, 10);
	/* Of each step's first launch it is known where its memory is. */
	ck_assert_uint_eq(found->givens, 2 * 4);
	for (size_t step = 0; step < 2; step++) {
		const CUdeviceptr *given = found->given + 4 * step;

		ck_assert_uint_eq(given[0], 3 * step);
		ck_assert_uint_eq(given[1], 0x1234);
		ck_assert_uint_eq(given[2], 0);
		ck_assert_uint_eq(given[3], SURVEY_GIVEN_END);
	}
	for (size_t i = 0; i < 6; i++) {
		const struct weigh_kernel *k = &found->kernel[i];
		const uint32_t uses[] = {2, 3, 0};

		ck_assert_uint_eq(k->key, i % 3 == 1 ? 2 : 1);
		ck_assert_uint_eq(k->ns / 1000, (i % 3 + 1) * 1000);
		ck_assert_uint_eq(k->uses, uses[i % 3]);
		for (uint32_t u = 0; u < k->uses; u++)
			ck_assert_uint_eq(found->use[k->first + u], 0x1000 * (u + 1));
	}
}
END_TEST

enum { STEP = 5 };

/* A step of launches that differ in the memory they use alone. */
static void launch_step(void)
{
	for (int i = 0; i < STEP; i++) {
		world.uses = i;
		launch(false, 1000000);
	}
}

/* Who finds steps by their functions alone takes each of such launches for one. */
START_TEST(a_launch_is_no_step_where_more_comes_again)
{
	begin_seeking();
	for (int i = 0; i < 3 * STEP; i++) {
		world.uses = i % STEP;
		launch(false, 1000000);
		/* Twice through it is known. */
		if (i >= 2 * STEP - 1) {
			ck_assert_int_eq(survey_poll(world.now), SURVEY_SOUGHT);
			survey_step_ended(DEVICE);
		}
	}
	ck_assert_int_eq(survey_poll(world.now += SURVEY_TRIES_NS), SURVEY_TAKEN);
	for (int i = 0; i < SURVEY_STEPS * STEP; i++) {
		ck_assert_int_eq(survey_poll(world.now), SURVEY_TAKEN);
		world.uses = i % STEP;
		launch(false, 1000000);
		survey_step_ended(DEVICE);
	}
	ck_assert_int_eq(survey_poll(world.now), SURVEY_READ);
	ck_assert_uint_eq(world.made, 2 * SURVEY_STEPS * STEP);
}
END_TEST

/* What comes again exactly is its step, once it has done so twice and for a while. */
START_TEST(what_comes_again_is_a_step)
{
	ck_assert(survey_begin(DEVICE, true, world.now));
	launch(true, 1000); /* before the first */
	launch_step();
	ck_assert_int_eq(survey_poll(world.now += 10 * SECOND), SURVEY_SOUGHT);
	launch_step();
	ck_assert_int_eq(survey_poll(world.now), SURVEY_SOUGHT);
	ck_assert_int_eq(survey_poll(world.now + SURVEY_TRIES_NS - 1), SURVEY_SOUGHT);
	ck_assert_uint_eq(world.made, 0); /* nothing is measured yet */
	ck_assert_int_eq(survey_poll(world.now += SURVEY_TRIES_NS), SURVEY_TAKEN);
	world.uses = 0;
	launch(false, 1000000); /* in the middle of what was found is as well as at its beginning */
	survey_step_ended(DEVICE);
	survey_step_ended(DEVICE);
	for (int i = 1; i < SURVEY_STEPS * STEP; i++) {
		ck_assert_int_eq(survey_poll(world.now), SURVEY_TAKEN);
		world.uses = i % STEP;
		launch(false, 1000000);
	}
	ck_assert_int_eq(survey_poll(world.now), SURVEY_READ);
	ck_assert(!world.is_asked);
	launch(false, 1000000);
	world.now = world.work_ends;
	ck_assert_int_eq(survey_poll(world.now), SURVEY_DONE);
	ck_assert_uint_eq(survey_found()->kernels, SURVEY_STEPS * STEP);
	ck_assert_uint_eq(survey_found()->uses, SURVEY_STEPS * STEP * (STEP - 1) / 2);
	for (size_t i = 0; i < survey_found()->kernels; i++)
		ck_assert_uint_eq(survey_found()->kernel[i].ns / 1000, 1000);
}
END_TEST

/* A program that repeats itself and then does something else has begun anew. */
START_TEST(what_comes_again_for_a_moment_is_none)
{
	ck_assert(survey_begin(DEVICE, true, world.now));
	for (int i = 0; i < 10; i++) {
		launch_step();
		launch_step();
		ck_assert_int_eq(survey_poll(world.now), SURVEY_SOUGHT);
		world.uses = STEP + i;
		launch(true, 1000);
		ck_assert_int_eq(survey_poll(world.now += SURVEY_TRIES_NS), SURVEY_SOUGHT);
	}
	survey_step_ended(DEVICE);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_TAKEN);
	launch_step();
	survey_step_ended(DEVICE);
	survey_step_ended(DEVICE);
	world.now = world.work_ends;
	ck_assert_int_eq(survey_poll(world.now), SURVEY_DONE);
	ck_assert_uint_eq(survey_found()->kernels, STEP);
}
END_TEST

/* Launches that never repeat are looked at up to a bound, and again once the second is over. */
START_TEST(a_look_ends_and_the_next_one_begins)
{
	uint64_t began = world.now;
	int count;

	ck_assert(survey_begin(DEVICE, true, began));
	for (int look = 0; look < 3; look++) {
		ck_assert(world.is_asked && world.is_asked_for_steps);
		for (count = 0; world.is_asked; count++) {
			world.uses++;
			launch(false, 10);
		}
		ck_assert_int_gt(count, SURVEY_LOOK);
		ck_assert_int_le(count, SURVEY_LOOK + SURVEY_LOOK_ROOM);
		ck_assert(!world.is_asked_for_steps);
		survey_step_ended(
		    DEVICE); /* found for another purpose: its launches were not seen */
		began += SURVEY_LOOK_NS;
		ck_assert_int_eq(survey_poll(began - 1), SURVEY_SOUGHT);
		ck_assert(!world.is_asked);
		ck_assert_int_eq(survey_poll(began), SURVEY_SOUGHT);
	}
	/* As many in more than a second are all looked at. */
	for (int i = 0; i < 2 * SURVEY_LOOK; i++) {
		world.uses++;
		launch(false, 10);
		if (i % (SURVEY_LOOK / 2) == 0)
			ck_assert_int_eq(survey_poll(began += SURVEY_LOOK_NS), SURVEY_SOUGHT);
	}
	ck_assert(world.is_asked);
}
END_TEST

START_TEST(a_look_goes_on_while_launches_repeat)
{
	ck_assert(survey_begin(DEVICE, true, world.now));
	for (int i = 0; i < 3 * SURVEY_LOOK; i += STEP)
		launch_step();
	ck_assert(world.is_asked);
	for (int i = 0; i < SURVEY_LOOK; i++) { /* then they do not */
		world.uses = 2 * STEP + i;
		launch(false, 10);
	}
	ck_assert(!world.is_asked);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_SOUGHT);
}
END_TEST

enum { THREADS = 4, LAUNCHES = 5 * SURVEY_LOOK_ROOM };

static void *look_from_thread(void *unused)
{
	struct survey_launch launch = launch_of(false);

	for (int i = 0; i < LAUNCHES; i++) {
		struct survey_mark mark = survey_before(DEVICE, CONTEXT, STREAM);

		survey_after(&mark, &launch);
	}
	return unused;
}

/* Launches of several threads at once leave nothing behind that hides a repeat. */
START_TEST(threads_are_looked_at_together)
{
	pthread_t thread[THREADS];

	ck_assert(survey_begin(DEVICE, true, world.now));
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, look_from_thread, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_join(thread[i], NULL), 0);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_SOUGHT);
	/* All were alike: each is a step. */
	ck_assert_int_eq(survey_poll(world.now += SURVEY_TRIES_NS), SURVEY_TAKEN);
	launch(false, 1000);
	launch(false, 1000);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_READ);
	ck_assert_uint_eq(world.made, 2 * SURVEY_STEPS);
}
END_TEST

/* Of each kernel the faster time of both steps counts, unless the steps differ. */
START_TEST(a_machine_that_is_busy_only_adds)
{
	begin_taking();
	launch(false, 1000000);
	launch(true, 9000000);
	survey_step_ended(DEVICE);
	launch(false, 3000000);
	launch(_i == 1, 2000000);
	survey_step_ended(DEVICE);
	world.now = world.work_ends;
	ck_assert_int_eq(survey_poll(world.now), SURVEY_DONE);
	ck_assert_uint_eq(survey_found()->kernel[0].ns / 1000, 1000);
	ck_assert_uint_eq(survey_found()->kernel[1].ns / 1000, _i == 1 ? 2000 : 9000);
	ck_assert_uint_eq(survey_found()->kernel[2].ns / 1000, _i == 1 ? 1000 : 3000);
	ck_assert_uint_eq(survey_found()->kernel[3].ns / 1000, 2000);
}
END_TEST

START_TEST(without_steps_a_while_is_counted)
{
	ck_assert(survey_begin(DEVICE, true, world.now));
	ck_assert_int_eq(survey_poll(world.now + SURVEY_SEEKS_NS - 1), SURVEY_SOUGHT);
	world.now += SURVEY_SEEKS_NS;
	ck_assert_int_eq(survey_poll(world.now), SURVEY_WITHOUT_STEPS);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_WITHOUT_STEPS);
	survey_without_steps(world.now, false);
	launch(false, 1000);
	survey_step_ended(DEVICE); /* of those it does not ask any more */
	survey_step_ended(DEVICE);
	launch(false, 1000);
	ck_assert_int_eq(survey_poll(world.now + SURVEY_WHILE_NS - 1), SURVEY_TAKEN);
	ck_assert_int_eq(survey_poll(world.now + SURVEY_WHILE_NS), SURVEY_DONE);
	ck_assert_uint_eq(survey_found()->kernels, 2);
	ck_assert_uint_eq(survey_found()->kernel[1].ns, 0);
	ck_assert_uint_eq(survey_found()->kernel[1].uses, 2);
	ck_assert_uint_eq(world.made, 0);
}
END_TEST

START_TEST(without_steps_a_while_is_measured)
{
	ck_assert(survey_begin(DEVICE, false, world.now));
	ck_assert_int_eq(survey_poll(world.now), SURVEY_WITHOUT_STEPS);
	survey_without_steps(world.now, true);
	launch(false, 1000000);
	launch(false, 3000000);
	world.now += SURVEY_WHILE_NS;
	ck_assert_int_eq(survey_poll(world.now), SURVEY_READ);
	world.now += world.work_ends;
	ck_assert_int_eq(survey_poll(world.now), SURVEY_DONE);
	ck_assert(!survey_found()->has_steps);
	/* Each as it was measured, and when it began. */
	ck_assert_uint_eq(survey_found()->kernel[0].ns / 1000, 1000);
	ck_assert_uint_eq(survey_found()->kernel[1].ns / 1000, 3000);
	ck_assert_uint_eq(survey_found()->kernel[1].at_ns / 1000, 1000);
}
END_TEST

START_TEST(where_no_steps_are_looked_for_none_are_waited_for)
{
	ck_assert(survey_begin(DEVICE, false, world.now));
	ck_assert_int_eq(survey_poll(world.now), SURVEY_WITHOUT_STEPS);
	ck_assert(world.is_asked && !world.is_asked_for_steps);
}
END_TEST

START_TEST(it_fails_where_nobody_knows_what_a_kernel_uses)
{
	begin_taking();
	launch(false, 1000);
	if (_i == 0) {
		world.uses = -1;
		launch(false, 1000);
	} else {
		struct survey_mark mark = survey_before(DEVICE, CONTEXT, STREAM);
		struct survey_launch blind = launch_of(false);

		blind.is_blind = true;
		survey_after(&mark, &blind);
	}
	ck_assert_int_eq(survey_poll(world.now), SURVEY_FAILED);
	ck_assert_ptr_nonnull(strstr(survey_failure(), "use is not known"));
	ck_assert(!survey_found());
	ck_assert(!world.is_asked);
	launch(false, 1000); /* nobody listens */
	survey_step_ended(DEVICE);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_FAILED);
}
END_TEST

START_TEST(it_fails_where_steps_are_too_large)
{
	begin_taking();
	world.uses = 0;
	for (int i = 0; i < SURVEY_LAUNCHES; i++)
		launch(false, 10);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_TAKEN);
	launch(false, 10);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_FAILED);
	ck_assert_ptr_nonnull(strstr(survey_failure(), "too many"));
}
END_TEST

START_TEST(it_fails_where_steps_use_too_much)
{
	begin_taking();
	for (int i = 0; i < 2; i++) {
		world.uses = SURVEY_USES / 2 + 1;
		launch(false, 10);
	}
	ck_assert_int_eq(survey_poll(world.now), SURVEY_FAILED);
}
END_TEST

START_TEST(it_fails_where_steps_do_not_end)
{
	begin_taking();
	launch(false, 10);
	survey_step_ended(DEVICE);
	ck_assert_int_eq(survey_poll(world.now + SURVEY_LASTS_NS - 1), SURVEY_TAKEN);
	ck_assert_int_eq(survey_poll(world.now + SURVEY_LASTS_NS), SURVEY_FAILED);
	ck_assert_ptr_nonnull(strstr(survey_failure(), "too long"));
}
END_TEST

/* Also where both steps have ended before the mover looks again. */
START_TEST(it_fails_where_kernels_do_not_end)
{
	begin_seeking();
	survey_step_ended(DEVICE);
	launch(false, UINT64_MAX / 2);
	survey_step_ended(DEVICE);
	survey_step_ended(DEVICE);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_READ);
	ck_assert_int_eq(survey_poll(world.now + SURVEY_LASTS_NS - 1), SURVEY_READ);
	ck_assert_int_eq(survey_poll(world.now + SURVEY_LASTS_NS), SURVEY_FAILED);
}
END_TEST

START_TEST(it_fails_where_the_driver_makes_no_events)
{
	begin_taking();
	world.makes_no_events = true;
	launch(false, 10);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_FAILED);
}
END_TEST

/* The events go with their context. */
START_TEST(it_fails_where_a_context_goes)
{
	begin_taking();
	launch(false, 10);
	survey_leave_context((CUcontext)0x999);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_TAKEN);
	survey_leave_context(CONTEXT);
	world.is_context_gone = true;
	ck_assert_int_eq(survey_poll(world.now), SURVEY_FAILED);
	survey_end();
	ck_assert_uint_eq(world.destroyed, 0);
}
END_TEST

/* A context that goes while the survey does not know yet. */
START_TEST(nothing_is_asked_of_a_context_that_goes)
{
	begin_taking();
	launch(false, 10);
	survey_step_ended(DEVICE);
	survey_step_ended(DEVICE);
	world.is_context_gone = true;
	ck_assert_int_eq(survey_poll(world.now + 1000), SURVEY_DONE);
	ck_assert_uint_eq(survey_found()->kernel[0].ns, 0);
}
END_TEST

START_TEST(a_launch_that_fails_uses_nothing)
{
	struct survey_mark mark;
	struct survey_launch failed = launch_of(false);

	begin_taking();
	mark = survey_before(DEVICE, CONTEXT, STREAM);
	failed.is_launched = false;
	survey_after(&mark, &failed);
	survey_step_ended(DEVICE);
	survey_step_ended(DEVICE);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_DONE);
	ck_assert_uint_eq(survey_found()->kernels, 1);
	ck_assert_uint_eq(survey_found()->kernel[0].uses, 0);
	ck_assert_uint_eq(survey_found()->kernel[0].ns, 0);
}
END_TEST

START_TEST(what_is_captured_or_of_another_device_is_not_taken)
{
	begin_taking();
	capture_count = 1;
	launch(false, 10);
	ck_assert_uint_eq(survey_before(DEVICE, CONTEXT, STREAM).survey, 0);
	capture_count = 0;
	ck_assert_uint_eq(survey_before(OTHER, CONTEXT, STREAM).survey, 0);
	ck_assert_uint_eq(world.made, 0);
	survey_step_ended(DEVICE);
	survey_step_ended(DEVICE);
	capture_count = 1; /* the driver is not called while one is active */
	ck_assert_int_eq(survey_poll(world.now), SURVEY_READ);
	capture_count = 0;
	ck_assert_int_eq(survey_poll(world.now), SURVEY_DONE);
}
END_TEST

/* A thread that was in the driver for long comes back to another survey. */
START_TEST(who_comes_late_is_not_taken)
{
	struct survey_mark mark;
	struct survey_launch late = launch_of(false);

	begin_taking();
	mark = survey_before(DEVICE, CONTEXT, STREAM);
	survey_after(&mark, &late);
	survey_end();
	survey_after(&mark, &late);
	begin_taking();
	survey_after(&mark, &late);
	survey_step_ended(DEVICE);
	survey_step_ended(DEVICE);
	ck_assert_int_eq(survey_poll(world.now), SURVEY_DONE);
	ck_assert_uint_eq(survey_found()->kernels, 0);
	ck_assert_uint_eq(survey_found()->uses, 0);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("survey");

	tcase_add_checked_fixture(tests, set_up, tear_down);
	tcase_add_test(tests, two_steps_are_measured);
	tcase_add_test(tests, a_launch_is_no_step_where_more_comes_again);
	tcase_add_test(tests, what_comes_again_is_a_step);
	tcase_add_test(tests, what_comes_again_for_a_moment_is_none);
	tcase_add_test(tests, a_look_ends_and_the_next_one_begins);
	tcase_add_test(tests, a_look_goes_on_while_launches_repeat);
	tcase_add_test(tests, threads_are_looked_at_together);
	tcase_add_loop_test(tests, a_machine_that_is_busy_only_adds, 0, 2);
	tcase_add_test(tests, without_steps_a_while_is_counted);
	tcase_add_test(tests, without_steps_a_while_is_measured);
	tcase_add_test(tests, where_no_steps_are_looked_for_none_are_waited_for);
	tcase_add_loop_test(tests, it_fails_where_nobody_knows_what_a_kernel_uses, 0, 2);
	tcase_add_test(tests, it_fails_where_steps_are_too_large);
	tcase_add_test(tests, it_fails_where_steps_use_too_much);
	tcase_add_test(tests, it_fails_where_steps_do_not_end);
	tcase_add_test(tests, it_fails_where_kernels_do_not_end);
	tcase_add_test(tests, it_fails_where_the_driver_makes_no_events);
	tcase_add_test(tests, it_fails_where_a_context_goes);
	tcase_add_test(tests, nothing_is_asked_of_a_context_that_goes);
	tcase_add_test(tests, a_launch_that_fails_uses_nothing);
	tcase_add_test(tests, what_is_captured_or_of_another_device_is_not_taken);
	tcase_add_test(tests, who_comes_late_is_not_taken);
	return suite_run("survey", tests);
}
