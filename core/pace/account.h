/* SPDX-License-Identifier: MIT */
/*
 * The account of GPU time: the arithmetic of pacing, without clocks, locks or the driver.
 *
 * paid until  the time by which used time is paid for. A busy nanosecond pays for 1/share ns, from
 *             then on; while it lies ahead of now there is a debt, which an idle slot until then
 *             pays. It lags at most the credit behind now: a pause that lasted longer is forgotten
 *
 * So busy time over elapsed time converges to the share, with any single slots. The account of all
 * processes of a job on a device is one word of shared memory, changed by compare-and-swap: a
 * killed process leaves it whole. For example, at a share of 50 % a burst of 10 ms is followed by a
 * slot of 10 ms.
 *
 * A pause saves at most 40 ms of GPU time (of a window of 100), so that with a kernel that overruns
 * no five seconds are off by more than a point.
 */
#ifndef SPILLWAY_ACCOUNT_H
#define SPILLWAY_ACCOUNT_H

#include <stdint.h>

/* Shares are in thousandths of a percent: 60 % is 60000. */
#define ACCOUNT_FULL_SHARE 100000u
/* The most busy time that is owed: one kernel of a minute is paid for like one of ten seconds. */
#define ACCOUNT_MAX_DEBT_NS 10000000000ull

/*
 * Returns the new paid_until, once the busy time is over. now_ns: any clock that never runs
 * backwards and stays below 2^63.
 */
uint64_t account_pay(uint64_t paid_until, uint64_t now_ns, uint64_t busy_ns, uint32_t share,
                     uint64_t window_ns);

#endif
