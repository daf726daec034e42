/* SPDX-License-Identifier: MIT */
/*
 * The part of a job's report about memory that moves: a table, and lines for memory that is not
 * where the settings ask for.
 */
#ifndef SPILLWAY_REPORT_MOVES_H
#define SPILLWAY_REPORT_MOVES_H

#include "core/state/segment.h"

/* Prints that part; nothing where no GPU has memory that moves or could. */
void report_moves(const struct segment_view *view);

/* Returns why the limit held is above the limit set: "pinned"; NULL: it is not. */
const char *report_held(const struct statistics *total);

/* Describes why a move waits, and why memory stays on a GPU (enum held_reason). */
const char *report_pending(const struct statistics *statistics);
const char *report_held_meaning(uint64_t held_reason);
/* Says why memory that this process or job counts cannot move. */
const char *report_inelastic(const struct segment_view *view, int device,
                             const struct statistics *statistics);

#endif
