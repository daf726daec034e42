/* SPDX-License-Identifier: MIT */
/*
 * Lulls: a call of the program that waited for its work has just returned, so little or
 * nothing is in flight. Moves wait for them, a while. Thread-safe.
 */
#ifndef SPILLWAY_MOMENT_H
#define SPILLWAY_MOMENT_H

#include <stdatomic.h>
#include <stdint.h>

/* Non-zero while the mover waits for one. */
extern _Atomic unsigned int lull_is_awaited;
void lull_tell(void);

/*
 * Tells of a lull, where one is awaited, after a call that waited for the device: one relaxed load.
 */
static inline void lull_has_come(void)
{
	if (__builtin_expect(atomic_load_explicit(&lull_is_awaited, memory_order_relaxed) != 0, 0))
		lull_tell();
}

/*
 * Lets who told of the lull go on, which waits for that, but no longer than a millisecond: the gate
 * is held by now. The mover's.
 */
void lull_take(void);
/* Returns with the next lull, or after so long (less than a second). The mover's. */
void lull_wait(uint64_t ns);

#endif
