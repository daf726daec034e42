/* SPDX-License-Identifier: MIT */
/* A state directory of one's own for each test, and children to kill. */
#ifndef SPILLWAY_TEST_STATE_DIRECTORY_H
#define SPILLWAY_TEST_STATE_DIRECTORY_H

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char state_directory[512];

static inline void state_directory_make(void)
{
	const char *tmp = getenv("TMPDIR");
	snprintf(state_directory, sizeof state_directory, "%s/spillway-test-XXXXXX",
	         tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(state_directory));
	setenv("SPILLWAY_STATE_DIR", state_directory, 1);
}

static inline void state_directory_remove(void)
{
	DIR *directory = opendir(state_directory);
	for (struct dirent *entry; directory && (entry = readdir(directory));)
		unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	rmdir(state_directory);
}

static inline void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* Runs body in a child, which says when it is there by a byte; the child then waits to be killed.
 */
static inline pid_t child_start(void (*body)(void *), void *argument)
{
	int pipes[2];
	char byte;
	ck_assert_int_eq(pipe(pipes), 0);
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		close(pipes[0]);
		body(argument);
		if (write(pipes[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	ck_assert_int_eq(read(pipes[0], &byte, 1), 1);
	close(pipes[0]);
	return pid;
}

static inline void child_kill(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static inline int run_suite(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed != 0;
}

#endif
