/*
 * Stream captures that are active in this process.
 *
 * While there is one, Spillway makes no event query and no synchronisation: from whatever thread, they
 * would invalidate the capture. Thread-safe.
 */
#ifndef SPILLWAY_CAPTURE_H
#define SPILLWAY_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/driver.h"

extern _Atomic unsigned int capture_count;

/* One relaxed load. */
static inline bool capture_is_active(void)
{
	return atomic_load_explicit(&capture_count, memory_order_relaxed) != 0;
}

/* A capture began on this stream (NULL replaced by the explicit name of the default stream). */
void capture_began(CUstream stream);
/* The stream captures no longer: it was ended, or the stream is destroyed. Harmless when unknown. */
void capture_is_over(CUstream stream);

#endif
