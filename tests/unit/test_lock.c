/* SPDX-License-Identifier: MIT */
/*
 * Ranks of locks: each kind of violation ends the process and names the locks; an allowed order
 * does not.
 */
#define SPILLWAY_CHECK_LOCKS
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/cuda/driver.h"
#include "core/cuda/gate.h"
#include "suite.h"

static LOCK_OF(START) start = LOCK_FREE;
static LOCK_OF(PRIMARY) primary = LOCK_FREE;
static LOCK_OF(POOL) pool = LOCK_FREE, other_pool = LOCK_FREE;
static SHARED_LOCK_OF(CONTEXTS) contexts = SHARED_LOCK_FREE;
static LOCK_OF(LEAF) queue = LOCK_FREE;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

/* Runs it in a child, and returns what that says before it ends itself; "" where it goes on. */
static const char *said_by(void (*breaks_a_rule)(void))
{
	static char text[4096];
	ssize_t length, sum = 0;
	int pipes[2], status;
	pid_t child;

	ck_assert_int_eq(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		dup2(pipes[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		breaks_a_rule();
		_exit(0);
	}
	close(pipes[1]);
	while ((length = read(pipes[0], text + sum, sizeof(text) - 1 - (size_t)sum)) > 0)
		sum += length;
	text[sum] = '\0';
	close(pipes[0]);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return "";
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	return text;
}

#define ENDS(function, ...)                                                                     \
	do {                                                                                    \
		const char *const words[] = {__VA_ARGS__}, *said = said_by(function);           \
                                                                                                \
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)                     \
			ck_assert_msg(strstr(said, words[i]), "%s: \"%s\" lacks %s", #function, \
			              said, words[i]);                                          \
	} while (0)
#define GOES_ON(function) ck_assert_str_eq(said_by(function), "")

static void take_an_earlier_one(void)
{
	lock_acquire(&pool);
	lock_acquire(&primary);
}

static void take_two_of_a_rank(void)
{
	lock_acquire(&pool);
	lock_acquire(&other_pool);
}

static void take_it_twice(void)
{
	lock_acquire(&pool);
	lock_acquire(&pool);
}

static void read_after_a_later_one(void)
{
	lock_acquire(&queue);
	lock_read(&contexts);
}

static void take_after_reading(void)
{
	lock_read(&contexts);
	lock_acquire(&pool);
}

static void take_after_a_try(void)
{
	if (lock_try(&queue))
		lock_acquire(&pool);
}

START_TEST(an_order_that_is_broken_ends_the_process)
{
	ENDS(take_an_earlier_one, "PRIMARY", "POOL");
	ENDS(take_two_of_a_rank, "takes the lock POOL while it holds POOL");
	ENDS(take_it_twice, "POOL that it holds");
	ENDS(read_after_a_later_one, "CONTEXTS", "LEAF");
	ENDS(take_after_reading, "POOL", "CONTEXTS");
	ENDS(take_after_a_try, "POOL", "LEAF");
}
END_TEST

static void come_to_the_gate(void)
{
	lock_acquire(&start); /* which may do all else */
	gate_enter();
}

static void go_deeper(void)
{
	gate_enter();
	lock_acquire(&queue);
	gate_enter(); /* passes: it is inside */
	gate_leave();
	lock_release(&queue);
	gate_leave();
}

START_TEST(who_comes_to_the_gate_holds_none)
{
	ENDS(come_to_the_gate, "gate", "START");
	GOES_ON(go_deeper);
}
END_TEST

static void call_the_driver(void)
{
	lock_acquire(&queue);
	driver.cuCtxGetCurrent(NULL);
}

static CUresult none(CUcontext *current)
{
	(void)current;
	return CUDA_SUCCESS;
}

static void call_the_driver_with_one_that_may(void)
{
	driver.cuCtxGetCurrent = none;
	lock_acquire(&pool);
	driver.cuCtxGetCurrent(NULL);
	lock_release(&pool);
}

START_TEST(the_driver_is_called_with_few)
{
	ENDS(call_the_driver, "driver", "LEAF");
	GOES_ON(call_the_driver_with_one_that_may);
}
END_TEST

static void nap(void)
{
	struct deadline until = DEADLINE_IN(1000);

	lock_acquire(&pool);
	deadline_nap(&until, 1000);
}

static void nap_with_one_that_may(void)
{
	struct deadline until = DEADLINE_IN(1000);

	lock_acquire(&start);
	deadline_nap(&until, 1000);
	lock_release(&start);
}

static void wait_with_another(void)
{
	lock_acquire(&pool);
	lock_acquire(&queue);
	condition_wait(&changed, &queue);
}

static void wait_with_this_one(void)
{
	pthread_cond_t by_monotonic;

	condition_init(&by_monotonic);
	lock_acquire(&queue);
	while (condition_wait_until(&by_monotonic, &queue, 1))
		;
	lock_release(&queue);
}

START_TEST(a_wait_is_with_few)
{
	ENDS(nap, "waits", "POOL");
	GOES_ON(nap_with_one_that_may);
	ENDS(wait_with_another, "waits", "POOL");
	GOES_ON(wait_with_this_one);
}
END_TEST

static void give_back_what_another_has(void)
{
	lock_acquire(&pool);
	lock_release(&queue);
}

static void hold_too_many(void)
{
	static LOCK_OF(POOL) many[LOCKS_HELD_MAX + 1] = {[0 ... LOCKS_HELD_MAX] = LOCK_FREE};

	for (int i = 0; i <= LOCKS_HELD_MAX; i++)
		lock_try(&many[i]);
}

START_TEST(what_is_not_held_is_not_given_back)
{
	ENDS(give_back_what_another_has, "gives back");
	ENDS(hold_too_many, "POOL");
}
END_TEST

static void keep_the_order(void)
{
	for (int i = 0; i < 3; i++) {
		lock_acquire(&start);
		lock_acquire(&pool);
		lock_write(&contexts);
		/* Given back in another order, and one earlier tried, which nobody waits for. */
		lock_release(&pool);
		if (!lock_try(&primary))
			abort();
		lock_acquire(&queue);
		lock_release(&start);
		lock_release(&queue);
		lock_leave_shared(&contexts);
		lock_release(&primary);
	}
	gate_enter();
	gate_leave();
}

static void make_anew(void)
{
	lock_acquire(&pool);
	lock_init(&pool); /* as a forked child does */
	lock_acquire(&primary);
}

START_TEST(what_keeps_the_rules_goes_on)
{
	GOES_ON(keep_the_order);
	GOES_ON(make_anew);
}
END_TEST

/* --- quick ones --- */

enum { COUNTERS_OF = 4, TIMES = 20000 };

static struct {
	QUICK_LOCK_OF(REGISTRY) lock;
	uint64_t counted; /* under it */
	_Atomic bool holds;
} quick;

static void *count_quickly(void *unused)
{
	for (int i = 0; i < TIMES; i++) {
		lock_acquire(&quick.lock);
		quick.counted++;
		lock_release(&quick.lock);
	}
	return unused;
}

START_TEST(a_quick_one_has_one_holder)
{
	pthread_t threads[COUNTERS_OF];

	lock_init(&quick.lock);
	quick.counted = 0;
	for (int i = 0; i < COUNTERS_OF; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, count_quickly, NULL), 0);
	for (int i = 0; i < COUNTERS_OF; i++)
		pthread_join(threads[i], NULL);
	ck_assert_uint_eq(quick.counted, (uint64_t)COUNTERS_OF * TIMES);
	lock_destroy(&quick.lock);
}
END_TEST

