/* SPDX-License-Identifier: MIT */
/*
 * The clock: now, and waiting until then. Simulations and tests put their own in place of the
 * kernel's.
 *
 * word  a counter that changes when the awaited event may have happened; in shared memory it wakes
 *       other processes too
 */
#ifndef SPILLWAY_CLOCK_H
#define SPILLWAY_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct clock {
	/*
	 * Returns CLOCK_MONOTONIC in nanoseconds; the same for all processes of the machine, but in
	 * another time namespace. Little on a machine that has just booted. No system call.
	 */
	uint64_t (*now)(void);
	/*
	 * Returns when the word is not `seen`, at the deadline, or for no reason. No cancellation
	 * point; keeps errno.
	 */
	void (*wait)(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns);
	/* Changes the word and wakes all threads that wait for it. */
	void (*wake)(_Atomic uint32_t *word);
};

/* The kernel's, by futexes. */
extern const struct clock clock_of_kernel;
/* All of core/ and shim/ use this one. */
extern const struct clock *clock_in_use;

static inline uint64_t clock_now(void)
{
	return clock_in_use->now();
}

/* Returns the time of the kernel's last tick: some milliseconds old, for a fifth of the price. */
uint64_t clock_coarse(void);
/* Returns CLOCK_REALTIME in nanoseconds, which may be set. */
uint64_t clock_of_day(void);

/* Returns the milliseconds of clock_coarse(), which begin anew after 49 days. */
static inline uint32_t clock_coarse_ms(void)
{
	return (uint32_t)(clock_coarse() / 1000000);
}

#endif
