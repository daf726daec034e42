/* SPDX-License-Identifier: MIT */
/*
 * Blocking streams: those that the legacy default stream waits for and that wait for it. In a
 * process that has made none the legacy stream is a stream like any other. Thread-safe.
 */
#ifndef SPILLWAY_BLOCKING_H
#define SPILLWAY_BLOCKING_H

#include <stdatomic.h>
#include <stdbool.h>

extern _Atomic bool blocking_streams;

/*
 * Notes one: a stream made without CU_STREAM_NON_BLOCKING, or a per-thread default stream that is
 * used. It counts from then on, as others of its kind come.
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
