/* SPDX-License-Identifier: MIT */
/*
 * Locks, and the order in which they are taken.
 *
 * rank  every lock of core/ and shim/ has one, from the table below. A thread that holds locks
 *       waits only for one of a higher rank, so no two threads wait for each other. For example, a
 *       thread that holds ARENA may take SPARES, and none that holds SPARES may take ARENA
 *
 * The table also says which calls are allowed while a lock is held. May the driver be called? It
 * may take milliseconds and has locks of its own. May the thread wait for another thread? At the
 * gate a thread holds no lock: it may wait there for as long as memory is moved, and every thread
 * that wants its lock would wait with it.
 *
 * Locks whose holders take no other lock are of one rank, LEAF: there is no order among them.
 *
 * The rank is in a lock's type and takes no memory. In builds with SPILLWAY_CHECK_LOCKS each thread
 * keeps a list of its locks. The process ends where a rule is broken, with the names of the locks.
 * Unit tests and sanitizer builds set it for all files (see the Makefile). Elsewhere a lock is its
 * mutex and nothing else. A lock that lock_try() takes may be out of order, because the thread does
 * not wait for it.
 */
#ifndef SPILLWAY_LOCK_H
#define SPILLWAY_LOCK_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* The rights that a lock's holder has. */
enum {
	LOCK_MAY_NOTHING = 0, /* it is held for moments */
	LOCK_MAY_DRIVER = 1,  /* call the driver */
	LOCK_MAY_WAIT = 2,    /* wait for another thread, or until it is time to look again */
	LOCK_MAY_BOTH = LOCK_MAY_DRIVER | LOCK_MAY_WAIT,
};

/* Ranks, the first taken first: X(name, allowed calls of its holder, guarded data). */
/* clang-format off */
#define LOCKS(X) \
	/* at starts and ends */ \
	X(START,        BOTH,    "the start of the job in this process") \
	X(SERVER,       WAIT,    "the start of the thread that gives memory to other processes") \
	X(PRIMARY,      DRIVER,  "whether the primary context of a device is new") \
	X(OVERHEAD,     DRIVER,  "the measured memory of a device's contexts and modules") \
	X(NVML,         NOTHING, "the answers of a process without CUDA to calls of NVML") \
	/* memory that moves, and its surroundings */ \
	X(EXPORTS,      DRIVER,  "memory that other processes were given") \
	X(GATE,         BOTH,    "the closing of the gate, as long as it is closed") \
	X(ARENAS,       DRIVER,  "the making of arenas") \
	X(ARENA,        BOTH,    "the units, runs and slabs of an arena; slabs of the driver's memory") \
	X(OWN,          BOTH,    "physical memory that the program made, and where it is mapped") \
	X(HOST_PROBE,   BOTH,    "the driver's abilities with host memory, while they are read") \
	X(EXPORTED_AS,  NOTHING, "by which name an allocation is known to other processes") \
	X(EXPORTED,     NOTHING, "the charges for exported memory") \
	X(SPARES,       NOTHING, "spare chunks") \
	/* records of the program's objects */ \
	X(KEPT,         DRIVER,  "the records of a handle, while they are taken away") \
	X(FREED,        DRIVER,  "memory that was freed and may be in use") \
	X(POOLS,        DRIVER,  "which pools there are") \
	X(POOL,         DRIVER,  "the contents of a pool") \
	X(GRAPH_MEMORY, DRIVER,  "the memory of graphs") \
	X(COUNTED,        NOTHING, "which pools and graphs are to be tried again") \
	X(SURVEY,       DRIVER,  "the launches of a survey") \
	X(STEP_TIMES,   DRIVER,  "which steps of a device are timed") \
	X(HEAT_GRAPHS,  DRIVER,  "the memory that nodes of graphs use") \
	X(PARAMETERS,   DRIVER,  "where the parameters of functions are") \
	X(CAPTURES,     DRIVER,  "which streams are being captured") \
	X(HEARTBEAT,       DRIVER,  "the watcher's queries of contexts") \
	X(CONTEXTS,     NOTHING, "which contexts there are") \
	/* pacing and steps */ \
	X(PACER,        DRIVER,  "the rounds of a device") \
	X(STEPS,        NOTHING, "how the steps of a device are found") \
	X(STEP_RECORDS, NOTHING, "which step a device is in") \
	/* data of all rooms */ \
	X(LAUNCHES,     NOTHING, "the set of actions on launches, while it changes") \
	X(ACTIONS,      NOTHING, "the adding and removing of actions") \
	X(REGISTRY,     NOTHING, "the resources of a device") \
	X(SETTINGS,     NOTHING, "the settings of a device, while they change") \
	X(SHARING,      NOTHING, "the making of peer records") \
	X(PEER_RECORD,  NOTHING, "the contents of a peer record") \
	X(REMOVING,     WAIT,    "that one thread of the process removes files of jobs") \
	X(SEGMENT,      WAIT,    "the books of the job; among its processes") \
	/* locks held for moments, with no other taken meanwhile */ \
	X(LEAF,         NOTHING, "a list or a mark of one file")