static void *hold_for_long(void *unused)
{
	lock_acquire(&quick.lock);
	atomic_store(&quick.holds, true);
	nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	quick.counted++;
	lock_release(&quick.lock);
	return unused;
}

/* Nobody wakes who waits: he looks again, however long it takes. */
START_TEST(a_quick_one_is_waited_for)
{
	pthread_t holder;

	lock_init(&quick.lock);
	quick.counted = 0;
	atomic_store(&quick.holds, false);
	ck_assert_int_eq(pthread_create(&holder, NULL, hold_for_long, NULL), 0);
	while (!atomic_load(&quick.holds))
		;
	errno = 77;
	lock_acquire(&quick.lock);
	ck_assert_int_eq(errno, 77);
	ck_assert_uint_eq(quick.counted, 1);
	lock_release(&quick.lock);
	ck_assert(lock_try(&quick.lock));
	lock_release(&quick.lock);
	pthread_join(holder, NULL);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("lock");

	tcase_add_test(tests, an_order_that_is_broken_ends_the_process);
	tcase_add_test(tests, who_comes_to_the_gate_holds_none);
	tcase_add_test(tests, the_driver_is_called_with_few);
	tcase_add_test(tests, a_wait_is_with_few);
	tcase_add_test(tests, what_is_not_held_is_not_given_back);
	tcase_add_test(tests, what_keeps_the_rules_goes_on);
	tcase_add_test(tests, a_quick_one_has_one_holder);
	tcase_add_test(tests, a_quick_one_is_waited_for);
	return suite_run("lock", tests);
}
