/* SPDX-License-Identifier: MIT */
/*
 * Memory that was told to move: whether it is on its way, how far it has come, and which memory
 * stays where it is.
 */
#ifndef SPILLWAY_MOVING_H
#define SPILLWAY_MOVING_H

#include "core/state/segment.h"

/* Out: memory beyond a limit, or of an evicted job; back: where there is room for it. */
enum moving_way { MOVING_OUT, MOVING_BACK };

/*
 * Notes how much memory the job has. The first look is before anything is told to come back,
 * because a chunk on its way is charged on both tiers.
 */
void moving_look(const struct segment_view *view);
/* Returns whether memory may still go that way. */
bool moving_goes_on(const struct segment_view *view, enum moving_way way);
/* Returns the bytes that may still go that way. */
uint64_t moving_left(const struct segment_view *view, enum moving_way way);
/* Returns the bytes that have gone out so far: while it grows, waiting is worth while. */
uint64_t moving_demoted(const struct segment_view *view);
/* Writes one line over the last, and only on a terminal; view NULL: takes it away. */
void moving_show(const struct segment_view *view, enum moving_way way);

/*
 * Reports for an evicted job the memory on the host, and the memory still on a GPU with its reason.
 * Returns false, after a complaint, where that is more than memory that can never move.
 */
bool moving_report_eviction(const struct segment_view *view);

#endif
