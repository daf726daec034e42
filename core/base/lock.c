/* SPDX-License-Identifier: MIT */
/*
 * Locks: the wait for a quick one, and, in builds that check, the list of locks that a thread
 * holds. Rules: installed objects have no such list.
 */
#include "core/base/lock.h"

#include <sched.h>

#include "core/base/clock.h"

/*
 * Waits until the calling thread has it. By the kernel's clock, with any clock in use: the wait is
 * too short to be simulated.
 */
void lock_quick_wait(struct quick_mutex *mutex)
{
	enum { LOOKS = 100, YIELDS = 200, NAP_NS = 20000, NAP_MOST_NS = 1000000 };
	uint64_t nap_ns = NAP_NS;

	for (int tries = 0; atomic_load_explicit(&mutex->is_taken, memory_order_relaxed) ||
	                    !lock_quick_is_free(mutex);
	     tries++) {
		if (tries >= YIELDS) {
			clock_of_kernel.wait(&mutex->is_taken, 1, clock_of_kernel.now() + nap_ns);
			nap_ns = nap_ns < NAP_MOST_NS ? 2 * nap_ns : nap_ns;
		} else if (tries >= LOOKS) {
			sched_yield();
		}
	}
}

#ifdef SPILLWAY_CHECK_LOCKS

#include <stdlib.h>

#include "core/base/log.h"

__thread struct locks_held locks_held __attribute__((tls_model("initial-exec")));

static const struct {
	const char *name;
	int may;
} ranks[LOCK_RANKS] = {
#define LOCK_DESCRIBED(name, may, guards) [LOCK_##name] = {#name, LOCK_MAY_##may},
    LOCKS(LOCK_DESCRIBED)
#undef LOCK_DESCRIBED
};

static const char *lock_name_of(int i)
{
	return ranks[locks_held.at[i].rank].name;
}

void locks_before(const void *lock, enum lock_rank rank)
{
	locks_held.is_taking = true;
	for (int i = 0; i < locks_held.count; i++) {
		if (locks_held.at[i].lock == lock) {
			log_error("a thread takes the lock %s that it holds", lock_name_of(i));
			abort();
		}
		if (locks_held.at[i].rank >= rank) {
			log_error("a thread takes the lock %s while it holds %s, which comes later",
			          ranks[rank].name, lock_name_of(i));
			abort();
		}
	}
}

void locks_taken(const void *lock, enum lock_rank rank)
{
	if (locks_held.count == LOCKS_HELD_MAX) {
		log_error("a thread takes the lock %s while it holds %d others", ranks[rank].name,
		          locks_held.count);
		abort();
	}
	locks_held.is_taking = false;
	locks_held.at[locks_held.count].lock = lock;
	locks_held.at[locks_held.count++].rank = rank;
}

void locks_missed(void)
{
	locks_held.is_taking = false;
}

static bool lock_take_out(const void *lock)
{
	int i = locks_held.count - 1;

	while (i >= 0 && locks_held.at[i].lock != lock)
		i--;
	if (i < 0)
		return false;
	for (locks_held.count--; i < locks_held.count; i++)
		locks_held.at[i] = locks_held.at[i + 1];
	return true;
}

void locks_given(const void *lock)
{
	if (lock_take_out(lock))
		return;
	log_error("a thread gives back a lock that it does not hold");
	abort();
}

void locks_forget(const void *lock)
{
	lock_take_out(lock);
}

/* Ends the process where a lock is held that does not allow it. */
static void lock_check(int what, const char *does, const void *except)
{
	for (int i = 0; i < locks_held.count; i++) {
		enum lock_rank rank = locks_held.at[i].rank;

		if (locks_held.at[i].lock == except || (what && (ranks[rank].may & what)))
			continue;
		log_error("a thread %s with the lock %s held", does, ranks[rank].name);
		abort();
	}
}

void locks_at_gate(void)
{
	lock_check(0, "comes to the gate", NULL);
}

void locks_at_driver(void)
{
	lock_check(LOCK_MAY_DRIVER, "calls the driver", NULL);
}

void locks_at_wait(const void *given_back)
{
	if (!locks_held.is_taking)
		lock_check(LOCK_MAY_WAIT, "waits", given_back);
}

#endif