/* clang-format on */

enum lock_rank {
	LOCK_NONE,
#define LOCK_NAMED(name, may, guards) LOCK_##name,
	LOCKS(LOCK_NAMED)
#undef LOCK_NAMED
	    LOCK_RANKS,
};

/*
 * A mutex that is taken by one atomic operation and given back by a store, at half the price of
 * glibc's. It is for locks that each allocation takes for moments. No thread is woken: a thread
 * that finds it taken looks again, at once, after a yield, and then in naps.
 */
struct quick_mutex {
	_Atomic uint32_t is_taken;
};

/* The types of locks of a rank: for one holder; for one writer or many readers. */
/* clang-format off */
#define QUICK_LOCK_OF(name)  union { struct quick_mutex mutex; char (*ranked)[LOCK_##name]; }
#define LOCK_OF(name)        union { pthread_mutex_t mutex; char (*ranked)[LOCK_##name]; }
#define SHARED_LOCK_OF(name) union { pthread_rwlock_t shared; char (*ranked)[LOCK_##name]; }
#define LOCK_FREE            {PTHREAD_MUTEX_INITIALIZER}
#define SHARED_LOCK_FREE     {PTHREAD_RWLOCK_INITIALIZER}
/* clang-format on */
#define LOCK_RANK(lock) ((enum lock_rank)sizeof(*(lock)->ranked))

/* --- a thread's locks --- */

#ifdef SPILLWAY_CHECK_LOCKS

enum { LOCKS_HELD_MAX = 16 };

struct locks_held {
	int count;
	bool is_taking; /* between the two below: a wait then is for that lock */
	struct {
		const void *lock;
		enum lock_rank rank;
	} at[LOCKS_HELD_MAX];
};
extern __thread struct locks_held locks_held __attribute__((tls_model("initial-exec")));

/* Surrounds taking and giving back. Ends the process where the calling thread breaks a rule. */
void locks_before(const void *lock, enum lock_rank rank);
void locks_taken(const void *lock, enum lock_rank rank);
void locks_missed(void); /* instead of that */
void locks_given(const void *lock);
/* Forgets the holder of a lock that is made anew: in a forked child no thread holds it. */
void locks_forget(const void *lock);
/*
 * Notes the state of the calling thread: it is at the gate; it calls the driver; it waits (and has
 * given one back, or NULL).
 */
void locks_at_gate(void);
void locks_at_driver(void);
void locks_at_wait(const void *given_back);

#else

#define locks_before(lock, rank)  ((void)0)
#define locks_taken(lock, rank)   ((void)0)
#define locks_missed()            ((void)0)
#define locks_given(lock)         ((void)0)
#define locks_forget(lock)        ((void)0)
#define locks_at_gate()           ((void)0)
#define locks_at_driver()         ((void)0)
#define locks_at_wait(given_back) ((void)0)

#endif

/* --- taking and giving back --- */

static inline void lock_mutex_acquire(pthread_mutex_t *mutex, enum lock_rank rank)
{
	(void)rank;
	locks_before(mutex, rank);
	pthread_mutex_lock(mutex);
	locks_taken(mutex, rank);
}

static inline bool lock_mutex_try(pthread_mutex_t *mutex, enum lock_rank rank)
{
	bool is_taken = pthread_mutex_trylock(mutex) == 0;

	(void)rank;
	if (is_taken)
		locks_taken(mutex, rank);
	return is_taken;
}

static inline void lock_mutex_release(pthread_mutex_t *mutex)
{
	locks_given(mutex);
	pthread_mutex_unlock(mutex);
}

static inline void lock_mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutex_init(mutex, NULL);
}

static inline void lock_mutex_destroy(pthread_mutex_t *mutex)
{
	pthread_mutex_destroy(mutex);
}

