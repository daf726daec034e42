/* SPDX-License-Identifier: MIT */
/*
 * The job, as one process takes part in it: configuration, segment, devices, pacers and the helper
 * thread, tied together. The only thing the shim needs to know.
 *
 * helper  one thread that owns the process slot in the segment and watches the configuration files
 *
 * Nothing happens before the driver's first successful cuInit. All functions are thread-safe.
 */
#ifndef SPILLWAY_JOB_H
#define SPILLWAY_JOB_H

#include <stdbool.h>

#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/job/launch.h"
#include "core/job/process.h"

/*
 * Becomes part of the job; called after each successful cuInit, acts on the first. Returns false
 * where the process must not use a GPU, because it cannot keep the rules of the machine's file.
 */
bool job_start(void);
/*
 * Surrounds the driver's call that destroys a context. job_leave_context() comes before it, after
 * context_leave(). job_stay_context() follows where the driver refuses. Else job_left_context()
 * follows, in the thread to which context_gone() gave the records of the context, which go now.
 */
void job_leave_context(const struct context *context);
void job_stay_context(const struct context *context);
void job_left_context(const struct context *context);

#endif
