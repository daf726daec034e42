/* SPDX-License-Identifier: MIT */
/*
 * Once. Rules: runs inside the user's process; no call of the kernel where nobody waits but for the
 * process number.
 */
#include "core/base/once.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "core/base/deadline.h"

enum { HAS_RETURNED = -1, LOOK_NS = 100000 };

static __attribute__((noinline)) void call_or_wait(struct once *once, void (*function)(void))
{
	pid_t self = getpid(), caller = atomic_load(&once->caller);
	int saved = errno, cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	while (caller != HAS_RETURNED) {
		/* The caller of another process is the parent's: it does not exist here. */
		if (caller == self) {
			deadline_sleep(LOOK_NS);
			caller = atomic_load(&once->caller);
		} else if (atomic_compare_exchange_weak(&once->caller, &caller, self)) {
			function();
			atomic_store(&once->caller, HAS_RETURNED);
			break;
		}
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
}

void once_call(struct once *once, void (*function)(void))
{
	if (atomic_load_explicit(&once->caller, memory_order_acquire) != HAS_RETURNED)
		call_or_wait(once, function);
}
