/* SPDX-License-Identifier: MIT */
/*
 * Stream captures that are active in this process.
 *
 * While there is one, Spillway makes no event query and no synchronisation: from any thread, they
 * would invalidate the capture. Thread-safe.
 *
 * A call that waits for a context and one that begins a capture know of each other. Either the call
 * that begins sees the wait and lets it begin first, or the wait sees the capture and is not made.
 */
#ifndef SPILLWAY_CAPTURE_H
#define SPILLWAY_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/cuda/driver.h"

extern _Atomic unsigned int capture_count;

/* Returns whether any capture is active. One relaxed load. */
static inline bool capture_is_active(void)
{
	return atomic_load_explicit(&capture_count, memory_order_relaxed) != 0;
}

/*
 * Begins a call that waits for a context, which would invalidate a capture. Returns false when one
 * is active or about to begin; then neither that call may be made, nor capture_sync_leave(). Either
 * the capture is seen here, or it begins after the call: the thread that begins it waits until the
 * call is made, 100 ms at most, by when it is.
 */
bool capture_sync_enter(void);
void capture_sync_leave(void);
/*
 * Announces a call that begins a capture; capture_announced() comes after that call. Whether a
 * capture began is for capture_began() to say.
 */
void capture_announce(void);
void capture_announced(void);
/*
 * Notes that a capture began on this stream (NULL replaced by the explicit name of the default
 * stream), which goes with this context.
 */
void capture_began_in(CUcontext context, CUstream stream);
/* Says so of a stream that goes with no context. */
static inline void capture_began(CUstream stream)
{
	capture_began_in(NULL, stream);
}
/*
 * Notes that the stream captures no longer: it was ended, or the stream is destroyed. Harmless when
 * unknown.
 */
void capture_is_over(CUstream stream);
/*
 * Forgets the captures of a context that is destroyed, and with it all streams that capture in it.
 */
void capture_context_gone(CUcontext context);

#endif
