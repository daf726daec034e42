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

#include "core/context.h"
#include "core/device.h"

struct job_config;

/*
 * What a launch looks at, and all that an unpaced one does. It has its pages to itself, because a
 * forked child finds them zero, however it was forked: nothing active, nothing paced.
 */
#if defined(__aarch64__)
#define JOB_PAGE 65536
#else
#define JOB_PAGE 4096
#endif

struct job_launch {
	_Alignas(JOB_PAGE) _Atomic bool active; /* this process takes part in the job */
	_Atomic bool paced;
	_Atomic(struct statistics *) statistics; /* of the only device; NULL: ask */
};
extern struct job_launch job_launch;

/* Becomes part of the job; called after each successful cuInit, acts on the first. */
void job_start(void);
/* False before job_start(), in a forked child, and where Spillway is configured off: forward all.
 */
bool job_is_active(void);
struct device_set *job_devices(void);
/* What the process was configured by when it became part of the job; NULL before. Also in a forked child. */
const struct job_config *job_configuration(void);

/* Where the calling thread's launches are counted, where job_launch does not say. */
struct statistics *job_current_statistics(void);

/*
 * Whether a launch is to go through job_begin_launch(); else it is counted here and that is all.
 * Budget: no system call, no lock, no allocation, one predictable branch.
 */
static inline bool job_launch_is_paced(void)
{
	return __builtin_expect(atomic_load_explicit(&job_launch.paced, memory_order_relaxed), 0);
}

static inline struct statistics *job_launch_statistics(void)
{
	struct statistics *only =
	    atomic_load_explicit(&job_launch.statistics, memory_order_acquire);

	return __builtin_expect(only != NULL, 1) ? only : job_current_statistics();
}

enum job_launch_kind { LAUNCH_KERNEL, LAUNCH_GRAPH };

/* One launch on its way through the slow path. */
struct job_paced_launch {
	struct pacer *pacer; /* NULL: not paced */
	CUcontext context;
	CUstream stream;
};

/* Before and after the driver's launch. stream: NULL replaced as pacer.h says. May sleep. */
void job_begin_launch(struct job_paced_launch *launch, enum job_launch_kind kind, CUstream stream);
void job_end_launch(const struct job_paced_launch *launch);

/* A context is about to be destroyed (alive), or was; a stream is about to be. */
void job_leave_context(CUcontext context, bool alive);
void job_leave_stream(CUstream stream);
/* The context is destroyed, and with it goes what the books hold of it. */
void job_left_context(CUcontext context);

#endif
