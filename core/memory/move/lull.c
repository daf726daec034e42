/* Lulls. Rules: runs inside the user's process; errno is kept. */
#include "core/memory/move/lull.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/once.h"

_Atomic unsigned int lull_is_awaited;

static struct once once;
static LOCK_OF(LULL) lock = LOCK_FREE;
static pthread_cond_t told;
static bool has_come;

static void make(void)
{
	condition_init(&told);
}

void lull_tell(void)
{
	int saved = errno;

	lock_acquire(&lock);
	has_come = true;
	if (atomic_load(&lull_is_awaited))
		pthread_cond_signal(&told);
	lock_release(&lock);
	errno = saved;
}

void lull_wait(uint64_t ns)
{
	struct deadline until = DEADLINE_IN(ns);

	once_call(&once, make);
	lock_acquire(&lock);
	has_come = false;
	atomic_store(&lull_is_awaited, 1);
	while (!has_come && condition_wait_until(&told, &lock, deadline_ends(&until)))
		;
	atomic_store(&lull_is_awaited, 0);
	lock_release(&lock);
}
