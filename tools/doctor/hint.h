/* SPDX-License-Identifier: MIT */
/*
 * A program may look at the memory's size before it allocates, find the limit too little and end.
 * Then nothing was refused, nothing spilled, and nothing else shows that Spillway had more to give.
 * For example, a server that wants 12 GiB free ends under a limit of 8 GiB, although 32 GiB of the
 * host were there.
 */
#ifndef SPILLWAY_HINT_H
#define SPILLWAY_HINT_H

#include <stdbool.h>

#include "core/state/segment.h"

/*
 * Finds a GPU of which a job's programs were told the limit, and held no more than half of it. -1:
 * none.
 */
int hint_looked_first(const struct segment_view *view);
/* Returns whether no kernel was launched either: a program that ended so did not do its work. */
bool hint_did_nothing(const struct segment_view *view);
/* Returns advice, for one line; the caller frees it. */
char *hint_text(const struct segment_view *view, int gpu);

#endif
