/*
 * Programs of our own as children: what they print and how they end, in whatever process and thread
 * they are run.
 */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/memory/arena/child.h"
#include "suite.h"

static char word[] = "WORD=given";
static char *const environment[] = {word, NULL};

/* Runs a script within so many seconds. */
static int run(const char *script, char *out, size_t size, uint64_t seconds)
{
	char shell[] = "sh", option[] = "-c", text[512];
	char *arguments[] = {shell, option, text, NULL};
	struct deadline until = DEADLINE_IN(seconds * 1000000000);

	snprintf(text, sizeof(text), "%s", script);
	return child_run("/bin/sh", arguments, environment, out, size, &until);
}

START_TEST(what_it_prints_and_how_it_ends)
{
	char out[64];

	ck_assert_int_eq(run("echo $WORD; exit 3", out, sizeof(out), 60), 3);
	ck_assert_str_eq(out, "given\n");
	ck_assert_int_eq(run("kill -9 $$", out, sizeof(out), 60), -EINTR);
	ck_assert_int_eq(run("echo 0123456789", out, 5, 60), 0);
	ck_assert_str_eq(out, "0123");
	ck_assert_int_eq(run("echo before; exec sleep 1000", out, sizeof(out), 1), -ETIME);
	ck_assert_str_eq(out, "before\n");
}
END_TEST

START_TEST(nobody_waits_for_it)
{
	char out[8];
	int status;

	ck_assert_int_eq(run("exit 0", out, sizeof(out), 60), 0);
	ck_assert_int_eq(waitpid(-1, &status, __WALL), -1);
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

/* A process that does not care for its children has the kernel forget how they ended. */
START_TEST(a_process_that_ignores_its_children)
{
	const struct sigaction no_zombies = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
	struct sigaction after;
	char out[64];

	signal(SIGCHLD, SIG_IGN);
	ck_assert_int_eq(run("echo ran; exit 5", out, sizeof(out), 60), 5);
	ck_assert_str_eq(out, "ran\n");
	ck_assert_int_eq(sigaction(SIGCHLD, NULL, &after), 0);
	ck_assert(after.sa_handler == SIG_IGN);
	ck_assert_int_eq(sigaction(SIGCHLD, &no_zombies, NULL), 0);
	ck_assert_int_eq(run("exit 6", out, sizeof(out), 60), 6);
}
END_TEST

static void handler(int signal)
{
	(void)signal;
}

/*
 * Its own handlers and mask are the process's before and after; what it ignores the program
 * ignores.
 */
START_TEST(signals_stay)
{
	struct sigaction after;
	sigset_t mask;
	char out[64];

	signal(SIGUSR1, handler);
	signal(SIGUSR2, SIG_IGN);
	ck_assert_int_eq(
	    run("kill -USR2 $$; echo lives; kill -USR1 $$; echo dead", out, sizeof(out), 60),
	    -EINTR);
	ck_assert_str_eq(out, "lives\n");
	ck_assert_int_eq(sigaction(SIGUSR1, NULL, &after), 0);
	ck_assert(after.sa_handler == handler);
	ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
	ck_assert_int_eq(sigismember(&mask, SIGTERM), 0);
}
END_TEST

/* A thread that has blocked all: the program dies of what it does, all the same. */
START_TEST(nothing_is_blocked)
{
	sigset_t all, mask;
	char out[8];

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	ck_assert_int_eq(run("kill -TERM $$; echo lives", out, sizeof(out), 60), -EINTR);
	ck_assert_str_eq(out, "");
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	ck_assert_int_eq(sigismember(&mask, SIGTERM), 1);
}
END_TEST

static void *run_in_thread(void *result)
{
	char out[8];

	*(int *)result = run("exit 7", out, sizeof(out), 60);
	return NULL;
}

/* Its stack is not the thread's. */
START_TEST(a_thread_with_a_small_stack)
{
	pthread_attr_t small;
	pthread_t thread;
	int result = 0;

	pthread_attr_init(&small);
	ck_assert_int_eq(pthread_attr_setstacksize(&small, 2 * PTHREAD_STACK_MIN), 0);
	ck_assert_int_eq(pthread_create(&thread, &small, run_in_thread, &result), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_int_eq(result, 7);
}
END_TEST

START_TEST(what_cannot_be_run)
{
	struct deadline until = DEADLINE_IN(1000000000);
	char name[] = "nothing", out[8] = "before";
	char *arguments[] = {name, NULL};

	errno = 123;
	ck_assert_int_lt(
	    child_run("/nowhere/nothing", arguments, environment, out, sizeof(out), &until), 0);
	ck_assert_str_eq(out, "");
	ck_assert_int_eq(errno, 123);
	ck_assert_int_eq(child_run("/etc/passwd", arguments, environment, out, sizeof(out), &until),
	                 -ENOENT);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("child");

	tcase_add_test(tests, what_it_prints_and_how_it_ends);
	tcase_add_test(tests, nobody_waits_for_it);
	tcase_add_test(tests, a_process_that_ignores_its_children);
	tcase_add_test(tests, signals_stay);
	tcase_add_test(tests, nothing_is_blocked);
	tcase_add_test(tests, a_thread_with_a_small_stack);
	tcase_add_test(tests, what_cannot_be_run);
	return suite_run("child", tests);
}
