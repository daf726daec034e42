/* SPDX-License-Identifier: MIT */
/*
 * Yields: how much of a device the job may hold there for the sake of other jobs, apart from its
 * limit. Above it memory leaves the device as above a limit, and new memory goes to the host while
 * that has room for it; when the bound is lifted memory comes back as after `resume`. The limit
 * itself stays what it was: what the program is told, what it is refused, and what is said of the
 * limit do not change.
 *
 * Those who decide each set a bound of their own, as bytes of the whole job; the lowest counts.
 * Thread-safe; a bound is one word, which terms carry (terms.h).
 */
#ifndef SPILLWAY_YIELD_H
#define SPILLWAY_YIELD_H

#include <stdbool.h>
#include <stdint.h>

struct device;

/* Who decides: memory is claimed, or the device is another job's for a whole turn. */
enum yield_for { YIELD_FOR_CLAIM, YIELD_FOR_TURN, YIELD_CAUSES };

/* Sets a bound (UINT64_MAX: none), and wakes the mover where it is another than before. */
void yield_set(const struct device *device, enum yield_for why, uint64_t bytes);
/*
 * Says whether others can call back what they are owed there, so that the job may have it meanwhile
 * (growth.h), and how much of the device is never lent.
 */
void yield_on_call(const struct device *device, bool can_call, uint64_t margin);
bool yield_is_on_call(const struct device *device);
uint64_t yield_margin(const struct device *device);
/* Returns the bytes above which the job yields; UINT64_MAX: it does not. */
uint64_t yield_above(const struct device *device);

#endif
