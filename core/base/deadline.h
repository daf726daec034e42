/* SPDX-License-Identifier: MIT */
/*
 * Deadlines: how long a call may be kept waiting in all.
 *
 * A deadline is made once, where a request or a wait begins, and handed down to every function that
 * waits for its sake. Its time begins with the first wait, so that a call that does not wait does
 * not even read the clock. It is a point in time and no number of naps: a nap of 50 us lasts 2 ms
 * on a busy machine. For example, a call with 5 s that has waited 3 s for memory on its way has 2 s
 * left for other jobs' memory.
 */
#ifndef SPILLWAY_DEADLINE_H
#define SPILLWAY_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/lock.h"

struct deadline {
	uint64_t patience_ns; /* 0: no wait at all */
	uint64_t until_ns;    /* of the clock; 0: no wait has begun yet */
};

#define DEADLINE_IN(ns) ((struct deadline){.patience_ns = (ns)})

/* Begins it unless a wait has begun it. Returns when it ends, by the clock. */
uint64_t deadline_ends(struct deadline *deadline);
/* Begins it unless a wait has begun it. */
bool deadline_has_passed(struct deadline *deadline);
/* Returns the time that is left; 0: it has passed. Begins it unless a wait has begun it. */
uint64_t deadline_left(struct deadline *deadline);
/* Makes a deadline for a part of a wait: so long from now on, and no longer than the whole. */
struct deadline deadline_within(struct deadline *whole, uint64_t patience_ns);
/*
 * Waits until it is time to look again, in so many nanoseconds, or the deadline ends. Returns
 * false, at once, if that has passed. No cancellation point; keeps errno.
 */
bool deadline_nap(struct deadline *deadline, uint64_t ns);
/* Waits so long; for a caller that has no deadline and looks again. */
void deadline_sleep(uint64_t ns);
/*
 * Waits as deadline_nap() does, and goes on when the word is not `seen`: clock_in_use->wake()
 * changes it.
 */
bool deadline_wait(struct deadline *deadline, _Atomic uint32_t *word, uint32_t seen);

/* Takes a lock, as lock_acquire(). Returns false where it was not given back in time. */
#define deadline_lock(deadline, lock) \
	LOCK_KIND(lock, within)(&(lock)->mutex, LOCK_RANK(lock), deadline)
bool lock_mutex_within(pthread_mutex_t *mutex, enum lock_rank rank, struct deadline *deadline);
bool lock_quick_within(struct quick_mutex *mutex, enum lock_rank rank, struct deadline *deadline);

#endif
