/* SPDX-License-Identifier: MIT */
/*
 * The pacers of this process, one per device, and where they meet those of other processes. For
 * core/job, but for job_pace_leave_stream().
 */
#ifndef SPILLWAY_JOB_PACE_H
#define SPILLWAY_JOB_PACE_H

#include <stdbool.h>

#include "core/budget/device.h"
#include "core/pace/pacer.h"

enum { JOB_PACE_LOOK_MS = 250 };

/* Keeps the devices for which pacers will be made, each once it is needed. */
void job_pace_start(struct device_set *devices, const char *job);
/* Takes new settings for the i-th device. Returns whether its launches are paced from now on. */
bool job_pace_set(int i, const struct config_gpu *settings);
/* Returns false where there was no memory for a pacer that was needed. */
bool job_pace_holds(void);
/* Gives the pacer of the i-th device its peer records. */
void job_pace_share(int i, const struct pacer_peers *peers);
/*
 * Says whether other processes ask if the process works on the i-th device, and whether a normal
 * process works in gaps alone, while a guaranteed one is there. Returns whether the latter is new:
 * then its launches are to be paced, or no more.
 */
bool job_pace_heed(int i, bool is_asked, bool gives_way);
/*
 * Writes the held share into the statistics, and corrects measurements beside programs that take no
 * turns. The helper thread calls it every JOB_PACE_LOOK_MS while it returns true, that is, while
 * anything paced works.
 */
bool job_pace_look(void);
/* Returns the pacer of a device of the set; NULL: none was needed yet. */
struct pacer *job_pacer(int ordinal);
/* Returns the same for a launch: it has met those of other processes if it paces. */
struct pacer *job_pacer_to_launch(int ordinal);
/* Lets all that pace meet those of other processes, for later launches. By the helper. */
void job_pace_meet(void);
/* Tells all pacers, as pacer_end_context() tells one. */
void job_pace_end_context(CUcontext context, enum context_end end);
/* Ends the measurements of a stream that the driver is asked to destroy. */
void job_pace_leave_stream(CUstream stream);

/* Lets waiting launches go on, because the process exits. */
void job_pace_let_go(void);

#endif
