/* SPDX-License-Identifier: MIT */
/* Forks and loads take turns. Rules: runs inside the user's process; the waits are bounded. */
#include "core/base/loading.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/base/deadline.h"
#include "core/base/once.h"

enum { PATIENCE_NS = 1000000000, LOOK_NS = 200000 };

static struct once watched;
static _Atomic int loads, late_forks; /* of all threads; forks that have waited for loads */
static __thread int own_loads __attribute__((tls_model("initial-exec")));
static __thread bool is_late_fork __attribute__((tls_model("initial-exec")));

static void loading_wait(const _Atomic int *count, int least)
{
	struct deadline until = DEADLINE_IN(PATIENCE_NS);
	int saved = errno;

	while (atomic_load(count) > least && deadline_nap(&until, LOOK_NS))
		;
	errno = saved;
}

static void loading_before_fork(void)
{
	if (atomic_load(&loads) <= own_loads)
		return;
	is_late_fork = true;
	atomic_fetch_add(&late_forks, 1);
	loading_wait(&loads, own_loads);
}

static void loading_after_fork(void)
{
	if (is_late_fork)
		atomic_fetch_sub(&late_forks, 1);
	is_late_fork = false;
}

/* In a child the other threads are gone, and their loads and forks with them. */
static void loading_forked(void)
{
	atomic_store(&loads, own_loads);
	atomic_store(&late_forks, 0);
	is_late_fork = false;
}

static void loading_watch(void)
{
	pthread_atfork(loading_before_fork, loading_after_fork, loading_forked);
}

void loading_begin(void)
{
	once_call(&watched, loading_watch);
	own_loads++;
	atomic_fetch_add(&loads, 1);
}

void loading_end(void)
{
	atomic_fetch_sub(&loads, 1);
	own_loads--;
	loading_wait(&late_forks, 0);
}
