/* SPDX-License-Identifier: MIT */
/* Whether a call of the driver waits for work: tests of the driver ask, and programs of tests. */
#ifndef SOFTGPU_WAITS_H
#define SOFTGPU_WAITS_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int waits_opened;

static inline void waits_until_open(void *unused)
{
	(void)unused;
	while (!__atomic_load_n(&waits_opened, __ATOMIC_ACQUIRE))
		usleep(1000);
}

static inline void *waits_open_later(void *unused)
{
	(void)unused;
	usleep(20000);
	__atomic_store_n(&waits_opened, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Ends the program where the call did not succeed. */
static inline void waits_check(CUresult result, const char *call)
{
	if (result == CUDA_SUCCESS)
		return;
	fprintf(stderr, "%s answers %d\n", call, (int)result);
	exit(1);
}

/* Has the stream's work wait until a thread opens it, which it does in a moment. */
static inline pthread_t waits_begin(CUstream stream)
{
	pthread_t thread;

	__atomic_store_n(&waits_opened, 0, __ATOMIC_RELEASE);
	waits_check(cuLaunchHostFunc(stream, waits_until_open, NULL), "cuLaunchHostFunc");
	if (pthread_create(&thread, NULL, waits_open_later, NULL) != 0)
		exit(1);
	return thread;
}

/* Returns whether the stream had been opened when the call came back. */
static inline bool waits_end(CUstream stream, pthread_t thread)
{
	bool waited = __atomic_load_n(&waits_opened, __ATOMIC_ACQUIRE);

	pthread_join(thread, NULL);
	waits_check(cuStreamSynchronize(stream), "cuStreamSynchronize");
	return waited;
}

/* Is true if the call comes back only when the work that was in the stream before it is done. */
#define WAITS(stream, call)                              \
	({                                               \
		pthread_t thread_ = waits_begin(stream); \
                                                         \
		waits_check(call, #call);                \
		waits_end(stream, thread_);              \
	})

#endif
