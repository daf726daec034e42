/* Natural moments. Rules: runs inside the user's process; errno is kept. */
#include "core/memory/move/lull.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "core/base/once.h"

_Atomic unsigned int moment_is_awaited;

static struct once once;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told;
static bool has_come;

static void make(void)
{
	pthread_condattr_t by_monotonic;

	pthread_condattr_init(&by_monotonic);
	pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&told, &by_monotonic);
	pthread_condattr_destroy(&by_monotonic);
}

void moment_tell(void)
{
	int saved = errno;

	pthread_mutex_lock(&lock);
	has_come = true;
	if (atomic_load(&moment_is_awaited))
		pthread_cond_signal(&told);
	pthread_mutex_unlock(&lock);
	errno = saved;
}

void moment_wait(uint64_t ns)
{
	struct timespec until;

	once_call(&once, make);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)ns;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&lock);
	has_come = false;
	atomic_store(&moment_is_awaited, 1);
	while (!has_come && pthread_cond_timedwait(&told, &lock, &until) == 0)
		;
	atomic_store(&moment_is_awaited, 0);
	pthread_mutex_unlock(&lock);
}
