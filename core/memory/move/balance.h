/* SPDX-License-Identifier: MIT */
/*
 * The balance: what is needed more than what is on the device comes there. By the mover alone.
 */
#ifndef SPILLWAY_BALANCE_H
#define SPILLWAY_BALANCE_H

#include "core/budget/terms.h"

/*
 * Brings back what fits, or what is needed more than what is there. charged: what the device holds.
 * Returns whether anything was moved.
 */
bool balance_fill(struct device *device, const struct terms *terms, uint64_t charged);
/* Says that there is nothing to bring back: when there is again, a good moment is waited for. */
void balance_is_even(const struct device *device);
/* Leaves room that was made for a call to the call, for a second. */
void balance_rest(const struct device *device);

#endif
