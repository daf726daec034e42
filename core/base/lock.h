/*
 * Locks, as far as a rule about them is checked: a thread that waits at the gate holds none. It may wait for as long as
 * memory is moved, and with it everybody would who wants its lock.
 *
 * In builds with SPILLWAY_CHECK_LOCKS (unit tests, and all with a sanitizer) this is included before everything in core/
 * and shim/ (see the Makefile) and counts what the calling thread holds; elsewhere it is nothing. A name in parentheses,
 * as in (pthread_mutex_lock)(&mutex), is not counted: for what is held for good.
 */
#ifndef SPILLWAY_LOCK_H
#define SPILLWAY_LOCK_H

#ifdef SPILLWAY_CHECK_LOCKS

#include <errno.h>
#include <pthread.h>

extern __thread int locks_held __attribute__((tls_model("initial-exec")));
/* Ends the process, and says so, where the calling thread holds a lock. */
void locks_check_none_is_held(void);

static inline int locks_taken(int error)
{
	locks_held += !error || error == EOWNERDEAD;
	return error;
}

/* clang-format off */
#define pthread_mutex_lock(mutex)     locks_taken(pthread_mutex_lock(mutex))
#define pthread_mutex_trylock(mutex)  locks_taken(pthread_mutex_trylock(mutex))
#define pthread_mutex_unlock(mutex)   (locks_held--, pthread_mutex_unlock(mutex))
#define pthread_rwlock_rdlock(lock)   locks_taken(pthread_rwlock_rdlock(lock))
#define pthread_rwlock_wrlock(lock)   locks_taken(pthread_rwlock_wrlock(lock))
#define pthread_rwlock_unlock(lock)   (locks_held--, pthread_rwlock_unlock(lock))
/* clang-format on */

#endif

#endif
