/* SPDX-License-Identifier: MIT */
/*
 * Late memory: large tables that are mapped at their first use.
 *
 * A library's own zeroed memory counts within RLIMIT_AS when the loader maps it, and the loader
 * passes over a preloaded library that does not fit. So large tables are no part of the library.
 * Where a table cannot be mapped the caller works without it, as its own header says.
 */
#ifndef SPILLWAY_LATE_H
#define SPILLWAY_LATE_H

#include <stdatomic.h>
#include <stddef.h>

/*
 * Returns the zeroed memory that hangs on this place, which is mapped at the first call; NULL:
 * there is none to be had. The size is the same each time. Any thread, without a lock.
 */
void *late_make(_Atomic(void *) *place, size_t size);
/* Returns it where it has been made. */
static inline void *late_of(_Atomic(void *) *place)
{
	return atomic_load_explicit(place, memory_order_acquire);
}

#endif
