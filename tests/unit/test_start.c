/* SPDX-License-Identifier: MIT */
/*
 * The start: each step is made to fail, and the process forks within each. A step that failed
 * leaves no descriptor, no thread and no file of a job without a name. A child that is forked
 * within a step ends as without Spillway.
 *
 * Each case is a process of its own, because a process starts once. Functions of other files that a
 * step calls are wrapped (rules.mk).
 */
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/budget/device.h"
#include "core/job/config.h"
#include "core/job/helper.h"
#include "core/job/job.h"
#include "core/job/process.h"
#include "tests/unit/fake_driver.h"
#include "tests/unit/state_directory.h"
#include "tests/unit/suite.h"

/* Functions that steps call, in this order, and how each of them fails. */
#define STEPS(X)                                                                        \
	X(bool, job_config_start, (struct job_config * c), (c), false)                  \
	X(int, helper_start, (void), (), -EAGAIN)                                       \
	X(int, device_set_identify, (struct device_set * set), (set), -ENODEV)          \
	X(int, segment_join_unnamed,                                                    \
	  (const char *job, const char *labels, const char *run, const char *shared_by, \
	   struct segment **segment, char *message, size_t size),                       \
	  (job, labels, run, shared_by, segment, message, size), -ENOSPC)               \
	X(int, device_set_enter,                                                        \
	  (struct device_set * set, struct segment * segment, const char *job),         \
	  (set, segment, job), -ENOMEM)                                                 \
	X(bool, job_settings_start, (void), (), false)

enum step {
#define X(type, name, ...) STEP_##name,
	STEPS(X)
#undef X
	    STEPS_COUNT
};

static enum step fails = STEPS_COUNT, forks = STEPS_COUNT;

/* Forks as a program does in another thread; the child ends by its own exit. */
static void fork_within(void)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0) {
		alarm(20);
#ifdef __SANITIZE_ADDRESS__ /* whose look for leaks needs the threads that are not here */
		_exit(job_is_active() ? 3 : 0);
#endif
		exit(job_is_active() ? 3 : 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		_exit(4);
}

#define X(type, name, parameters, arguments, failure)                                    \
	type __real_##name parameters;                                                   \
	type __wrap_##name parameters;                                                   \
	type __wrap_##name parameters                                                    \
	{                                                                                \
		if (forks == STEP_##name)                                                \
			fork_within();                                                   \
		return fails == STEP_##name ? (type)(failure) : __real_##name arguments; \
	}
STEPS(X)
#undef X

static int entries_of(const char *folder)
{
	int count = 0;
	DIR *directory = opendir(folder);

	while (directory && readdir(directory))
		count++;
	if (directory)
		closedir(directory);
	return count;
}

/* Calls of the driver that the fake one does not have. */
static CUresult refuse(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static int files(void)
{
	int count = 0;
	DIR *directory = opendir(state_directory);

	for (struct dirent *entry; directory && (entry = readdir(directory));)
		count += entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	return count;
}

static int descriptors(void)
{
	return entries_of("/proc/self/fd");
}

static int threads(void)
{
	return entries_of("/proc/self/task");
}

static void *end_at_once(void *cookie)
{
	return cookie;
}

/* Has a sanitizer start its own thread, which comes with the first of the program, before it is
 * counted. */
static void start_a_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, end_at_once, NULL) == 0)
		pthread_join(thread, NULL);
}

/* Waits for the helper, which ends by itself, for ten seconds at most. */
static bool comes_to(int (*what)(void), int expected)
{
	for (int i = 0; i < 10000 && what() != expected; i++)
		pause_ms(1);
	return what() == expected;
}

/* Starts in this process. Returns 0, or which of the expectations does not hold. */
static int start(bool is_active)
{
	CUresult (**call)(void) = (CUresult(**)(void)) & driver;
	int before[2];

	start_a_thread();
	before[0] = descriptors();
	before[1] = threads();
	for (size_t i = 0; i < sizeof(driver) / sizeof(*call); i++)
		call[i] = refuse;
	fake_driver_reset((size_t)1 << 30);
	alarm(60);
	if (!job_start())
		return 10;
	if (job_is_active() != is_active)
		return 11;
	if (is_active)
		return comes_to(threads, before[1] + 1) ? 0 : 12;
	if (!comes_to(threads, before[1]))
		return 13;
	if (!comes_to(descriptors, before[0]))
		return 14;
	if (!comes_to(files, 0))
		return 15;
	/* It is not tried again. */
	return job_start() && !job_is_active() ? 0 : 16;
}

/* Runs start() in a child. Returns its answer. */
static int start_in_child(bool is_active)
{
	pid_t child = fork();
	int status = -1;

	if (child == 0)
		exit(start(is_active));
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

START_TEST(a_step_that_fails_leaves_nothing)
{
	fails = (enum step)_i;
	/* Without a helper or a slot an unlimited process goes on, with private books. */
	if (fails == STEP_segment_join_unnamed)
		ck_assert_int_eq(start_in_child(true), 0);
	else
		ck_assert_int_eq(start_in_child(fails == STEPS_COUNT), 0);
}
END_TEST

START_TEST(a_limited_process_without_a_helper_goes_on)
{
	setenv("SPILLWAY_MEMORY", "16MiB", 1);
	fails = STEP_helper_start;
	ck_assert_int_eq(start_in_child(true), 12); /* no helper is there to wait for */
	unsetenv("SPILLWAY_MEMORY");
}
END_TEST

START_TEST(a_child_within_a_step_ends_as_without_us)
{
	forks = (enum step)_i;
	ck_assert_int_eq(start_in_child(true), 0);
	ck_assert(comes_to(files, 0)); /* the process's own end removes them, no child's */
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("start");

	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, state_directory_make, state_directory_remove);
	tcase_add_loop_test(tests, a_step_that_fails_leaves_nothing, 0, STEPS_COUNT + 1);
	tcase_add_test(tests, a_limited_process_without_a_helper_goes_on);
	tcase_add_loop_test(tests, a_child_within_a_step_ends_as_without_us, 0, STEPS_COUNT);
	return suite_run("start", tests);
}
