/* SPDX-License-Identifier: MIT */
/*
 * Idle: whether any work of this process runs on a device.
 *
 * Streams are queried one by one, which disturbs nothing. Streams without a known handle (other
 * threads' default streams, streams of libraries) are waited for by cuCtxSynchronize, on a thread
 * of its own. Its late answer is ignored: a stream may wait for an event that happens only after
 * the gate opens.
 *
 * No function here may be called while a capture is active: it would be invalidated.
 */
#ifndef SPILLWAY_IDLE_H
#define SPILLWAY_IDLE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/cuda/context.h"

/*
 * Waits for all work of all contexts, without an end; that of `own` last (NULL: none is special),
 * whose answer is returned. Thread-safe.
 */
CUresult idle_wait(CUcontext own);
/* Returns whether the driver refused a call for a capture's sake: it has not waited. */
bool idle_is_refused(CUresult result);
/* Says that a wait has answered an error, so that some context may be broken. */
extern _Atomic bool idle_has_failed;
/* Notes the answer of a wait. */
static inline void idle_note(CUresult result)
{
	if (__builtin_expect(result != CUDA_SUCCESS, 0) && !idle_is_refused(result))
		atomic_store_explicit(&idle_has_failed, true, memory_order_relaxed);
}
/*
 * Returns the driver's answer about the current context: an error that stays, or CUDA_SUCCESS. It
 * is asked once in a tick of the kernel's clock, and while some wait has failed; no more often,
 * because each allocation wants to know. now_ns: clock_coarse().
 * CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: a capture is active or about to begin.
 */
CUresult idle_judge(const struct context *context, uint64_t now_ns);

/*
 * Returns whether the streams that have a handle we know run nothing, which disturbs nothing; false
 * where idle_ask() says so. Any thread.
 */
bool idle_is_seen(void);
/*
 * Surround the queries of a thread of ours beside the program, which goes on. idle_ask() returns
 * false where no query is allowed: while a capture is active, a stream is about to go, or the
 * process exits. Never waits.
 */
bool idle_ask(void);
void idle_asked(void);
/*
 * Surround a call by which streams go, and keep their handles from queries. The first waits for
 * running queries, bounded; a thread that exits calls it alone. Called with no lock held.
 */
void idle_streams_leave(void);
void idle_streams_left(void);

/* --- for the mover alone, with the gate seized --- */

enum idle { IDLE, IDLE_BUSY, IDLE_BROKEN };

/*
 * Returns whether nothing runs. BUSY: something does, or does not end within the patience. BROKEN:
 * a context answers an error; its work is over, but nothing can be moved in it.
 */
enum idle idle_now(uint64_t patience_ns);

/*
 * Blocking streams: those that the legacy default stream waits for and that wait for it. In a
 * process that has made none the legacy stream is a stream like any other. Thread-safe.
 */
extern _Atomic bool blocking_streams;

/*
 * Notes one: a stream made without CU_STREAM_NON_BLOCKING, or a per-thread default stream that is
 * used. It counts from then on; more of its kind follow.
 */
static inline void blocking_stream_is_used(void)
{
	if (!atomic_load_explicit(&blocking_streams, memory_order_relaxed))
		atomic_store_explicit(&blocking_streams, true, memory_order_relaxed);
}

/* Returns whether there ever was one. One relaxed load. */
static inline bool blocking_streams_exist(void)
{
	return atomic_load_explicit(&blocking_streams, memory_order_relaxed);
}

#endif
