/* SPDX-License-Identifier: MIT */
/* Forks and loads: a child is forked before a load or after it, never within. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/loading.h"
#include "suite.h"

enum { LOADED = 1, NOT_LOADED = 2, NAP_NS = 20000000 };

static _Atomic bool is_loaded, forks_now;

/* Returns a child's finding. */
static int ask_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		_exit(atomic_load(&is_loaded) ? LOADED : NOT_LOADED);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

/* Of the handlers of a fork the newest runs first. */
static void note_fork(void)
{
	atomic_store(&forks_now, true);
}

static void *fork_beside(void *found)
{
	*(int *)found = ask_child();
	return NULL;
}

START_TEST(a_fork_waits_for_a_load)
{
	pthread_t thread;
	int found = 0;

	atomic_store(&is_loaded, false);
	loading_begin();
	ck_assert_int_eq(pthread_atfork(note_fork, NULL, NULL), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, fork_beside, &found), 0);
	while (!atomic_load(&forks_now))
		;
	nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
	atomic_store(&is_loaded, true);
	loading_end();
	atomic_store(&is_loaded, false); /* the fork has gone before this thread goes on */
	pthread_join(thread, NULL);
	ck_assert_int_eq(found, LOADED);
}
END_TEST

START_TEST(the_thread_that_loads_may_fork)
{
	atomic_store(&is_loaded, false);
	loading_begin();
	loading_begin();
	ck_assert_int_eq(ask_child(), NOT_LOADED);
	loading_end();
	ck_assert_int_eq(ask_child(), NOT_LOADED);
	loading_end();
	ck_assert_int_eq(ask_child(), NOT_LOADED);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("loading");

	tcase_add_test(tests, a_fork_waits_for_a_load);
	tcase_add_test(tests, the_thread_that_loads_may_fork);
	return suite_run("loading", tests);
}
