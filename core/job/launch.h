/* SPDX-License-Identifier: MIT */
/*
 * Launches on which something acts: counted where the process has several devices, paced, looked at
 * for steps.
 */
#ifndef SPILLWAY_JOB_LAUNCH_H
#define SPILLWAY_JOB_LAUNCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/budget/device.h"
#include "core/cuda/gate.h"
#include "core/pace/pacer.h"
#include "core/registry/actions.h"

/* Returns where the calling thread's launches are counted, where no page says. */
struct counters *job_current_statistics(void);

/*
 * Returns whether any action is listed for launches, such as pacing or a survey. Such a launch goes
 * through job_begin_launch(); any other is counted by the caller, and that is all. Budget: no
 * system call, no lock, no allocation, one predictable branch.
 */
static inline bool job_launch_has_actions(void)
{
	return actions_are_any(ACTION_PRE_LAUNCH);
}

static inline struct counters *job_launch_statistics(void)
{
	struct counters *only = atomic_load_explicit(&wiped.statistics, memory_order_acquire);

	return __builtin_expect(only != NULL, 1) ? only : job_current_statistics();
}

/* LAUNCH_BLIND: kernels with unknown parameters. */
enum job_launch_kind { LAUNCH_KERNEL, LAUNCH_GRAPH, LAUNCH_BLIND };

/* Counts a launch: in the thread's own place, if its number at the gate is one of the first. */
static inline void job_count_launch(struct counters *s, enum job_launch_kind kind)
{
	const struct gate_thread *thread = gate_thread;

	if (__builtin_expect(thread && thread->number < COUNTERS_PLACES, 1)) {
		struct counters_place *place = &s->place[thread->number];

		statistics_count(kind == LAUNCH_GRAPH ? &place->graph_launches : &place->launches);
	} else {
		statistics_add(kind == LAUNCH_GRAPH ? &s->graph_launches : &s->launches, 1);
	}
}

/* One launch on the slow path: the subject of ACTION_PRE_LAUNCH and ACTION_POST_LAUNCH. */
struct job_launch {
	enum job_launch_kind kind;
	CUstream stream;            /* NULL replaced as pacer.h says */
	uint64_t function, threads; /* the launched function, and how many threads, all together */
	void **parameters, **extra; /* of a kernel, as for cuLaunchKernel */
	struct device *device;      /* of the current context; NULL: no action is run */
	CUcontext context;
	CUresult result; /* afterwards: the call's answer */

	bool is_counted;
	struct pacer *pacer; /* NULL: not paced */
	struct pacer_launch at;
	uint64_t survey; /* core/modules/placement/survey.h; 0: none takes this launch */
	size_t survey_launch;
};

/* Decides before the driver's launch whether it is to be. May sleep. */
CUresult job_begin_launch(struct job_launch *launch);
/* Ends job_begin_launch(), after the driver's launch or instead of it. */
static inline void job_end_launch(struct job_launch *launch)
{
	if (launch->device)
		actions_run(ACTION_POST_LAUNCH, launch);
}

void job_break_paced(void);
void job_before_timing_paced(void);
/*
 * Ends the measurement, before the current context is given any work but a launch, and before it is
 * waited for.
 */
static inline void job_break(void)
{
	if (job_launch_has_actions())
		job_break_paced();
}
/* Lets a slot that is due come before an event that keeps time is recorded. May sleep. */
static inline void job_before_timing(void)
{
	if (job_launch_has_actions())
		job_before_timing_paced();
}

/* Makes the data that launches need, before the first one. Returns false without memory for it. */
bool job_launches_start(void);
/* A part of the process that acts on launches. Static, and zero at first. */
struct job_watch {
	const struct action *before, *after; /* NULL: none */
	/* Of core/job/launch.c: */
	uint64_t reasons; /* for which it looks; 0: it does not */
	bool is_known;
	struct job_watch *next;
};

/*
 * Has the actions of a part run with each launch from now on, or no more. They run while one of the
 * part's reasons, a bit each, is left. Returns false where memory is lacking; some of it is as it
 * was then.
 */
bool job_launches_watch(struct job_watch *watch, uint64_t reason, bool is_wanted);
/*
 * Sets whether launches are held back from now on for this reason: a share, or that launches on a
 * device wait for gaps that guaranteed jobs leave. As above.
 */
#define HELD_BY_SHARE             1ull
#define HELD_TO_GIVE_WAY(ordinal) (2ull << (ordinal))
bool job_launches_hold(uint64_t reason, bool is_held);

#endif
