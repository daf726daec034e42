/* SPDX-License-Identifier: MIT */
/* Deadlines. Rules: runs inside the user's process; errno is kept. */
#include "core/base/deadline.h"

#include <sched.h>

#include "core/base/clock.h"

static uint64_t later(uint64_t now, uint64_t ns)
{
	return ns > UINT64_MAX - now ? UINT64_MAX : now + ns;
}

uint64_t deadline_ends(struct deadline *deadline)
{
	if (!deadline->until_ns)
		deadline->until_ns = later(clock_now(), deadline->patience_ns);
	return deadline->until_ns;
}

bool deadline_has_passed(struct deadline *deadline)
{
	return !deadline->patience_ns || clock_now() >= deadline_ends(deadline);
}

uint64_t deadline_left(struct deadline *deadline)
{
	uint64_t ends = deadline_ends(deadline), now = clock_now();

	return now < ends ? ends - now : 0;
}

struct deadline deadline_within(struct deadline *whole, uint64_t patience_ns)
{
	uint64_t ends, then;

	if (!whole->patience_ns || !patience_ns)
		return DEADLINE_IN(0);
	ends = deadline_ends(whole);
	then = later(clock_now(), patience_ns);
	return (struct deadline){.patience_ns = patience_ns, .until_ns = then < ends ? then : ends};
}

/* The kernel waits for a time that it can write down. */
#define LONGEST_NS ((uint64_t)1 << 62)

bool deadline_wait(struct deadline *deadline, _Atomic uint32_t *word, uint32_t seen)
{
	uint64_t ends;

	if (deadline_has_passed(deadline))
		return false;
	ends = deadline_ends(deadline);
	locks_at_wait(NULL);
	clock_in_use->wait(word, seen, ends < LONGEST_NS ? ends : LONGEST_NS);
	return true;
}

bool deadline_nap(struct deadline *deadline, uint64_t ns)
{
	static _Atomic uint32_t nobody_changes_it;
	uint64_t ends, then;

	if (deadline_has_passed(deadline))
		return false;
	ends = deadline_ends(deadline);
	then = later(clock_now(), ns);
	locks_at_wait(NULL);
	clock_in_use->wait(&nobody_changes_it, 0, then < ends ? then : ends);
	return true;
}

void deadline_sleep(uint64_t ns)
{
	struct deadline until = DEADLINE_IN(ns);

	deadline_nap(&until, ns);
}

/*
 * Waits until a lock that was not had is to be tried again, not in the kernel: that wait is by the
 * clock that can be set. It is held for moments, mostly. Returns false when the time has come.
 */
static bool waits_on(struct deadline *deadline, int tries)
{
	enum { SPINS = 100, NAP_NS = 20000 };

	if (tries >= SPINS)
		return deadline_nap(deadline, NAP_NS);
	sched_yield();
	return true;
}

bool lock_mutex_within(pthread_mutex_t *mutex, enum lock_rank rank, struct deadline *deadline)
{
	bool is_taken;

	locks_before(mutex, rank);
	for (int tries = 0; !(is_taken = lock_mutex_try(mutex, rank)) && waits_on(deadline, tries);
	     tries++)
		;
	if (!is_taken)
		locks_missed();
	return is_taken;
}

bool lock_quick_within(struct quick_mutex *mutex, enum lock_rank rank, struct deadline *deadline)
{
	bool is_taken;

	locks_before(mutex, rank);
	for (int tries = 0; !(is_taken = lock_quick_try(mutex, rank)) && waits_on(deadline, tries);
	     tries++)
		;
	if (!is_taken)
		locks_missed();
	return is_taken;
}
