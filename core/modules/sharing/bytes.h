/* SPDX-License-Identifier: MIT */
/* Arithmetic with bytes and times of other processes, which may be any numbers. */
#ifndef SPILLWAY_SHARING_BYTES_H
#define SPILLWAY_SHARING_BYTES_H

#include <stdint.h>

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t more(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Subtracts; a result below 0 is 0. */
static inline uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Adds; a result beyond the largest number is that number. */
static inline uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Where the link is unmeasured; it makes patience longer, and nothing else. */
#define LINK_UNKNOWN ((uint64_t)256 << 20)

/* Returns how long a link of so many bytes a second copies these: an hour at most. */
static inline uint64_t copies_ns(uint64_t bytes, uint64_t link)
{
	double ns = (double)bytes * 1e9 / (double)(link ? link : LINK_UNKNOWN);

	return ns < 3600e9 ? (uint64_t)ns : 3600000000000ull;
}

/* Returns how long a copy of so much is waited for. */
static inline uint64_t patience_ns(uint64_t bytes, uint64_t link)
{
	return 2 * copies_ns(bytes, link);
}

/* Returns how long nothing goes back once so much has changed hands: a second to a minute. */
#define COOLDOWN_MOST 60000000000ull
static inline uint64_t cooldown_ns(uint64_t bytes, uint64_t link)
{
	enum { TIMES = 10 };
	uint64_t ns = least(copies_ns(bytes, link), COOLDOWN_MOST) * TIMES;

	return more(COOLDOWN_MOST / 60, least(ns, COOLDOWN_MOST));
}

#endif
