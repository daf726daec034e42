/* SPDX-License-Identifier: MIT */
/* Threads of ours. Rules: runs inside the user's process; its signals are its own. */
#include "core/base/thread.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { STACK = 1 << 20 }; /* drivers take more than they say */

int thread_can_wait(void)
{
	uint32_t nobody_waits = 0;
	int saved = errno, error;

	error = syscall(SYS_futex, &nobody_waits, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0 ? -errno
	                                                                                    : 0;
	errno = saved;
	return error;
}

int thread_start(void *(*function)(void *cookie))
{
	pthread_attr_t attributes;
	sigset_t all, before;
	pthread_t thread;
	int error = thread_can_wait();

	if (error)
		return error;
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(&thread, &attributes, function, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return -error;
}
