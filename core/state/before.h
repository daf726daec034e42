/* Segments of the version before this one, 5, as programs that still run with it keep them: they
 * are shown, paused and removed, and nobody joins them. Frozen: what stands here never changes;
 * with the next version of the segment another one takes its place, or none. */
#ifndef SPILLWAY_BEFORE_H
#define SPILLWAY_BEFORE_H

#include "core/state/segment.h"

enum { SEGMENT_VERSION_BEFORE = 5 };

/* Reads such a segment, as segment_read(). Returns 0 or a negative errno, -EPROTO: it is none of
 * that version, and nothing has been said of it yet. */
int segment_read_before(int directory, const char *job, struct segment_view *view);
/* Returns whether the job has such a segment. *is_over: no process of it lives, and no memory of a
 * dead one may still be held. */
bool segment_is_of_before(int directory, const char *job, bool *is_over);

#endif
