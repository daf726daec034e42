/* SPDX-License-Identifier: MIT */
/* The account of GPU time. */
#include "core/pace/account.h"

/* 40 ms of a window of 100: with the overrun of a kernel, less than a point of five seconds. */
#define MOST_SAVED 40000u

static uint64_t account_smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns a * b / c, which fits wherever it is used: the factors are bounded first. */
static uint64_t scaled(uint64_t a, uint64_t b, uint64_t c)
{
	unsigned __int128 product = (unsigned __int128)a * b / c;

	return product > INT64_MAX ? INT64_MAX : (uint64_t)product;
}

/*
 * Returns how far paid_until may lag: of a window's length the share, but at most 40 % of it, may
 * be saved as busy time.
 */
static uint64_t credit_of(uint32_t share, uint64_t window_ns)
{
	return share > MOST_SAVED ? scaled(window_ns, MOST_SAVED, share) : window_ns;
}

uint64_t account_pay(uint64_t paid_until, uint64_t now_ns, uint64_t busy_ns, uint32_t share,
                     uint64_t window_ns)
{
	uint64_t credit = credit_of(share, window_ns);
	uint64_t busy = account_smaller(busy_ns, ACCOUNT_MAX_DEBT_NS);
	/* A debt that is being paid was no pause. */
	uint64_t earliest = now_ns > credit + busy ? now_ns - credit - busy : 0;
	uint64_t latest = now_ns + scaled(ACCOUNT_MAX_DEBT_NS, ACCOUNT_FULL_SHARE, share);
	uint64_t paid = paid_until > earliest ? account_smaller(paid_until, latest) : earliest;

	/* Both summands are below 2^63. */
	return account_smaller(paid + scaled(busy, ACCOUNT_FULL_SHARE, share), latest);
}
