/* SPDX-License-Identifier: MIT */
/*
 * The gate: no call is inside while it is closed, no thread waits for ever, nested calls pass. A
 * thread that waits long enough gets into a held gate, and never into a seized one.
 */
#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/cuda/capture.h"
#include "core/cuda/gate.c" /* its threads, too */
#include "suite.h"

enum { THREADS = 8, CLOSINGS = 50, SEIZURES = 100, SHORT_NS = 1000000 };
#define LONG_NS 60000000000u

static _Atomic bool stop;
static _Atomic int inside; /* threads between enter and leave, as they say themselves */
static _Atomic uint64_t passages;
static _Atomic int reached;

/* How many threads wait at the entrance now. */
static unsigned int gate_is_waited_at(void)
{
	unsigned int waiting = 0;

	for (struct gate_thread *of = atomic_load(&known_threads); of; of = of->next)
		waiting += atomic_load(&of->waits_since) != 0;
	return waiting;
}

/* Closes the gate for everybody, however long they wait. */
static bool close_gate(uint64_t patience_ns)
{
	if (!gate_hold(patience_ns, UINT64_MAX))
		return false;
	if (gate_seize())
		return true;
	gate_open();
	return false;
}

static void pause_ns(long ns)
{
	const struct timespec pause = {0, ns};

	nanosleep(&pause, NULL);
}

static void wait_for(_Atomic int *value, int wanted)
{
	while (atomic_load(value) != wanted)
		pause_ns(100000);
}

static void *pass_again_and_again(void *cookie)
{
	(void)cookie;
	while (!atomic_load(&stop)) {
		gate_enter();
		atomic_fetch_add(&inside, 1);
		gate_enter(); /* nested: must not wait for itself */
		gate_leave();
		atomic_fetch_sub(&inside, 1);
		gate_leave();
		atomic_fetch_add(&passages, 1);
	}
	return NULL;
}

/* fences: as where the kernel has no membarrier */
static void start_passing(pthread_t threads[THREADS], void *(*pass)(void *cookie), bool fences)
{
	gate_start();
	if (fences)
		atomic_fetch_or(&gate_state, GATE_FENCES);
	atomic_store(&stop, false);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, pass, NULL);
}

