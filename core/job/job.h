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

#include <stdbool.h>

#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/job/launch.h"
#include "core/job/process.h"

/* Becomes part of the job; called after each successful cuInit, acts on the first. */
void job_start(void);
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
