/* SPDX-License-Identifier: MIT */
/*
 * The gate. Rules: runs inside the user's process; errno is kept; a waiting thread holds no lock.
 */
#include "core/cuda/gate.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/log.h"

enum { LOOK_AGAIN_NS = 50000000, POLL_NS = 20000, SEIZE_NS = 200000 };

_Atomic uint32_t gate_state;
__thread struct gate_thread *gate_thread __attribute__((tls_model("initial-exec")));

/* They are reused and never freed: the thread that closes the gate walks them without a lock. */
static _Atomic(struct gate_thread *) known_threads;
/*
 * Of all threads for which there was no memory: while one of them is inside the gate cannot
 * close.
 */
static struct gate_thread without_memory = {.number = UINT32_MAX};
static _Atomic uint32_t threads_made;
static _Atomic bool without_memory_is_used;
static LOCK_OF(GATE) closing = LOCK_FREE;
static _Atomic uint64_t gate_thread_key; /* a thread's key and 1; 0: none yet */
static _Atomic uint32_t
    reopened; /* changes when it is open or seized no more: for threads that wait */
static _Atomic uint64_t expiry;  /* ns; of the holder */
static _Atomic uint64_t let_in;  /* a thread that has waited since before then gets in; 0: none */
static _Atomic pid_t closer;     /* the process that closed it; a raw clone() is another */
static _Atomic uint64_t used_ns; /* when a look has found a passage last */
static _Atomic(_Atomic uint32_t *) told_passage; /* NULL: none */

static void full_fence(void)
{
#ifdef __SANITIZE_THREAD__
	static _Atomic int order; /* the sanitizer knows no fences */

	atomic_fetch_add(&order, 1);
#else
	atomic_thread_fence(memory_order_seq_cst);
#endif
}

/*
 * Gives the record up at the thread's end. A destructor that runs later may call again: it takes
 * another one.
 */
static void gate_thread_leave(void *value)
{
	struct gate_thread *thread = value;

	gate_thread = NULL;
	atomic_store(&thread->inside, 0);
	atomic_store(&thread->waits_since, 0);
	atomic_store(&thread->asks, 0);
	atomic_store(&thread->taken, false);
}

/* Sees to it that the thread's end gives up the record. Of threads that make the key at the same
 * time none waits: the caller may hold a lock with which it may not. */
static void gate_thread_remember(struct gate_thread *thread)
{
	uint64_t known = atomic_load(&gate_thread_key);
	pthread_key_t made;

	if (!known && pthread_key_create(&made, gate_thread_leave) == 0) {
		if (atomic_compare_exchange_strong(&gate_thread_key, &known, (uint64_t)made + 1))
			known = (uint64_t)made + 1;
		else
			pthread_key_delete(made);
	}
	if (known)
		pthread_setspecific((pthread_key_t)(known - 1), thread);
}

static struct gate_thread *gate_thread_find(void)
{
	struct gate_thread *thread;

	for (thread = atomic_load(&known_threads); thread; thread = thread->next) {
		bool taken = false;

		if (!atomic_load_explicit(&thread->taken, memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&thread->taken, &taken, true))
			return thread;
	}
	thread = aligned_alloc(_Alignof(struct gate_thread), sizeof(*thread));
	if (!thread)
		return NULL;
	*thread = (struct gate_thread){.number = atomic_fetch_add(&threads_made, 1)};
	atomic_store(&thread->taken, true);
	thread->next = atomic_load(&known_threads);
	while (!atomic_compare_exchange_weak(&known_threads, &thread->next, thread))
		;
	return thread;
}

__attribute__((noinline)) struct gate_thread *gate_thread_take(void)
{
	int saved = errno;
	struct gate_thread *thread = gate_thread_find();

	if (thread) {
		gate_thread_remember(thread);
	} else {
		thread = &without_memory;
		atomic_store(&without_memory_is_used, true);
	}
	gate_thread = thread;
	errno = saved;
	return thread;
}

/* Returns whether a thread may pass. since: when it began to wait; 0: it did not. */
static bool may_pass(uint32_t state, uint64_t since)
{
	if (!(state & GATE_CLOSED))
		return true;
	return !(state & GATE_SEIZED) && since &&
	       (since < atomic_load(&let_in) || clock_now() - since >= atomic_load(&expiry));
}

static void wait_at_entrance(struct gate_thread *thread, uint64_t since)
{
	uint32_t seen;

	atomic_store(&thread->waits_since, since);
	while (seen = atomic_load(&reopened), !may_pass(atomic_load(&gate_state), since)) {
		uint64_t now = clock_now(), waited = now - since, wanted = atomic_load(&expiry);
		uint64_t look_again = LOOK_AGAIN_NS;

		if (waited < wanted && wanted - waited < look_again)
			look_again = wanted - waited;
		/* A clone of the process that closed it has no one to open it. */
		if (atomic_load(&closer) != getpid())
			gate_forked();
		else
			clock_in_use->wait(&reopened, seen, now + look_again);
	}
	atomic_store(&thread->waits_since, 0);
}

/* Notes the first passage after a look. */
static void note_passage(void)
{
	_Atomic uint32_t *word;

	if (!(atomic_load(&gate_state) & GATE_WATCHED) ||
	    !(atomic_fetch_and(&gate_state, ~(uint32_t)GATE_WATCHED) & GATE_WATCHED))
		return;
	word = atomic_load(&told_passage);
	if (word)
		clock_in_use->wake(word);
}

