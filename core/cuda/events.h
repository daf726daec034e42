/* SPDX-License-Identifier: MIT */
/*
 * The shim's own events: one pool of them, and the two marks that are made of them, points in
 * streams and the fence over all contexts. The pool makes a recording mostly free of allocations.
 * Events belong to a context and are made without timing. The pool is thread-safe.
 */
#ifndef SPILLWAY_EVENTS_H
#define SPILLWAY_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/cuda/driver.h"

/* Returns one of the context, which is current; NULL: the driver makes none. */
CUevent events_take(CUcontext context);
/* Forgets the events of a context that is gone, and its events with it. */
void events_forget_context(CUcontext context);

/*
 * Points in streams: how far a stream has come where something was freed, and whether it has passed
 * that by now. Not thread-safe by themselves.
 */
struct stream_point {
	CUcontext context;
	CUstream stream; /* NULL: it is gone */
	uint64_t thread; /* the thread of this default stream; 0: any other stream */
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

/*
 * The fence: the point up to which the contexts of this process had been given work when it was
 * set. It has been passed when all that work is done.
 *
 * One event per context says it, recorded over everything the context has: streams known to us or
 * not, other threads' default streams, green contexts. Nothing is put into the program's own
 * streams, so none waits for another by it. There is one fence at a time. Not thread-safe: the
 * caller lets one thread in at a time. While a capture is active no fence is set, nor is one
 * passed: the captures would be invalidated.
 * An event in the legacy stream would make the program's streams wait for each other.
 */

/*
 * Sets it, in the place of an earlier one. Returns false where the driver cannot (before CUDA 12.5)
 * or does not.
 */
bool fence_set(void);
/*
 * Returns whether the fence has been passed; true where none is set. Of a context that is broken or
 * gone no work is left.
 */
bool fence_has_passed(void);
/* Waits no more for a context that is gone, and its event with it. */
void fence_forget_context(CUcontext context);

#endif
