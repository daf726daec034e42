/* SPDX-License-Identifier: MIT */
/*
 * Points in streams: how far a stream has come where something was freed, and whether it has passed
 * that by now. Not thread-safe by themselves.
 */
#ifndef SPILLWAY_STREAM_POINT_H
#define SPILLWAY_STREAM_POINT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cuda/driver.h"

struct stream_point {
	CUcontext context;
	CUstream stream; /* NULL: it is gone */
	uint64_t thread; /* whose default stream it is; 0: any other stream */
	uint64_t order;  /* the caller's: later is more */
	CUevent event;   /* recorded there; NULL: it has been passed */
};

/*
 * Makes a point of a stream, by its explicit name. Returns false when the driver does not know the
 * stream.
 */
bool stream_point_of(CUstream stream, struct stream_point *point);
bool stream_point_is_same(const struct stream_point *a, const struct stream_point *b);
/*
 * Records where the stream is now; not while a capture is active. Returns false where the driver
 * does not.
 */
bool stream_point_record(struct stream_point *point);
/*
 * Returns whether the work before the point is done. Of a context that is broken or gone no work is
 * left.
 */
bool stream_point_has_passed(struct stream_point *point);
/* Ends a point, which is waited for no more. */
void stream_point_end(struct stream_point *point);

#endif
