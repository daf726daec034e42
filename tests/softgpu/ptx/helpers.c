/* SPDX-License-Identifier: MIT */
/* The threads that help with grids, and the list of grids that want help. */
#include "helpers.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>

static struct {
	pthread_mutex_t lock;
	pthread_cond_t offered, done;
	struct offer *offers;
	uint32_t threads;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .offered = PTHREAD_COND_INITIALIZER,
          .done = PTHREAD_COND_INITIALIZER};

static void *help(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&pool.lock);
	for (;;) {
		struct offer *offer = pool.offers;
		if (!offer) {
			pthread_cond_wait(&pool.offered, &pool.lock);
			continue;
		}
		offer->running++;
		if (--offer->wanted == 0)
			pool.offers = offer->next;
		pthread_mutex_unlock(&pool.lock);
		offer->run(offer->cookie);
		pthread_mutex_lock(&pool.lock);
		offer->running--;
		pthread_cond_broadcast(&pool.done);
	}
	return NULL;
}

/* Threads do not live on in a forked child. */
static void forget(void)
{
	pthread_mutex_init(&pool.lock, NULL);
	pthread_cond_init(&pool.offered, NULL);
	pthread_cond_init(&pool.done, NULL);
	pool.offers = NULL;
	pool.threads = 0;
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forget);
}

/* The lock is held. What cannot be started is done without. */
static void start_threads(uint32_t count)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, watch_forks);
	/* The application's signals are not theirs; those of a fault come to whom they concern. */
	sigset_t blocked, before;
	sigfillset(&blocked);
	sigdelset(&blocked, SIGSEGV);
	sigdelset(&blocked, SIGBUS);
	sigdelset(&blocked, SIGFPE);
	sigdelset(&blocked, SIGILL);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	pthread_attr_t detached;
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	pthread_t thread;
	while (count-- && pthread_create(&thread, &detached, help, NULL) == 0)
		pool.threads++;
	pthread_attr_destroy(&detached);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void helpers_offer(struct offer *offer)
{
	uint32_t wanted = offer->wanted;
	if (!wanted)
		return;
	pthread_mutex_lock(&pool.lock);
	offer->next = pool.offers;
	pool.offers = offer;
	if (pool.threads < wanted)
		start_threads(wanted - pool.threads);
	pthread_cond_broadcast(&pool.offered);
	pthread_mutex_unlock(&pool.lock);
}

bool helpers_withdraw(struct offer *offer, uint32_t nanoseconds)
{
	pthread_mutex_lock(&pool.lock);
	for (struct offer **link = &pool.offers; *link; link = &(*link)->next)
		if (*link == offer) {
			*link = offer->next;
			break;
		}
	if (offer->running) {
		struct timespec until;
		clock_gettime(CLOCK_REALTIME, &until);
		uint64_t then = (uint64_t)until.tv_nsec + nanoseconds;
		until.tv_sec += (time_t)(then / 1000000000);
		until.tv_nsec = (long)(then % 1000000000);
		pthread_cond_timedwait(&pool.done, &pool.lock, &until);
	}
	bool nobody = !offer->running;
	pthread_mutex_unlock(&pool.lock);
	return nobody;
}
