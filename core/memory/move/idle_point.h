/* SPDX-License-Identifier: MIT */
/*
 * Idle points: a call of the program that waited for its work has just returned, so little or
 * nothing is in flight. Moves wait for them, a while. Thread-safe.
 */
#ifndef SPILLWAY_MOMENT_H
#define SPILLWAY_MOMENT_H

#include <stdatomic.h>
#include <stdint.h>

/* Non-zero while the mover waits for one. */
extern _Atomic unsigned int idle_point_is_awaited;
void idle_point_tell(void);

/*
 * Tells of an idle point, where one is awaited, after a call that waited for the device: one
 * relaxed load.
 */
static inline void idle_point_has_come(void)
{
	if (__builtin_expect(
	        atomic_load_explicit(&idle_point_is_awaited, memory_order_relaxed) != 0, 0))
		idle_point_tell();
}

/*
 * Lets who told of the idle point go on, which waits for that, but no longer than a millisecond:
 * the gate is held by now. The mover's.
 */
void idle_point_take(void);
/* Returns with the next idle point, or after so long (less than a second). The mover's. */
void idle_point_wait(uint64_t ns);

#endif
