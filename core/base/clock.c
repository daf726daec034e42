/* SPDX-License-Identifier: MIT */
/* The clock. Rules: runs inside the user's process; a wait ends at its deadline. */
#include "core/base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <limits.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint64_t read_clock(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t monotonic(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t clock_coarse(void)
{
	return read_clock(CLOCK_MONOTONIC_COARSE);
}

uint64_t clock_of_day(void)
{
	return read_clock(CLOCK_REALTIME);
}

/*
 * Waits by FUTEX_WAIT_BITSET, which takes a point in time, so that an interrupted wait ends when it
 * should.
 */
static void clock_wait_for(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
	                                  .tv_nsec = (long)(deadline_ns % 1000000000u)};
	int saved = errno;

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, &deadline, NULL, FUTEX_BITSET_MATCH_ANY);
	errno = saved;
}

static void wake(_Atomic uint32_t *word)
{
	int saved = errno;

	atomic_fetch_add(word, 1);
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	errno = saved;
}

const struct clock clock_of_kernel = {.now = monotonic, .wait = clock_wait_for, .wake = wake};
const struct clock *clock_in_use = &clock_of_kernel;
