/*
 * Closures: the short times in which the gate is closed and memory moves.
 *
 * A plan is first tried at moments that may be idle; after its deadline the gate is held until the
 * work in flight is done, for a time that doubles with each failure in a row. By the mover alone.
 */
#ifndef SPILLWAY_CLOSURE_H
#define SPILLWAY_CLOSURE_H

#include "core/memory/move/plan.h"

/*
 * Carries the plan out, or gives it up; either way it is empty afterwards, and the memory that is
 * no longer used is spare or released. MOVE_NONE: carried out; else why not, which is in the
 * statistics, too.
 */
enum move_pending closure_carry_out(struct plan *plan, struct device *device, uint64_t deadline_ns);
/* Returns the bytes that can be copied in the time a closure should take, as far as is known. */
uint64_t closure_bytes(const struct device *device);
/* Returns whether one is under way. Any thread. */
bool closure_is_under_way(void);

#endif
