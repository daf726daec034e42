/* Time that goes on at the same pace whoever sets the clock. */
#ifndef SPILLWAY_MONOTONIC_H
#define SPILLWAY_MONOTONIC_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds, CLOCK_MONOTONIC: little on a machine that has just booted, and another number in another time namespace. */
static inline uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Likewise, as of the kernel's last tick: some milliseconds old, for a fifth of the price. */
static inline uint64_t monotonic_coarse_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
