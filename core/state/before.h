/* SPDX-License-Identifier: MIT */
/*
 * Segments of the version before this one, 7, as programs that still run with it keep them: they
 * are shown, paused and removed, and no process joins them. Frozen: this file never changes; with
 * the next version of the segment another one takes its place, or none.
 */
#ifndef SPILLWAY_BEFORE_H
#define SPILLWAY_BEFORE_H

#include "core/state/segment.h"

enum { SEGMENT_VERSION_BEFORE = 7 };

struct segment_file;

/*
 * Reads such a segment as one of ours would be with the same in it, into a copy of which nothing
 * but the header has been read. Returns 0 or a negative errno, -EPROTO: it is none of that version.
 */
int before_read(int fd, const char *job, struct segment_file *copy);
/* Returns whether the job has such a segment. *is_over: no process of it lives, and no memory of a
 * dead one may still be held. */
bool segment_is_of_before(int directory, const char *job, bool *is_over);

#endif
