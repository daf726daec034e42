/*
 * The pacers of this process, one per device, and where they meet those of others. Private to core/job.
 */
#ifndef SPILLWAY_JOB_PACE_H
#define SPILLWAY_JOB_PACE_H

#include <stdbool.h>

#include "core/budget/device.h"
#include "core/pace/pacer.h"

enum { JOB_PACE_LOOK_MS = 250 };

/* False: no memory. segment may be NULL. */
bool job_pace_start(struct device_set *devices, struct segment *segment, const char *job);
/* New settings for the i-th device. Whether its launches are paced from now on. */
bool job_pace_set(int i, const struct config_gpu *settings);
/*
 * For the helper thread, every JOB_PACE_LOOK_MS while it is true, that is, while anything paced works: says in the statistics
 * what share is held, and corrects what is measured beside programs that take no turns.
 */
bool job_pace_look(void);
/* The pacer of a device of the set. */
struct pacer *job_pacer(int ordinal);
/* As pacer_leave_context() and pacer_forget_context(), of all devices. */
void job_pace_leave_context(CUcontext context, bool is_leaving);
void job_pace_forget_context(CUcontext context);
void job_pace_leave_stream(CUstream stream);

/* The process exits: whoever waits goes on. */
void job_pace_let_go(void);

#endif
