/* Reckoning with bytes and times that others say, which may be anything. */
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

/* Subtracts; what would be below 0 is 0. */
static inline uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Adds; what would be beyond all is all. */
static inline uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

#endif