void lock_quick_wait(struct quick_mutex *mutex);

static inline bool lock_quick_is_free(struct quick_mutex *mutex)
{
	return atomic_exchange_explicit(&mutex->is_taken, 1, memory_order_acquire) == 0;
}

static inline void lock_quick_acquire(struct quick_mutex *mutex, enum lock_rank rank)
{
	(void)rank;
	locks_before(mutex, rank);
	if (__builtin_expect(!lock_quick_is_free(mutex), 0))
		lock_quick_wait(mutex);
	locks_taken(mutex, rank);
}

static inline bool lock_quick_try(struct quick_mutex *mutex, enum lock_rank rank)
{
	bool is_taken = lock_quick_is_free(mutex);

	(void)rank;
	if (is_taken)
		locks_taken(mutex, rank);
	return is_taken;
}

static inline void lock_quick_release(struct quick_mutex *mutex)
{
	locks_given(mutex);
	atomic_store_explicit(&mutex->is_taken, 0, memory_order_release);
}

static inline void lock_quick_init(struct quick_mutex *mutex)
{
	atomic_store(&mutex->is_taken, 0);
}

static inline void lock_quick_destroy(struct quick_mutex *mutex)
{
	(void)mutex;
}

static inline void lock_shared_acquire(pthread_rwlock_t *shared, enum lock_rank rank, bool writes)
{
	(void)rank;
	locks_before(shared, rank);
	if (writes)
		pthread_rwlock_wrlock(shared);
	else
		pthread_rwlock_rdlock(shared);
	locks_taken(shared, rank);
}

static inline void lock_shared_release(pthread_rwlock_t *shared)
{
	locks_given(shared);
	pthread_rwlock_unlock(shared);
}

/* Calls the function for this kind of mutex. */
#define LOCK_KIND(lock, what)                         \
	_Generic(&(lock)->mutex, struct quick_mutex * \
	         : lock_quick_##what, default         \
	         : lock_mutex_##what)
#define lock_init(lock)         (locks_forget(lock), LOCK_KIND(lock, init)(&(lock)->mutex))
#define lock_destroy(lock)      LOCK_KIND(lock, destroy)(&(lock)->mutex)
#define lock_acquire(lock)      LOCK_KIND(lock, acquire)(&(lock)->mutex, LOCK_RANK(lock))
#define lock_try(lock)          LOCK_KIND(lock, try)(&(lock)->mutex, LOCK_RANK(lock))
#define lock_release(lock)      LOCK_KIND(lock, release)(&(lock)->mutex)
#define lock_read(lock)         lock_shared_acquire(&(lock)->shared, LOCK_RANK(lock), false)
#define lock_write(lock)        lock_shared_acquire(&(lock)->shared, LOCK_RANK(lock), true)
#define lock_leave_shared(lock) lock_shared_release(&(lock)->shared)

/* --- conditions --- */

/* Makes a condition whose waits are by the monotonic clock. */
static inline void condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t by_monotonic;

	pthread_condattr_init(&by_monotonic);
	pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &by_monotonic);
	pthread_condattr_destroy(&by_monotonic);
}

static inline void condition_mutex_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
	locks_at_wait(mutex);
	pthread_cond_wait(condition, mutex);
}

static inline bool condition_mutex_wait_until(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                              uint64_t ends_ns)
{
	const struct timespec until = {(time_t)(ends_ns / 1000000000u),
	                               (long)(ends_ns % 1000000000u)};

	locks_at_wait(mutex);
	return pthread_cond_timedwait(condition, mutex, &until) == 0;
}

#define condition_wait(condition, lock) condition_mutex_wait(condition, &(lock)->mutex)
/* Returns false when the time has come. */
#define condition_wait_until(condition, lock, ends_ns) \
	condition_mutex_wait_until(condition, &(lock)->mutex, ends_ns)

/* --- mutexes in shared memory --- */

/* Returns 0, EOWNERDEAD (it is to be mended then), or another errno; not in the list. */
static inline int lock_robust_try(pthread_mutex_t *mutex)
{
	return pthread_mutex_trylock(mutex);
}

static inline int lock_robust_mend(pthread_mutex_t *mutex)
{
	return pthread_mutex_consistent(mutex);
}

static inline void lock_robust_release(pthread_mutex_t *mutex)
{
	pthread_mutex_unlock(mutex);
}

#endif
