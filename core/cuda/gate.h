/* SPDX-License-Identifier: MIT */
/*
 * The gate: every call that hands work or memory to the driver passes it. It is closed for the
 * short time in which memory must not be used.
 *
 * thread  the gate's record of one thread: how deep in calls it is
 * closed  threads outside wait at the entrance until it opens; those inside are waited for, bounded
 * held    closed, but a thread that has waited long enough passes for one call. Work on the device
 *         may wait for that very thread, and the holder of the gate may wait for the device
 * seized  closed without that exception: no thread is inside, and none gets in
 *
 * Cost of a passage: two stores, two loads, one predictable branch. The fence between "I am inside"
 * and "is it closed" is paid by the closing thread (membarrier), or by each passage where the
 * kernel refuses that.
 */
#ifndef SPILLWAY_GATE_H
#define SPILLWAY_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/lock.h"

struct gate_thread {
	_Alignas(
	    64) _Atomic uint32_t inside; /* depth; written by the thread alone, in its own line */
	_Atomic bool taken;
	_Atomic uint64_t waits_since; /* at the entrance; 0: it does not */
	_Atomic uint32_t asks;        /* calls that would invalidate a capture (capture.h) */
	uint32_t number;              /* no other thread's; they are numbered from 0 */
	struct gate_thread *next;
};

enum { GATE_CLOSED = 1, GATE_FENCES = 2, GATE_SEIZED = 4, GATE_WATCHED = 8 };

/* Private: used by the inline functions below. */
extern _Atomic uint32_t gate_state;
extern __thread struct gate_thread *gate_thread __attribute__((tls_model("initial-exec")));
struct gate_thread *gate_thread_take(void);
/* Returns the gate's record of the calling thread. */
static inline struct gate_thread *gate_thread_here(void)
{
	struct gate_thread *thread = gate_thread;

	return __builtin_expect(thread != NULL, 1) ? thread : gate_thread_take();
}
/* Returns whether no thread asks. */
bool gate_nobody_asks(void);
void gate_enter_slowly(struct gate_thread *thread);

/*
 * Enters the gate before a call of the driver; waits while the gate is closed, so the caller holds
 * no lock (lock.h). May be nested: an inner call passes, and may be made with one.
 */
static inline void gate_enter(void)
{
	struct gate_thread *thread = gate_thread_here();

#ifdef SPILLWAY_CHECK_LOCKS /* an atomic load is not left out, even for nothing */
	if (!atomic_load_explicit(&thread->inside, memory_order_relaxed))
		locks_at_gate();
#endif
	atomic_store_explicit(&thread->inside,
	                      atomic_load_explicit(&thread->inside, memory_order_relaxed) + 1,
	                      memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (__builtin_expect(atomic_load_explicit(&gate_state, memory_order_acquire) != 0, 0))
		gate_enter_slowly(thread);
}

/* Leaves the gate after that call. */
static inline void gate_leave(void)
{
	struct gate_thread *thread = gate_thread;

	atomic_store_explicit(&thread->inside,
	                      atomic_load_explicit(&thread->inside, memory_order_relaxed) - 1,
	                      memory_order_release);
}

/*
 * Readies the gate for being closed, when it is first called: asks the kernel for membarrier. In a
 * process of several threads that lasts some milliseconds, and if the process exits meanwhile, so
 * does its end. So it is left to the thread that closes the gate, until memory has to move. Where
 * it is refused, threads inside came in without a fence: the caller does other work for a moment
 * before it closes the gate.
 */
void gate_start(void);
/*
 * Closes the gate and waits until no thread is inside, at most `patience_ns`. A thread that has
 * waited `expiry_ns` at the entrance gets in, and with its next call waits again. True: it is held;
 * the same thread must gate_open() soon. False: a thread stayed inside, or the kernel refuses
 * membarrier since now; the gate is open again, and the caller tries later. The caller is outside.
 * Until it opens the gate it does not enter, and takes no lock that other threads hold while they
 * enter.
 */
bool gate_hold(uint64_t patience_ns, uint64_t expiry_ns);
/*
 * Seizes the gate that is held. Returns false when a thread got in and is still inside; the gate
 * stays held.
 */
bool gate_seize(void);
/* Lets go of a seized gate, which is held again. */
void gate_unseize(void);
/*
 * Releases a seized gate, which is held again, and lets in the threads that wait at the entrance by
 * now, for one call each. Returns when they are in, or after so long: a thread may not be run.
 */
void gate_let_in(uint64_t patience_ns);
/* Opens the gate, held or seized. */
void gate_open(void);

/*
 * Returns the time since which no thread has passed: the last look that found a passage since the
 * one before (now_ns, at the first). The next passage costs a few stores more. Any thread.
 */
uint64_t gate_unused_since(uint64_t now_ns);
/* Has the next passage after a look change this word, and wake its waiters; NULL: none. */
void gate_tell(_Atomic uint32_t *word);
/* Opens the gate in a forked child: all other threads are gone, the holder with them. */
void gate_forked(void);

#endif
