/* SPDX-License-Identifier: MIT */
/* Idle points. Rules: runs inside the user's process; errno is kept. */
#include "core/memory/move/idle_point.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/once.h"

_Atomic unsigned int idle_point_is_awaited;

static struct once once;
static LOCK_OF(LEAF) lock = LOCK_FREE;
static pthread_cond_t told;
static bool has_come;
static _Atomic uint32_t taken; /* changes when the mover has the moment */

/*
 * Who tells of an idle point waits for the mover so long: it would have queued work again before.
 */
#define FOR_THE_MOVER_NS 1000000ull

static void idle_point_make(void)
{
	condition_init(&told);
}

void idle_point_tell(void)
{
	uint32_t seen = atomic_load(&taken);
	bool is_awaited;
	int saved = errno;

	lock_acquire(&lock);
	has_come = true;
	is_awaited = atomic_exchange(&idle_point_is_awaited, 0) != 0;
	if (is_awaited)
		pthread_cond_signal(&told);
	lock_release(&lock);
	if (is_awaited)
		clock_in_use->wait(&taken, seen, clock_now() + FOR_THE_MOVER_NS);
	errno = saved;
}

void idle_point_take(void)
{
	clock_in_use->wake(&taken);
}

void idle_point_wait(uint64_t ns)
{
	struct deadline until = DEADLINE_IN(ns);

	once_call(&once, idle_point_make);
	lock_acquire(&lock);
	has_come = false;
	atomic_store(&idle_point_is_awaited, 1);
	while (!has_come && condition_wait_until(&told, &lock, deadline_ends(&until)))
		;
	atomic_store(&idle_point_is_awaited, 0);
	lock_release(&lock);
}
