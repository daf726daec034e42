/*
 * Memory that was told to move: whether it is on its way, how far it has come, and what stays where
 * it is.
 */
#ifndef SPILLWAY_MOVING_H
#define SPILLWAY_MOVING_H

#include "core/state/segment.h"

/* Returns whether memory beyond a limit, or of an evicted job, may still leave a GPU. */
bool moving_goes_on(const struct segment_view *view);
/* Bytes that have left GPUs so far: while it grows, waiting is worth while. */
uint64_t moving_bytes(const struct segment_view *view);

/*
 * Likewise of a job that is evicted no more: whether its memory may still come back, as far as
 * there is room; how much has.
 */
bool moving_back_goes_on(const struct segment_view *view);
uint64_t moving_back_bytes(const struct segment_view *view);

/* One line that is written over, and only on a terminal; NULL: takes it away. */
void moving_show(const struct segment_view *view);
/* Likewise of memory that comes back. */
void moving_back_show(const struct segment_view *view);

/*
 * Of an evicted job, what is on the host, and what is still on a GPU and why. False, after a
 * complaint: there is more of it than what can never move.
 */
bool moving_report_eviction(const struct segment_view *view);

#endif