static void stop_passing(const pthread_t threads[THREADS])
{
	atomic_store(&stop, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void run_against_passages(bool fences)
{
	pthread_t threads[THREADS];
	int closed = 0;

	start_passing(threads, pass_again_and_again, fences);
	/* A busy machine may not have begun with them yet. */
	while (!atomic_load(&passages))
		pause_ns(10000);
	for (int i = 0; i < CLOSINGS; i++) {
		uint64_t before;

		if (!close_gate(LONG_NS))
			continue;
		closed++;
		ck_assert_int_eq(atomic_load(&inside), 0);
		before = atomic_load(&passages);
		pause_ns(10000);
		ck_assert_int_eq(atomic_load(&inside), 0);
		/* Who had left but not counted yet may count now, once each. */
		ck_assert_uint_le(atomic_load(&passages) - before, THREADS);
		gate_open();
	}
	stop_passing(threads);
	ck_assert_int_eq(closed, CLOSINGS);
}

START_TEST(closed_means_nobody_is_inside)
{
	run_against_passages(false);
}
END_TEST

START_TEST(also_without_membarrier)
{
	run_against_passages(true);
}
END_TEST

static void seize_against_passages(bool fences, uint64_t expiry_ns);

/* A program that shuts itself in after its first calls. */
START_TEST(membarrier_is_refused_later)
{
	struct sock_filter refuse[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {sizeof(refuse) / sizeof(*refuse), refuse};

	gate_start();
	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0);
	if (!(atomic_load(&gate_state) & GATE_FENCES)) /* else it was refused from the start */
		ck_assert(!close_gate(LONG_NS));
	ck_assert_int_eq(atomic_load(&gate_state), GATE_FENCES);
	run_against_passages(false);
	seize_against_passages(false, 2000000);
}
END_TEST

static void *stay_inside(void *cookie)
{
	(void)cookie;
	gate_enter();
	atomic_store(&reached, 1);
	wait_for(&reached, 2);
	gate_leave();
	return NULL;
}

START_TEST(who_stays_inside_is_waited_for_a_bounded_time)
{
	pthread_t thread;

	gate_start();
	pthread_create(&thread, NULL, stay_inside, NULL);
	wait_for(&reached, 1);
	ck_assert(!close_gate(SHORT_NS));
	/* It is open again: others pass, and the next attempt succeeds. */
	gate_enter();
	gate_leave();
	atomic_store(&reached, 2);
	pthread_join(thread, NULL);
	ck_assert(close_gate(LONG_NS));
	gate_open();
}
END_TEST

static void *leave_without_leaving(void *cookie)
{
	(void)cookie;
	gate_enter();
	pthread_exit(NULL); /* as a thread cancelled inside a driver call */
}

START_TEST(a_thread_that_ends_inside_is_not_waited_for)
{
	pthread_t thread;

	gate_start();
	pthread_create(&thread, NULL, leave_without_leaving, NULL);
	pthread_join(thread, NULL);
	ck_assert(close_gate(LONG_NS));
	gate_open();
}
END_TEST

static void *enter_closed(void *cookie)
{
	(void)cookie;
	atomic_store(&reached, 1);
	gate_enter();
	atomic_store(&reached, 2);
	gate_leave();
	return NULL;
}

START_TEST(who_comes_while_it_is_closed_waits_until_it_opens)
{
	pthread_t thread;

	gate_start();
	ck_assert(close_gate(LONG_NS));
	pthread_create(&thread, NULL, enter_closed, NULL);
	wait_for(&reached, 1);
	pause_ns(60000000);
	ck_assert_int_eq(atomic_load(&reached), 1);
	gate_open();
	pthread_join(thread, NULL);
	ck_assert_int_eq(atomic_load(&reached), 2);
}
END_TEST

START_TEST(a_forked_child_finds_it_open)
{
	int status;
	pid_t child;

	gate_start();
	ck_assert(close_gate(LONG_NS));
	child = fork();
	if (child == 0) {
		gate_enter(); /* the child has no thread that would open it */
		gate_leave();
		gate_forked();
		if (!close_gate(LONG_NS))
			_exit(1);
		gate_open();
		_exit(0);
	}
	gate_open();
	waitpid(child, &status, 0);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
END_TEST

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* reached: 1 has come, 2 is in for the first time, 3 may call again, 4 has called again */
static void *enter_twice(void *cookie)
{
	(void)cookie;
	atomic_store(&reached, 1);
	gate_enter();
	atomic_store(&reached, 2);
	wait_for(&reached, 3);
	gate_leave();
	gate_enter();
	atomic_store(&reached, 4);
	gate_leave();
	return NULL;
}

START_TEST(who_waits_long_enough_passes_a_held_gate_for_one_call)
{
	const uint64_t expiry_ns = 50000000;
	uint64_t before = now_ns();
	pthread_t thread;

	gate_start();
	ck_assert(gate_hold(LONG_NS, expiry_ns));
	ck_assert(gate_seize());
	gate_unseize();
	pthread_create(&thread, NULL, enter_twice, NULL);
	wait_for(&reached, 2);
	ck_assert_uint_ge(now_ns() - before, expiry_ns);
	ck_assert(!gate_seize());
	ck_assert_int_eq(atomic_load(&gate_state) & ~(uint32_t)GATE_FENCES, GATE_CLOSED);
	before = now_ns();
	atomic_store(&reached, 3);
	wait_for(&reached, 4);
	ck_assert_uint_ge(now_ns() - before, expiry_ns);
	pthread_join(thread, NULL);
	ck_assert(gate_seize());
	gate_open();
	ck_assert_uint_eq(gate_is_waited_at(), 0);
}
END_TEST

/* Between two copy windows of a gate that stays held. */
START_TEST(who_waits_is_let_in_for_one_call)
{
	pthread_t thread;

	gate_start();
	atomic_store(&reached, 0);
	ck_assert(gate_hold(LONG_NS, UINT64_MAX));
	ck_assert(gate_seize());
	pthread_create(&thread, NULL, enter_twice, NULL);
	while (!gate_is_waited_at())
		pause_ns(100000);
	gate_let_in(LONG_NS);
	wait_for(&reached, 2);
	ck_assert_int_eq(atomic_load(&gate_state) & ~(uint32_t)GATE_FENCES, GATE_CLOSED);
	ck_assert(!gate_seize()); /* he is inside */
	atomic_store(&reached, 3);
	/* With his next call he waits again, until he is let in again. */
	while (!gate_is_waited_at())
		pause_ns(100000);
	ck_assert(gate_seize());
	ck_assert_int_eq(atomic_load(&reached), 3);
	gate_let_in(LONG_NS);
	wait_for(&reached, 4);
	pthread_join(thread, NULL);
	/* Where nobody waits it does not, and the gate stays held. */
	ck_assert(gate_seize());
	gate_let_in(LONG_NS);
	ck_assert_int_eq(atomic_load(&gate_state) & ~(uint32_t)GATE_FENCES, GATE_CLOSED);
	gate_open();
}
END_TEST

START_TEST(nobody_gets_into_a_seized_gate_however_long_he_waits)
{
	pthread_t thread;

	gate_start();
	ck_assert(gate_hold(LONG_NS, SHORT_NS));
	ck_assert(gate_seize());
	pthread_create(&thread, NULL, enter_closed, NULL);
	while (gate_is_waited_at() != 1)
		pause_ns(100000);
	pause_ns(60000000);
	ck_assert_int_eq(atomic_load(&reached), 1);
	gate_unseize();
	wait_for(&reached, 2); /* long expired */
	pthread_join(thread, NULL);
	ck_assert(gate_seize());
	gate_open();
	gate_enter();
	gate_leave();
}
END_TEST

/*
 * Changed by who has seized the gate, looked at by who is inside; not atomic: a sanitizer sees what
 * tears.
 */
static struct {
	uint64_t a, b;
} shared;

static void *look_again_and_again(void *cookie)
{
	(void)cookie;
	while (!atomic_load(&stop)) {
		uint64_t a;

		gate_enter();
		a = *(volatile uint64_t *)&shared.a;
		for (int i = 0; i < 100; i++)
			gate_enter(), gate_leave();
		ck_assert_uint_eq(*(volatile uint64_t *)&shared.b, a);
		ck_assert_uint_eq(*(volatile uint64_t *)&shared.a, a);
		gate_leave();
		atomic_fetch_add(&passages, 1);
	}
	return NULL;
}

/* expiry_ns: short, so that threads get in between and during the attempts */
static void seize_against_passages(bool fences, uint64_t expiry_ns)
{
	pthread_t threads[THREADS];
	int seized = 0;

	start_passing(threads, look_again_and_again, fences);
	while (seized < SEIZURES) {
		if (!gate_hold(LONG_NS, expiry_ns))
			continue;
		for (int i = 0; i < 4; i++) {
			uint64_t before = atomic_load(&passages);

			if (!gate_seize()) {
				pause_ns(10000);
				continue;
			}
			shared.a++;
			pause_ns(50000);
			shared.b++;
			seized++;
			gate_unseize();
			/* Somebody passes, held or not: he has waited long enough. */
			while (atomic_load(&passages) == before)
				pause_ns(10000);
		}
		gate_open();
	}
	stop_passing(threads);
	ck_assert_uint_eq(shared.a, shared.b);
	ck_assert_uint_ge(shared.a, SEIZURES);
}

START_TEST(seized_excludes_those_who_have_waited_long_enough)
{
	seize_against_passages(false, _i ? 2000000 : 200000);
}
END_TEST

START_TEST(so_it_does_without_membarrier)
{
	seize_against_passages(true, _i ? 2000000 : 200000);
}
END_TEST

START_TEST(a_forked_child_finds_a_seized_gate_open)
{
	pthread_t thread;
	int status;
	pid_t child;

	gate_start();
	ck_assert(gate_hold(LONG_NS, SHORT_NS));
	ck_assert(gate_seize());
	pthread_create(&thread, NULL, enter_closed, NULL);
	while (gate_is_waited_at() != 1)
		pause_ns(100000);
	child = fork();
	if (child == 0) {
		if (_i) /* else the first call notices that its process is another */
			gate_forked();
		gate_enter();
		gate_leave();
		gate_forked();
		if (gate_is_waited_at() != 0 || !gate_hold(LONG_NS, SHORT_NS) || !gate_seize())
			_exit(1);
		gate_open();
		_exit(0);
	}
	waitpid(child, &status, 0);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ck_assert_int_eq(atomic_load(&reached), 1);
	gate_open();
	pthread_join(thread, NULL);
}
END_TEST

static void *pass_once(void *cookie)
{
	(void)cookie;
	gate_enter();
	gate_leave();
	return gate_thread;
}

START_TEST(threads_are_used_again)
{
	void *first = NULL, *again = NULL;

	for (int i = 0; i < 1000; i++) {
		pthread_t thread;

		pthread_create(&thread, NULL, pass_once, NULL);
		pthread_join(thread, &again);
		first = first ? first : again;
		ck_assert_ptr_eq(again, first);
	}
}
END_TEST

/* --- captures --- */

/* Time stands still: who is waited for is waited for until he has done. */
static uint64_t no_time(void)
{
	return 1;
}

static void yield(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
	(void)word, (void)seen, (void)deadline_ns;
	sched_yield();
}

static const struct clock standing = {.now = no_time, .wait = yield};

enum { ASKERS = 3, CAPTURES = 200 };

static _Atomic int captures_now;
static _Atomic bool captures_are_over;
static _Atomic uint64_t asked, disturbed;

static void *ask_over_and_over(void *unused)
{
	while (!atomic_load(&captures_are_over)) {
		if (!capture_sync_enter())
			continue;
		atomic_fetch_add(&asked, 1);
		if (atomic_load(&captures_now))
			atomic_fetch_add(&disturbed, 1);
		capture_sync_leave();
	}
	return unused;
}

START_TEST(no_capture_begins_while_somebody_asks)
{
	const CUstream stream = (CUstream)(uintptr_t)1;
	pthread_t askers[ASKERS];

	clock_in_use = &standing;
	for (int i = 0; i < ASKERS; i++)
		ck_assert_int_eq(pthread_create(&askers[i], NULL, ask_over_and_over, NULL), 0);
	for (int i = 0; i < CAPTURES || !asked; i++) {
		capture_announce();
		atomic_store(&captures_now, 1);
		capture_began(stream);
		capture_announced();
		atomic_store(&captures_now, 0);
		capture_is_over(stream);
	}
	atomic_store(&captures_are_over, true);
	for (int i = 0; i < ASKERS; i++)
		pthread_join(askers[i], NULL);
	clock_in_use = &clock_of_kernel;
	ck_assert_uint_eq(disturbed, 0);
}
END_TEST

static void *ask_and_end(void *unused)
{
	if (!capture_sync_enter())
		abort();
	return unused;
}

START_TEST(a_thread_that_ends_while_it_asks_is_not_waited_for)
{
	pthread_t asker;

	ck_assert_int_eq(pthread_create(&asker, NULL, ask_and_end, NULL), 0);
	pthread_join(asker, NULL);
	clock_in_use = &standing;
	capture_announce(); /* for ever, if it is */
	capture_announced();
	clock_in_use = &clock_of_kernel;
	ck_assert(capture_sync_enter());
	capture_sync_leave();
}
END_TEST

START_TEST(the_first_passage_after_a_look_is_noted_and_told)
{
	_Atomic uint32_t word = 7;

	gate_start();
	ck_assert_uint_eq(gate_unused_since(10), 10);
	ck_assert_uint_eq(gate_unused_since(20), 10);
	gate_tell(&word);
	gate_enter();
	ck_assert_uint_eq(word, 8);
	gate_leave();
	gate_enter();
	ck_assert_uint_eq(word, 8);
	gate_leave();
	ck_assert_uint_eq(gate_unused_since(30), 30);
	gate_tell(NULL);
	/* Closed, opened and passed while it is watched. */
	ck_assert(close_gate(LONG_NS));
	ck_assert_uint_eq(gate_unused_since(40), 30);
	gate_open();
	gate_enter();
	gate_leave();
	ck_assert_uint_eq(word, 8);
	ck_assert_uint_eq(gate_unused_since(50), 50);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("gate");

	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, closed_means_nobody_is_inside);
	tcase_add_test(tests, also_without_membarrier);
	tcase_add_test(tests, membarrier_is_refused_later);
	tcase_add_test(tests, who_stays_inside_is_waited_for_a_bounded_time);
	tcase_add_test(tests, a_thread_that_ends_inside_is_not_waited_for);
	tcase_add_test(tests, who_comes_while_it_is_closed_waits_until_it_opens);
	tcase_add_test(tests, a_forked_child_finds_it_open);
	tcase_add_test(tests, who_waits_long_enough_passes_a_held_gate_for_one_call);
	tcase_add_test(tests, who_waits_is_let_in_for_one_call);
	tcase_add_test(tests, nobody_gets_into_a_seized_gate_however_long_he_waits);
	tcase_add_loop_test(tests, seized_excludes_those_who_have_waited_long_enough, 0, 2);
	tcase_add_loop_test(tests, so_it_does_without_membarrier, 0, 2);
	tcase_add_loop_test(tests, a_forked_child_finds_a_seized_gate_open, 0, 2);
	tcase_add_test(tests, threads_are_used_again);
	tcase_add_test(tests, no_capture_begins_while_somebody_asks);
	tcase_add_test(tests, a_thread_that_ends_while_it_asks_is_not_waited_for);
	tcase_add_test(tests, the_first_passage_after_a_look_is_noted_and_told);
	return suite_run("gate", tests);
}
