/* SPDX-License-Identifier: MIT */
/*
 * One move at a time: memory is chosen, a plan is made of it, and copy windows carry the plan out.
 * By the mover alone.
 *
 * Each says why nothing has moved, or MOVE_NONE where something has.
 */
#ifndef SPILLWAY_MOVING_H
#define SPILLWAY_MOVING_H

#include "core/base/deadline.h"
#include "core/budget/terms.h"
#include "core/memory/move/movable.h"

/* Returns how long a good moment is waited for: once, however many plans a move takes. */
struct deadline moving_deadline(const struct terms *terms);
/*
 * Returns the same for memory that is to leave: an opportunistic job, which gives way to all other
 * jobs, keeps none of them waiting.
 */
struct deadline moving_shrink_deadline(const struct terms *terms);
/* Has so much of the choice leave, at an idle point, while the device is within its limit. */
enum move_pending moving_demote(struct device *device, const struct terms *terms, uint64_t bytes,
                                const struct choice *choice);
/*
 * Does the same where it is decided that it leaves, as gently as a shrink. insists: the gate is
 * held where there was no idle point. Else nothing is begun without one.
 */
enum move_pending moving_demote_decided(struct device *device, const struct terms *terms,
                                        uint64_t bytes, const struct choice *choice, bool insists);
/*
 * Has so much of the coldest memory leave, while the device is beyond its limit, and insists on it
 * once the deadline has passed. A failure begins a new one, as of all that follow.
 */
enum move_pending moving_shrink(struct device *device, const struct terms *terms, uint64_t bytes,
                                struct deadline *until);
/*
 * Does the same for a call that waits, with any limit, with all except this run (0: with all).
 * *done: so many bytes more have left.
 */
enum move_pending moving_make_room(struct device *device, const struct terms *terms, uint64_t bytes,
                                   CUdeviceptr except, struct deadline *until, uint64_t *done);
/* Brings so much of the choice to the device. Returns MOVE_SOON also where nothing of it fits. */
enum move_pending moving_promote(struct device *device, const struct terms *terms, uint64_t bytes,
                                 const struct choice *choice, struct deadline *until);
/*
 * Brings the choice to the device at once, to stay there. *lacks: there is no memory to move it to.
 */
enum move_pending moving_pin(struct device *device, const struct terms *terms,
                             const struct choice *choice, bool is_exportable, bool *lacks);
/* Returns for how long the gate was closed by the last of them. */
uint64_t moving_closed_ns(void);

#endif
