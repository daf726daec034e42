/* SPDX-License-Identifier: MIT */
/*
 * The watcher: a thread that looks at work in flight while no thread of the program does, so that
 * other processes of the job and other jobs need not wait for this process. It is started by the
 * first call for it, and sleeps once nothing has been in flight for a while.
 *
 * It asks by a context it borrows, not while a capture is active or about to begin, and sleeps
 * while the job is alone.
 */
#ifndef SPILLWAY_WATCH_H
#define SPILLWAY_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct pacer;

/* Says which pacers are watched: all of the process; the array stays. */
void watch_prepare(struct pacer *const *pacers, int count);

/* Private (enter.c): the values of watch_sleeps, and how the watcher is started. */
enum { WATCH_LOOKS, WATCH_SLEEPS, WATCH_IS_NOT_THERE };
extern _Atomic uint32_t watch_sleeps, watch_called;
extern void (*watch_start)(void);
void watch_wake(void);

/* Calls the watcher: there may be something to look at. Costs one load unless it sleeps. */
static inline void watch_call(void)
{
	if (__builtin_expect(
	        atomic_load_explicit(&watch_sleeps, memory_order_relaxed) != WATCH_LOOKS, 0))
		watch_wake();
}

#endif
