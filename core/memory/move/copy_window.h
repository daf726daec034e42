/* SPDX-License-Identifier: MIT */
/*
 * Copy windows: the short times in which the gate is closed and memory moves.
 *
 * A plan is carried out slice by slice, a copy window each, which copies as long as one may take by
 * the speed of the link. The first is tried at moments that may be quiet. After its deadline, and
 * for all other reasons, the gate is held until the work in flight is done. The time for that
 * doubles with each failure in a row. By the mover alone.
 */
#ifndef SPILLWAY_COPY_WINDOW_H
#define SPILLWAY_COPY_WINDOW_H

#include "core/base/deadline.h"
#include "core/budget/device.h"
#include "core/memory/move/plan.h"

/*
 * Carries the plan out, or gives it up; either way it is empty afterwards, and memory that is no
 * longer used is spare or released. Returns MOVE_NONE where something has moved, else why nothing
 * has. The reason for the rest of it is in the statistics. until: how long a quiet moment is waited
 * for; it has passed once something has moved.
 */
enum move_pending copy_window_carry_out(struct plan *plan, struct device *device,
                                        struct deadline *until);
/* Returns whether one is under way. Any thread. */
bool copy_window_is_under_way(void);

/*
 * The link: how fast memory of a device goes to the host, and comes from there, all that an
 * exchange takes included, as far as it was measured. By the mover alone, but for link_bytes().
 */

/* Returns the bytes that come to this tier in so long; 0: nothing was measured yet. */
uint64_t link_bytes(const struct device *device, enum segment_tier to, uint64_t ns);

/* A copy window should take so long at most, for the bytes it copies. */
#define COPY_WINDOW_NS 20000000ull
/* Returns the bytes that come to this tier in one copy window; likewise. */
static inline uint64_t copy_window_bytes(const struct device *device, enum segment_tier to)
{
	return link_bytes(device, to, COPY_WINDOW_NS);
}

#endif
