/* SPDX-License-Identifier: MIT */
/*
 * Bells. Rules: runs inside the user's process; a wait ends at its deadline, even if every call
 * fails.
 */
#include "core/base/bells.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"

/* Debian 11's headers have neither; the number is the same on every processor. */
enum { BELLS_FUTEX_WAITV = 449, BELLS_FUTEX_32 = 2 };

/* As the kernel wants it (struct futex_waitv). */
struct bells_waiter {
	uint64_t value, address;
	uint32_t flags, reserved;
};

struct bells_time {
	int64_t seconds, nanoseconds;
};

static _Atomic bool has_no_waitv;

void bells_add(struct bells *bells, _Atomic uint32_t *word, uint32_t seen)
{
	if (!word || bells->count == BELLS_MAX)
		return;
	bells->of[bells->count].word = word;
	bells->of[bells->count++].seen = seen;
}

bool bells_are_all_heard(const struct bells *bells)
{
	return bells->count <= 1 || !atomic_load(&has_no_waitv);
}

bool bells_can_be_several(void)
{
	/* No word is an error of its own, where the call is known. */
	return syscall(BELLS_FUTEX_WAITV, NULL, 0, 0, NULL, 0) == 0 || errno == EINVAL;
}

static long bells_wait_for_any(const struct bells *bells, uint64_t deadline_ns)
{
	const struct bells_time deadline = {(int64_t)(deadline_ns / 1000000000u),
	                                    (int64_t)(deadline_ns % 1000000000u)};
	struct bells_waiter waiter[BELLS_MAX];
	long result;

	for (int i = 0; i < bells->count; i++)
		waiter[i] = (struct bells_waiter){.value = bells->of[i].seen,
		                                  .address = (uintptr_t)bells->of[i].word,
		                                  .flags = BELLS_FUTEX_32};
	result = syscall(BELLS_FUTEX_WAITV, waiter, bells->count, 0, &deadline, CLOCK_MONOTONIC);
	if (result < 0 && (errno == ENOSYS || errno == EPERM))
		atomic_store(&has_no_waitv, true);
	return result;
}

static long bells_wait_for_one(const struct bells *bells, uint64_t deadline_ns)
{
	const struct timespec deadline = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
	                                  .tv_nsec = (long)(deadline_ns % 1000000000u)};

	return syscall(SYS_futex, bells->of[0].word, FUTEX_WAIT_BITSET, bells->of[0].seen,
	               &deadline, NULL, FUTEX_BITSET_MATCH_ANY);
}

bool bells_wait(const struct bells *bells, uint64_t deadline_ns)
{
	long result = -1;
	int saved = errno;
	uint64_t now;

	errno = ENOSYS;
	if (bells->count > 1 && !atomic_load(&has_no_waitv))
		result = bells_wait_for_any(bells, deadline_ns);
	if (result < 0 && (errno == ENOSYS || errno == EPERM) && bells->count)
		result = bells_wait_for_one(bells, deadline_ns);
	if (result < 0 && errno != EAGAIN && errno != ETIMEDOUT && errno != EINTR &&
	    (now = clock_now()) < deadline_ns)
		deadline_sleep(deadline_ns - now);
	result = result >= 0 || errno == EAGAIN;
	errno = saved;
	return result;
}

int bells_ring(_Atomic uint32_t *word)
{
	int saved = errno;
	long woken = syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);

	errno = saved;
	return woken > 0 ? (int)woken : 0;
}
