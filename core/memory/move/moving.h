/*
 * One move at a time: memory is chosen, a plan is made of it, and closures carry the plan out. By
 * the mover alone.
 *
 * Each says why nothing has moved, or MOVE_NONE where something has.
 */
#ifndef SPILLWAY_MOVING_H
#define SPILLWAY_MOVING_H

#include "core/budget/terms.h"
#include "core/memory/move/movable.h"

/* Promotions, and what makes room for them, are not worth more than a lull for so long. */
#define MOVING_PATIENCE_NS 500000000ull

/* Returns whether there is too much just now, whatever terms a plan was made under. */
bool moving_is_over_limit(struct device *device);
/* Has so much of the choice leave, at a lull, while the device is within its limit. */
enum move_pending moving_demote(struct device *device, const struct terms *terms, uint64_t bytes,
                                const struct choice *choice);
/*
 * Has so much of what is coldest leave, and insists on it once demote_deadline has passed.
 * is_wanted: whether it still is; NULL: whatever happens. *done: so many bytes more have left, of a
 * plan that failed in its midst, too.
 */
enum move_pending moving_shrink(struct device *device, const struct terms *terms, uint64_t bytes,
                                bool (*is_wanted)(struct device *device), uint64_t *done);
/* Brings so much of the choice to the device. Returns MOVE_SOON also where nothing of it fits. */
enum move_pending moving_promote(struct device *device, const struct terms *terms, uint64_t bytes,
                                 const struct choice *choice);
/* Brings the choice to the device at once, to stay there. *lacks: there is no memory to move it to. */
enum move_pending moving_pin(struct device *device, const struct terms *terms,
                             const struct choice *choice, bool is_exportable, bool *lacks);
/* Returns for how long the gate was closed by the last of them. */
uint64_t moving_closed_ns(void);

#endif