uint64_t gate_unused_since(uint64_t now_ns)
{
	if (!(atomic_fetch_or(&gate_state, GATE_WATCHED) & GATE_WATCHED))
		atomic_store(&used_ns, now_ns);
	return atomic_load(&used_ns);
}

void gate_tell(_Atomic uint32_t *word)
{
	atomic_store(&told_passage, word);
}

__attribute__((noinline)) void gate_enter_slowly(struct gate_thread *thread)
{
	int saved = errno;
	uint64_t since = 0;

	note_passage();
	for (;;) {
		/* Seized before: seen below. Seized later: the thread is seen inside. */
		full_fence();
		/* A thread inside already is being waited for. */
		if (may_pass(atomic_load(&gate_state), since) || atomic_load(&thread->inside) > 1)
			break;
		atomic_store(&thread->inside, 0);
		since = since ? since : clock_now();
		wait_at_entrance(thread, since);
		atomic_store(&thread->inside, 1);
	}
	errno = saved;
}

void gate_start(void)
{
	static bool is_started;
	int saved = errno;

	if (is_started)
		return;
	is_started = true;
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) != 0 ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) != 0)
		atomic_fetch_or(&gate_state, GATE_FENCES);
	errno = saved;
}

static bool nobody_is_inside(void)
{
	for (struct gate_thread *thread = atomic_load(&known_threads); thread;
	     thread = thread->next) {
		if (atomic_load_explicit(&thread->inside, memory_order_acquire) != 0)
			return false;
	}
	return !atomic_load(&without_memory_is_used);
}

bool gate_nobody_asks(void)
{
	for (struct gate_thread *thread = atomic_load(&known_threads); thread;
	     thread = thread->next)
		if (atomic_load(&thread->asks) != 0)
			return false;
	return atomic_load(&without_memory.asks) == 0;
}

static bool wait_until_nobody_is_inside(uint64_t patience_ns)
{
	struct deadline until = DEADLINE_IN(patience_ns);

	while (!nobody_is_inside()) {
		if (!deadline_nap(&until, POLL_NS))
			return false;
	}
	return true;
}

bool gate_hold(uint64_t patience_ns, uint64_t expiry_ns)
{
	int saved = errno;
	bool is_seen = true;

	lock_acquire(&closing);
	atomic_store(&expiry, expiry_ns);
	atomic_store(&let_in, 0);
	atomic_store(&closer, getpid());
	/* Every passage after the fence sees the gate closed, or is seen inside. */
	if (atomic_fetch_or(&gate_state, GATE_CLOSED) & GATE_FENCES) {
		full_fence();
	} else if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) != 0) {
		/* The program has shut itself in since (seccomp): next time each passage pays. */
		atomic_fetch_or(&gate_state, GATE_FENCES);
		is_seen = false;
	}
	if (!is_seen || !wait_until_nobody_is_inside(patience_ns)) {
		gate_open();
		errno = saved;
		return false;
	}
	errno = saved;
	return true;
}

bool gate_seize(void)
{
	int saved = errno;
	bool is_seized;

	atomic_fetch_or(&gate_state, GATE_SEIZED);
	/* Since the gate is held, a thread inside got there slowly, past a fence: no membarrier. */
	full_fence();
	/* A newcomer sits down before he looks, and gets up again at once. */
	is_seized = wait_until_nobody_is_inside(SEIZE_NS);
	if (!is_seized)
		gate_unseize();
	errno = saved;
	return is_seized;
}

static void change_and_wake(uint32_t removed)
{
	atomic_fetch_and(&gate_state, ~removed);
	clock_in_use->wake(&reopened);
}

void gate_unseize(void)
{
	change_and_wake(GATE_SEIZED);
}

/* Returns whether a thread is at the entrance that has come before then. */
static bool anybody_waits(uint64_t before)
{
	for (struct gate_thread *thread = atomic_load(&known_threads); thread;
	     thread = thread->next) {
		uint64_t since = atomic_load(&thread->waits_since);

		if (since && since < before)
			return true;
	}
	return false;
}

void gate_let_in(uint64_t patience_ns)
{
	struct deadline until = DEADLINE_IN(patience_ns);
	uint64_t now = clock_now();

	atomic_store(&let_in, now);
	gate_unseize();
	/* It takes some microseconds: a nap would last longer. */
	while (anybody_waits(now) && !deadline_has_passed(&until))
		sched_yield();
}

void gate_open(void)
{
	change_and_wake(GATE_CLOSED | GATE_SEIZED);
	lock_release(&closing);
}

void gate_forked(void)
{
	struct gate_thread *own = gate_thread;

	for (struct gate_thread *thread = atomic_load(&known_threads); thread;
	     thread = thread->next) {
		if (thread != own) {
			atomic_store(&thread->inside, 0);
			atomic_store(&thread->waits_since, 0);
			atomic_store(&thread->asks, 0);
			atomic_store(&thread->taken, false);
		}
	}
	atomic_fetch_and(&gate_state, ~(uint32_t)(GATE_CLOSED | GATE_SEIZED));
	lock_init(&closing);
}
