/*
 * The watcher: a thread that looks at what is in flight while no thread of the program does, so
 * that others of the job and other jobs need not wait for this process. It sleeps once nothing has
 * been in flight for a while.
 *
 * It asks by a context it borrows, not while a capture is active or about to begin, and sleeps
 * while the job is alone.
 */
#ifndef SPILLWAY_WATCH_H
#define SPILLWAY_WATCH_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/base/clock.h"

struct pacer;

/* Starts the watcher of all pacers of the process, once; the array stays. */
void watch_start(struct pacer *const *pacers, int count);

/* Private: non-zero while the watcher sleeps until it is called. */
extern _Atomic uint32_t watch_sleeps, watch_called;

/* Calls the watcher: there may be something to look at. Costs one load unless it sleeps. */
static inline void watch_call(void)
{
	if (__builtin_expect(atomic_load_explicit(&watch_sleeps, memory_order_relaxed) != 0, 0)) {
		atomic_store(&watch_sleeps, 0);
		clock_in_use->wake(&watch_called);
	}
}

#endif
