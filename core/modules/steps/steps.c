/* SPDX-License-Identifier: MIT */
/*
 * Steps. Rules: runs inside the user's process, after a launch; one short lock, no allocation. The
 * driver is called where a step has ended, some thousand times a second at most.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/cuda/capture.h"
#include "core/job/launch.h"
#include "core/job/module.h"
#include "core/job/config.h"
#include "core/modules/steps/step.h"
#include "core/modules/steps/step_time.h"
#include "core/registry/actions.h"
#include "core/registry/step_container.h"
#include "core/rings/event.h"

/* All steps are counted; a reader that waits for an end need not hear of each this short. */
#define TOLD_EVERY_NS 1000000u

enum { PATIENCE_STEPS = 64 };

/* The reasons for which steps are looked for on a device. */
enum steps_reason { STEPS_FOR_SETTINGS = 1, STEPS_FOR_MODULES = 2, STEPS_REASONS = 2 };

static struct {
	QUICK_LOCK_OF(STEPS) lock;
	struct step_detector *detector; /* made when steps are first wanted, kept */
	_Atomic unsigned int wanted;    /* enum steps_reason, any of them */
	uint64_t counted, told_ns;
	uint64_t since;        /* launches since the newest step */
	uint64_t patience;     /* so many of them may be the rest of a step or other work; 0: any */
	struct step_ends ends; /* since their times were asked for */
} steps[DEVICE_MAX];

static int steps_after_launch(void *cookie, void *subject);

static const struct action stepping = {ACTION_STATISTICS, "steps", steps_after_launch, NULL};
static struct job_watch steps_watch = {.after = &stepping};

/* Sets whether steps are looked for on the device of this ordinal for this reason. */
static void steps_want(int ordinal, enum steps_reason what, bool wanted)
{
	bool made = true;

	lock_acquire(&steps[ordinal].lock);
	if (wanted && !steps[ordinal].detector) {
		steps[ordinal].detector = step_create();
		made = steps[ordinal].detector != NULL;
	}
	if (wanted && made)
		atomic_fetch_or(&steps[ordinal].wanted, what);
	else
		atomic_fetch_and(&steps[ordinal].wanted, ~(unsigned int)what);
	steps[ordinal].ends.are_mixed |= !wanted; /* an unseen launch is no step */
	lock_release(&steps[ordinal].lock);
	if (!job_launches_watch(&steps_watch, (uint64_t)what << STEPS_REASONS * ordinal,
	                        wanted && made) ||
	    !made)
		log_once(LOG_WARNING, "out of memory: steps of the program are not found");
}

/*
 * Counts a launch as looked at; with the lock held, so that no other thread adds. A program that
 * has gone on to other work for as long as 64 steps has perhaps gone on to other steps, which are
 * told only when they are found. Until then its launches are not counted as looked at, so that the
 * number of steps is said to be of those that were seen.
 */
static void steps_count_launch(struct counters *statistics, int ordinal)
{
	steps[ordinal].since++;
	if (!steps[ordinal].patience || steps[ordinal].since <= steps[ordinal].patience)
		statistics_count(&statistics->watched_launches);
}

/* Counts the launches before the end of a step that were left out. */
static void count_left_out(struct counters *statistics, int ordinal)
{
	uint64_t since = steps[ordinal].since, patience = steps[ordinal].patience;

	if (patience && since > patience)
		statistics_set(&statistics->watched_launches,
		               statistics_get(&statistics->watched_launches) + since - patience);
	steps[ordinal].patience = PATIENCE_STEPS * since;
	steps[ordinal].since = 0;
}

/* Adds a step to those that have ended; with the lock held. */
static void add_end(struct step_ends *ends, const struct step *step)
{
	ends->are_mixed |= !step->is_whole;
	ends->are_first |= step->is_first;
	if (step->is_first) {
		ends->first = step->first;
		ends->first_ns = step->first_ns;
	}
	ends->number = step->number;
	ends->count++;
}

/* Has the device measure the steps. */
static void time_steps(struct device *device, const struct step_ends *ends)
{
	struct step_timed timed;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	timed = step_time_take(device->id.ordinal, ends);
	pthread_setcancelstate(cancel, NULL);
	statistics_set(&device->statistics->step_ns, timed.mean_ns);
	if (timed.ns)
		event_note(.kind = EVENT_step, .device = device->id.ordinal,
		           .begin_ns = timed.end_ns - timed.ns, .duration_ns = timed.ns,
		           .a = timed.number);
}

