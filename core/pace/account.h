/*
 * The account of GPU time: the arithmetic of pacing, without clocks, locks or the driver.
 *
 * balance   nanoseconds of GPU time the job may still use; negative: a debt
 * It gains share x elapsed time, up to share x window; it pays measured busy time. A debt is paid
 * by an idle slot. So busy time over elapsed time converges to the share, whatever single slots do.
 */
#ifndef SPILLWAY_ACCOUNT_H
#define SPILLWAY_ACCOUNT_H

#include <stdint.h>

/* Shares are in thousandths of a percent: 60 % is 60000. */
#define ACCOUNT_FULL_SHARE 100000u
/* The most that can be owed: one kernel of a minute is paid for like one of ten seconds. */
#define ACCOUNT_MAX_DEBT_NS 10000000000ll

struct account {
	int64_t balance_ns;
	uint64_t last_ns;   /* when it last gained; 0: never */
	uint32_t remainder; /* of the last gain, in 1/ACCOUNT_FULL_SHARE ns */
};

/* Gains for the time since the last call. now_ns: any clock that never runs backwards. */
void account_gain(struct account *account, uint64_t now_ns, uint32_t share, uint64_t window_ns);
void account_pay(struct account *account, uint64_t busy_ns);
/* Length of the idle slot that pays the debt; 0 when there is none. share must not be 0. */
uint64_t account_slot(const struct account *account, uint32_t share);

#endif
