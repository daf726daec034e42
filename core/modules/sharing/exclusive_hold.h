/* SPDX-License-Identifier: MIT */
/*
 * Launches that wait for an exclusive turn (gang.h).
 *
 * Every wait has an end. While memory leaves, which waits for running work, and nothing moves, one
 * launch at a time may pass, because running work may need it. Where there was no decision for
 * longer than the longest wait, all waiting launches pass.
 */
#ifndef SPILLWAY_EXCLUSIVE_HOLD_H
#define SPILLWAY_EXCLUSIVE_HOLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/budget/device.h"

/*
 * Waits before a launch on the device into this stream, with no lock held, while launches are held
 * back.
 */
void exclusive_hold(const struct device *device, CUstream stream);
/*
 * Holds launches back from now on, or lets them go on until lease_ns, unless that is renewed.
 * UINT64_MAX is for good. A process that was stopped meanwhile first looks which job has the turn.
 */
void exclusive_hold_set(bool holds, uint64_t lease_ns);
/* Lets one launch pass, into a stream that is done with its work if there is one. */
void exclusive_hold_pass_one(void);
/* Returns whether a launch waits. */
bool exclusive_hold_is_wanted(void);
/* Holds no launch back any more, because the process exits. */
void exclusive_hold_let_go(void);

#endif
