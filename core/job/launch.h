/* Launches on which something acts: counted where the process has several devices, paced, looked at for steps. */
#ifndef SPILLWAY_JOB_LAUNCH_H
#define SPILLWAY_JOB_LAUNCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/budget/device.h"
#include "core/pace/pacer.h"
#include "core/registry/actions.h"

/* Where the calling thread's launches are counted, where no page says. */
struct counters *job_current_statistics(void);

/*
 * Whether a launch is to go through job_begin_launch(), because something acts on launches: pacing, if nothing else; else
 * it is counted here and that is all. Budget: no system call, no lock, no allocation, one predictable branch.
 */
static inline bool job_launch_is_paced(void)
{
	return actions_are_any(ACTION_PRE_LAUNCH);
}

static inline struct counters *job_launch_statistics(void)
{
	struct counters *only = atomic_load_explicit(&wiped.statistics, memory_order_acquire);

	return __builtin_expect(only != NULL, 1) ? only : job_current_statistics();
}

enum job_launch_kind { LAUNCH_KERNEL, LAUNCH_GRAPH };

/* One launch on its way through the slow path: what ACTION_PRE_LAUNCH and ACTION_POST_LAUNCH act on. */
struct job_launch {
	enum job_launch_kind kind;
	CUstream stream;            /* NULL replaced as pacer.h says */
	uint64_t function, threads; /* what is launched, and how many of them, all together */
	struct device *device;      /* of the current context; NULL: no action is run */
	CUcontext context;
	CUresult result; /* afterwards: what the call answers */

	bool is_counted;
	struct pacer *pacer; /* NULL: not paced */
	struct pacer_launch at;
};

/* Before the driver's launch: whether it is to be. May sleep. */
CUresult job_begin_launch(struct job_launch *launch);
/* After it, or instead. */
void job_end_launch(struct job_launch *launch);

void job_break_paced(void);
void job_before_timing_paced(void);
/* Before the current context is given anything but a launch, and before it is waited for. */
static inline void job_break(void)
{
	if (job_launch_is_paced())
		job_break_paced();
}
/* Before an event that keeps time is recorded. May sleep. */
static inline void job_before_timing(void)
{
	if (job_launch_is_paced())
		job_before_timing_paced();
}

/* Before the first launch; false: no memory. */
bool job_launches_start(void);
/* Whether launches are held back, and steps looked for, from now on. False: no memory, some of it is as it was. */
bool job_launches_act(bool is_paced, bool has_steps);

#endif