/* Runs ACTION_STEP_END and ACTION_STEP_BEGIN where a step ends with the launch. */
static void steps_launched(const struct job_launch *launch)
{
	struct device *device = launch->device;
	int ordinal = device->id.ordinal;
	uint64_t now, counted;
	bool ended, is_told = false, is_timed = false;
	struct step_ends ends;
	struct step step;

	if (!atomic_load_explicit(&steps[ordinal].wanted, memory_order_relaxed))
		return;
	now = launch->pacer ? launch->at.now_ns : clock_now();
	lock_acquire(&steps[ordinal].lock);
	steps_count_launch(device->statistics, ordinal);
	ended = step_launch(steps[ordinal].detector, launch->function, launch->threads, now, &step);
	if (ended) {
		count_left_out(device->statistics, ordinal);
		counted = steps[ordinal].counted;
		steps[ordinal].counted = step.number;
		is_told = now - steps[ordinal].told_ns >= TOLD_EVERY_NS;
		if (is_told)
			steps[ordinal].told_ns = now;
		/*
		 * Where the counted units were no steps the number begins anew. No thread counts
		 * them without the lock, so the add need not be a locked one.
		 */
		statistics_set(&device->statistics->steps,
		               statistics_get(&device->statistics->steps) + step.number - counted);
		add_end(&steps[ordinal].ends, &step);
		is_timed = is_told || step_time_wants(ordinal, steps[ordinal].ends.count);
		if (is_timed) {
			ends = steps[ordinal].ends;
			steps[ordinal].ends = (struct step_ends){0};
		}
	}
	lock_release(&steps[ordinal].lock);
	if (is_timed) {
		ends.context = launch->context;
		ends.stream = launch->stream;
		ends.now_ns = now;
		ends.are_told = is_told;
		time_steps(device, &ends);
	}
	if (is_told) {
		actions_run(ACTION_STEP_END, device);
		actions_run(ACTION_STEP_BEGIN, device);
	}
}

static int steps_after_launch(void *cookie, void *subject)
{
	const struct job_launch *launch = subject;

	(void)cookie;
	/* A captured launch does not run. */
	if (launch->result == CUDA_SUCCESS && !capture_is_active())
		steps_launched(launch);
	return CUDA_SUCCESS;
}

/* Looks for steps where launches are paced or the limit can rise, or `steps` says so. */
static int steps_configured(void *cookie, void *subject)
{
	const struct job_change *change = subject;

	(void)cookie;
	for (int i = 0; i < change->devices->count; i++) {
		bool is_paced = change->paced & 1U << i;
		struct config_gpu settings;

		config_for_device(change->config, &change->devices->device[i].id, &settings);
		steps_want(i, STEPS_FOR_SETTINGS,
		           settings.steps == STEPS_ON ||
		               (settings.steps == STEPS_AUTO && (is_paced || settings.memory_max)));
	}
	return CUDA_SUCCESS;
}

/* --- records --- */

/*
 * The container of the step that runs now on a device, and the record in it, which is made at the
 * first request. The record has the counters when the step began, so that its own part can be told.
 * Both go with the step (core/registry/step_container.h). Before a step has ended on a device there
 * is none. Thread-safe.
 *
 * At the end of a step that is reported, once a millisecond at most, the counting begins anew; a
 * record of it is made when `stat --resources` asks.
 */

struct step_counts {
	uint64_t launches, moved_bytes, idle_ns;
};

struct step_record {
	struct resource resource;
	struct device *device;
	uint64_t began_ns; /* of core/base/clock.h */
	struct step_counts before;
};

static struct {
	LOCK_OF(STEP_RECORDS) lock;
	bool is_begun;
	struct step_container container;
	uint64_t began_ns;
	struct step_counts before;
} step_records[DEVICE_MAX] = {[0 ... DEVICE_MAX - 1] = {.lock = LOCK_FREE}};

static uint64_t launches(const struct counters *s)
{
	return counters_get(s, launches) + counters_get(s, graph_launches);
}

static uint64_t moved_bytes(const struct counters *s)
{
	return statistics_get(&s->demoted_bytes) + statistics_get(&s->promoted_bytes);
}

