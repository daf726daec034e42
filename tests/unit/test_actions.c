/* SPDX-License-Identifier: MIT */
/* Actions: their order, refusals, and lists that change while threads run them. */
#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/cuda/driver.h"
#include "core/registry/actions.h"
#include "suite.h"

struct driver driver; /* is not asked */

static char called[64]; /* a letter for each call */

static int note(void *cookie, void *subject)
{
	strncat(called, cookie, 1);
	ck_assert_ptr_eq(subject, called);
	return CUDA_SUCCESS;
}

static int refuse(void *cookie, void *subject)
{
	note(cookie, subject);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static int add(int phase, const char *name, int (*run)(void *, void *), const char *letter)
{
	return action_add(ACTION_STEP_END, &(struct action){phase, name, run, (char *)letter});
}

static void expect(CUresult result, const char *calls)
{
	called[0] = '\0';
	ck_assert_int_eq(actions_run(ACTION_STEP_END, called), result);
	ck_assert_str_eq(called, calls);
}

START_TEST(phases_are_in_order_and_so_are_those_of_one)
{
	expect(CUDA_SUCCESS, "");
	ck_assert(!actions_are_any(ACTION_STEP_END));
	ck_assert_int_eq(add(2, "c", note, "c"), 0);
	ck_assert_int_eq(add(-1, "a", note, "a"), 0);
	ck_assert_int_eq(add(2, "d", note, "d"), 0);
	ck_assert_int_eq(add(1, "b", note, "b"), 0);
	ck_assert_int_eq(add(7, "e", note, "e"), 0);
	expect(CUDA_SUCCESS, "abcde");
	ck_assert(actions_are_any(ACTION_STEP_END));
	/* Nothing of another group is called. */
	ck_assert_int_eq(actions_run(ACTION_PRE_LAUNCH, NULL), CUDA_SUCCESS);
	ck_assert(!actions_are_any(ACTION_PRE_LAUNCH));
	expect(CUDA_SUCCESS, "abcde");
}
END_TEST

START_TEST(the_first_that_says_no_ends_it)
{
	add(1, "a", note, "a");
	add(2, "b", refuse, "b");
	add(3, "c", refuse, "c");
	expect(CUDA_ERROR_OUT_OF_MEMORY, "ab");
	ck_assert_int_eq(action_remove(ACTION_STEP_END, 2, "b"), 0);
	expect(CUDA_ERROR_OUT_OF_MEMORY, "ac");
	ck_assert_int_eq(action_remove(ACTION_STEP_END, 3, "c"), 0);
	expect(CUDA_SUCCESS, "a");
}
END_TEST

START_TEST(found_and_removed_by_group_phase_and_name)
{
	struct action found = {0};
	char name[] = "statistics"; /* another string of the same letters */

	add(ACTION_STATISTICS, "statistics", note, "s");
	add(ACTION_RESOURCES, "statistics", note, "r");
	ck_assert_int_eq(add(ACTION_STATISTICS, name, note, "x"), -EEXIST);
	ck_assert(action_find(ACTION_STEP_END, ACTION_RESOURCES, name, &found));
	ck_assert_int_eq(found.phase, ACTION_RESOURCES);
	ck_assert(found.run == note && strcmp(found.cookie, "r") == 0);
	ck_assert(action_find(ACTION_STEP_END, ACTION_STATISTICS, name, NULL));
	ck_assert(!action_find(ACTION_STEP_END, 3, name, &found));
	ck_assert(!action_find(ACTION_STEP_END, ACTION_STATISTICS, "pacing", &found));
	ck_assert(!action_find(ACTION_POST_LAUNCH, ACTION_STATISTICS, name, &found));
	ck_assert_str_eq(found.cookie, "r"); /* is left alone */

	ck_assert_int_eq(action_remove(ACTION_STEP_END, 3, name), -ENOENT);
	ck_assert_int_eq(action_remove(ACTION_POST_LAUNCH, ACTION_STATISTICS, name), -ENOENT);
	ck_assert_int_eq(action_remove(ACTION_STEP_END, ACTION_STATISTICS, name), 0);
	ck_assert_int_eq(action_remove(ACTION_STEP_END, ACTION_STATISTICS, name), -ENOENT);
	expect(CUDA_SUCCESS, "r");
	ck_assert_int_eq(action_remove(ACTION_STEP_END, ACTION_RESOURCES, name), 0);
	ck_assert(!actions_are_any(ACTION_STEP_END));
	expect(CUDA_SUCCESS, "");
}
END_TEST

START_TEST(a_group_has_an_end)
{
	static const char *const names[] = {"0", "1", "2", "3", "4", "5", "6", "7"};

	ck_assert_int_eq(sizeof(names) / sizeof(*names), ACTIONS_MAX);
	for (int i = 0; i < ACTIONS_MAX; i++)
		ck_assert_int_eq(add(1, names[i], note, names[i]), 0);
	ck_assert_int_eq(add(1, "8", note, "8"), -ENOSPC);
	expect(CUDA_SUCCESS, "01234567");
}
END_TEST

/*
 * What is switched on and off for ever takes no more memory; what is ever new ends, and harms
 * nothing.
 */
START_TEST(lists_are_published_again)
{
	static char cookies[ACTION_LISTS_MAX + 1][2];
	int made = 0, error = 0;

	add(1, "a", note, "a");
	for (int i = 0; i < 100000; i++) {
		ck_assert_int_eq(add(2, "b", note, "b"), 0);
		ck_assert_int_eq(action_remove(ACTION_STEP_END, 2, "b"), 0);
	}
	expect(CUDA_SUCCESS, "a");
	while (!error && made <= ACTION_LISTS_MAX) {
		error = add(2, "new", note, cookies[made++]);
		if (!error)
			ck_assert_int_eq(action_remove(ACTION_STEP_END, 2, "new"), 0);
	}
	ck_assert_int_eq(error, -ENOSPC);
	expect(CUDA_SUCCESS, "a");
	ck_assert_int_eq(add(2, "b", note, "b"), 0);
	expect(CUDA_SUCCESS, "ab");
}
END_TEST

START_TEST(nothing_acts_in_a_forked_child)
{
	int status;
	pid_t child;

	ck_assert(wiped_start());
	add(1, "a", refuse, "a");
	child = fork();
	if (child == 0)
		_exit(actions_run(ACTION_STEP_END, called) == CUDA_SUCCESS && !called[0] ? 0 : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	expect(CUDA_ERROR_OUT_OF_MEMORY, "a");
	wiped_clear();
	expect(CUDA_SUCCESS, "");
}
END_TEST

/* --- while other threads run the group --- */

enum { RUNNERS = 6, CHANGERS = 2, PARTS = 5, RUNS = 20000, CHANGES = 4000 };

/* Each checks that it is called after what comes before it. */
static struct part {
	int phase;
	const char *name;
} parts[PARTS] = {{1, "first"}, {2, "second"}, {3, "third"}, {4, "fourth"}, {5, "fifth"}};

struct trace {
	int phase, calls;
};

static _Atomic int wrong, seen_calls;

static int trace(void *cookie, void *subject)
{
	const struct part *part = cookie;
	struct trace *trace = subject;

	if (part->phase <= trace->phase || part != &parts[part->phase - 1])
		wrong++;
	trace->phase = part->phase;
	trace->calls++;
	return part->phase == PARTS ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static void *run_again_and_again(void *cookie)
{
	(void)cookie;
	for (int i = 0; i < RUNS; i++) {
		struct trace subject = {0};
		CUresult result = actions_run(ACTION_PRE_LAUNCH, &subject);

		if (result != (subject.phase == PARTS ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS))
			wrong++;
		seen_calls += subject.calls;
	}
	return NULL;
}

static void *change_again_and_again(void *cookie)
{
	unsigned int seed = (unsigned int)(uintptr_t)cookie;

	for (int i = 0; i < CHANGES; i++) {
		struct part *part = &parts[rand_r(&seed) % PARTS];
		int error;

		if (rand_r(&seed) % 2)
			error = action_add(ACTION_PRE_LAUNCH,
			                   &(struct action){part->phase, part->name, trace, part});
		else
			error = action_remove(ACTION_PRE_LAUNCH, part->phase, part->name);
		if (error && error != -EEXIST && error != -ENOENT)
			wrong++;
		action_find(ACTION_PRE_LAUNCH, part->phase, part->name, NULL);
	}
	return NULL;
}

START_TEST(lists_change_while_they_are_run)
{
	pthread_t threads[RUNNERS + CHANGERS];

	action_add(ACTION_PRE_LAUNCH,
	           &(struct action){parts[0].phase, parts[0].name, trace, &parts[0]});
	for (int i = 0; i < RUNNERS + CHANGERS; i++)
		pthread_create(&threads[i], NULL,
		               i < RUNNERS ? run_again_and_again : change_again_and_again,
		               (void *)(uintptr_t)(i + 1)); /* NOLINT(performance-no-int-to-ptr) */
	for (int i = 0; i < RUNNERS + CHANGERS; i++)
		pthread_join(threads[i], NULL);
	ck_assert_int_eq(wrong, 0);
	ck_assert_int_gt(seen_calls, 0);
	for (int i = 0; i < PARTS; i++)
		action_remove(ACTION_PRE_LAUNCH, parts[i].phase, parts[i].name);
	ck_assert(!actions_are_any(ACTION_PRE_LAUNCH));
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("actions");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, phases_are_in_order_and_so_are_those_of_one);
	tcase_add_test(tests, the_first_that_says_no_ends_it);
	tcase_add_test(tests, found_and_removed_by_group_phase_and_name);
	tcase_add_test(tests, a_group_has_an_end);
	tcase_add_test(tests, lists_are_published_again);
	tcase_add_test(tests, nothing_acts_in_a_forked_child);
	tcase_add_test(tests, lists_change_while_they_are_run);
	return suite_run("actions", tests);
}
