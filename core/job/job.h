/*
 * The job, as one process takes part in it: configuration, segment, devices, pacers and the helper
 * thread, tied together. The only thing the shim needs to know.
 *
 * helper  one thread that owns the slot in the segment and watches the configuration files
 *
 * Nothing happens before the driver's first successful cuInit. All functions are thread-safe.
 */
#ifndef SPILLWAY_JOB_H
#define SPILLWAY_JOB_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/cuda/context.h"
#include "core/budget/device.h"
#include "core/pace/pacer.h"
#include "core/registry/actions.h"

struct job_config;

/* Becomes part of the job; called after each successful cuInit, acts on the first. */
void job_start(void);
/* False before job_start(), in a forked child, and where Spillway is configured off: forward all.
 */
bool job_is_active(void);
struct device_set *job_devices(void);
/* What the process was configured by when it became part of the job; NULL before. Also in a forked child. */
const struct job_config *job_configuration(void);

/* Returns whether NVML's answers are to tell of the limit, as the configuration in force says. */
bool job_tells_nvml(void);

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

/* What ACTION_CONFIG_CHANGED acts on. */
struct job_change {
	const struct config *config;
	struct device_set *devices;
	bool is_paced;  /* so far: launches are to be held back on a device */
	bool has_steps; /* so far: steps are to be found on a device */
};

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

/*
 * Around the driver's call that destroys a context: before it (after context_leave()), where it refuses, and for the thread to
 * which context_gone() gave what is kept of it, which goes now.
 */
void job_leave_context(const struct context *context);
void job_stay_context(const struct context *context);
void job_left_context(const struct context *context);
/* The driver is asked to destroy a stream: what was measured of it ends. It agreed: what is kept of it goes. */
void job_leave_stream(CUstream stream);
/* Returns whether anything is kept of any stream, so that job_left_stream() is to be called. */
bool job_keeps_of_streams(void);
void job_left_stream(CUstream stream);

#endif