static void record_describe(const struct resource *resource, char *buf, size_t size)
{
	const struct step_record *r = (const struct step_record *)resource;
	const struct counters *s = r->device->statistics;

	snprintf(buf, size,
	         "%" PRIu64 " launches, %" PRIu64 " bytes moved, %" PRIu64 " ns idle, in %" PRIu64
	         " ns so far",
	         launches(s) - r->before.launches, moved_bytes(s) - r->before.moved_bytes,
	         statistics_get(&s->idle_ns) - r->before.idle_ns, clock_now() - r->began_ns);
}

static void record_destroy(struct resource *resource)
{
	free(resource);
}

static const struct resource_type step_record_type = {
    .name = "step_statistics", .describe = record_describe, .destroy = record_destroy};

static struct resource *record_create(void *cookie)
{
	struct device *device = cookie;
	struct step_record *r = malloc(sizeof(*r));

	if (!r)
		return NULL;
	*r = (struct step_record){.device = device,
	                          .began_ns = step_records[device->id.ordinal].began_ns,
	                          .before = step_records[device->id.ordinal].before};
	resource_init(&r->resource, &step_record_type);
	return &r->resource;
}

/*
 * Ends the step's container. It runs within a launch, so it allocates nothing: step_record_of()
 * makes the record of the next step when a caller first asks for it.
 */
static int step_record_end_step(void *cookie, void *subject)
{
	int ordinal = ((struct device *)subject)->id.ordinal;

	(void)cookie;
	lock_acquire(&step_records[ordinal].lock);
	if (step_records[ordinal].is_begun)
		step_container_end(&step_records[ordinal].container);
	step_records[ordinal].is_begun = false;
	lock_release(&step_records[ordinal].lock);
	return CUDA_SUCCESS;
}

static int step_record_begin_step(void *cookie, void *subject)
{
	struct device *device = subject;
	const struct counters *s = device->statistics;
	int ordinal = device->id.ordinal;

	(void)cookie;
	lock_acquire(&step_records[ordinal].lock);
	step_container_begin(&step_records[ordinal].container, device->registry,
	                     statistics_get(&s->steps) + 1);
	step_records[ordinal].is_begun = true;
	step_records[ordinal].began_ns = clock_now();
	step_records[ordinal].before =
	    (struct step_counts){launches(s), moved_bytes(s), statistics_get(&s->idle_ns)};
	lock_release(&step_records[ordinal].lock);
	return CUDA_SUCCESS;
}

/*
 * Returns the record of the step that runs now, with a reference for the caller; NULL if none runs,
 * or without memory for it.
 */
static struct resource *step_record_of(struct device *device)
{
	int ordinal = device->id.ordinal;
	struct resource *record = NULL;

	lock_acquire(&step_records[ordinal].lock);
	if (step_records[ordinal].is_begun)
		record = step_container_lookup_or_create(&step_records[ordinal].container,
		                                         &step_record_type, "record", record_create,
		                                         device);
	lock_release(&step_records[ordinal].lock);
	return record;
}

/*
 * Adds the actions that follow the steps to ACTION_STEP_END and ACTION_STEP_BEGIN. Returns false
 * without memory for it.
 */
static bool step_record_start(void)
{
	static const struct action ends = {ACTION_STATISTICS, "record", step_record_end_step, NULL};
	static const struct action begins = {ACTION_STATISTICS, "record", step_record_begin_step,
	                                     NULL};

	return action_add(ACTION_STEP_END, &ends) == 0 &&
	       action_add(ACTION_STEP_BEGIN, &begins) == 0;
}

/* --- the module --- */

static void steps_start(bool *has_started)
{
	/* After the action that says which devices are paced. */
	static const struct action configured = {ACTION_MEASURES, "steps", steps_configured, NULL};

	*has_started &= step_record_start() && action_add(ACTION_CONFIG_CHANGED, &configured) == 0;
}

static void steps_want_for_modules(int ordinal, bool wanted)
{
	steps_want(ordinal, STEPS_FOR_MODULES, wanted);
}

/* The record of a step is made when its resources are asked for, and goes with the step. */
static void steps_list(struct device *device)
{
	resource_release(step_record_of(device));
}

const struct module module_steps = {.name = "steps",
                                    .start = steps_start,
                                    .leave_context = step_time_leave_context,
                                    .want_steps = steps_want_for_modules,
                                    .list = steps_list};
