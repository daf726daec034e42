/* SPDX-License-Identifier: MIT */
/*
 * Launches that wait for an exclusive turn (core/sharing/gang.h). Private to core/job.
 *
 * Nothing is waited for without an end: while memory leaves, which waits for what runs, and nothing
 * moves, one launch at a time may pass, because what runs may need it; and where nobody has decided
 * for longer than anybody is to wait, whoever waits passes.
 */
#ifndef SPILLWAY_JOB_EXCLUSIVE_HOLD_H
#define SPILLWAY_JOB_EXCLUSIVE_HOLD_H

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
 * Holds launches back from now on, or lets them go on until lease_ns (UINT64_MAX: for good), unless
 * that is renewed: a process that was stopped meanwhile is to look first whose turn it is.
 */
void exclusive_hold_set(bool holds, uint64_t lease_ns);
/* Lets one launch pass, into a stream that is done with what it was given if there is one. */
void exclusive_hold_pass_one(void);
/* Returns whether a launch waits. */
bool exclusive_hold_is_wanted(void);
/* Holds nobody back any more, because the process exits. */
void exclusive_hold_let_go(void);

#endif
