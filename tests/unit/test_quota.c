/* SPDX-License-Identifier: MIT */
/* Quota: against a model in one process, and with processes killed at any point in many. */
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <sys/mman.h>

#include "core/base/log.h"
#include "core/state/layout.h"

enum { DEVICES = 2, HELD_MAX = 8 };

static bool enter_devices(struct segment *segment)
{
	for (int d = 0; d < DEVICES; d++) {
		struct segment_device device = {0};
		snprintf(device.uuid, sizeof device.uuid, "GPU-%d", d);
		if (segment_device(segment, &device) != d)
			return false;
	}
	return true;
}

static struct segment *join(void)
{
	struct segment *segment = NULL;
	char message[512] = "";
	int error = segment_join("job", NULL, NULL, &segment, message, sizeof message);
	if (error)
		fprintf(stderr, "%s\n", message);
	return segment && enter_devices(segment) ? segment : NULL;
}

static void setup(void)
{
	state_directory_make();
	segment_drain_ns = 20000000;
}

START_TEST(as_the_model)
{
	struct segment *segment = join();
	uint64_t model[DEVICES][2] = {{0}}, peak[DEVICES][2] = {{0}};
	static struct segment_view view;

	srand(_i + 1);
	for (int step = 0; step < 20000; step++) {
		int d = rand() % DEVICES, s = rand() % 2;
		uint64_t bytes = (uint64_t)(rand() % 1000), limit = (uint64_t)(rand() % 10000);
		if (rand() % 2) {
			int error = segment_reserve(segment, d, s, bytes, limit);
			bool fits = model[d][s] + bytes <= limit;
			ck_assert_int_eq(error, fits ? 0 : -ENOSPC);
			if (fits)
				model[d][s] += bytes;
			if (model[d][s] > peak[d][s])
				peak[d][s] = model[d][s];
		} else {
			if (bytes > model[d][s])
				bytes = model[d][s];
			segment_unreserve(segment, d, s, bytes);
			model[d][s] -= bytes;
		}
		ck_assert_uint_eq(segment_charged(segment, d, s), model[d][s]);
	}
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	for (int d = 0; d < DEVICES; d++) {
		ck_assert_uint_eq(view.charged[d][0], model[d][0]);
		ck_assert_uint_eq(view.charged[d][1], model[d][1]);
		ck_assert_uint_eq(view.job_total[d].device_peak, peak[d][0]);
		ck_assert_uint_eq(view.job_total[d].host_peak, peak[d][1]);
	}
	segment_leave(segment);
}
END_TEST

/* Charges and limits of a process without a job go the same way, in books of its own. */
START_TEST(private_books_answer_as_shared_ones)
{
	struct segment *segment[2] = {join(), segment_make_private(DEVICES)};
	uint64_t held[DEVICES][2] = {{0}};

	ck_assert_ptr_nonnull(segment[1]);
	enter_devices(segment[1]);
	srand(_i + 1);
	for (int step = 0; step < 20000; step++) {
		int d = rand() % DEVICES, s = rand() % 2, error[2];
		int kind = rand() % 16;
		uint64_t bytes = (uint64_t)(rand() % 1000), most = (uint64_t)(rand() % 20000);
		const struct segment_limit limit = {most, 0, rand() % 8 == 0};

		if (kind < 4)
			bytes = bytes < held[d][s] ? bytes : held[d][s];
		for (int k = 0; k < 2; k++) {
			error[k] = -ENOSPC;
			if (kind < 4)
				segment_unreserve(segment[k], d, s, bytes);
			else if (kind < 8)
				error[k] = segment_reserve(segment[k], d, s, bytes, most);
			else if (kind < 15)
				error[k] =
				    segment_charge(segment[k], d, bytes, UINT64_MAX, kind & 1);
			else
				segment_set_limit(segment[k], d, &limit);
		}
		ck_assert_int_eq(error[0], error[1]);
		if (kind < 4)
			held[d][s] -= bytes;
		else if (error[0] == 0)
			held[d][kind < 8 ? s : SEGMENT_ON_DEVICE] += bytes;
		for (int k = 0; k < 2; k++)
			for (int tier = 0; tier < 2; tier++) {
				ck_assert_uint_eq(segment_charged(segment[k], d, tier),
				                  held[d][tier]);
				ck_assert_uint_eq(
				    ledger_charged(segment_own(segment[k], d).ledger, tier),
				    held[d][tier]);
			}
	}
	ck_assert_uint_eq(segment_draining(segment[1], 0, SEGMENT_ON_DEVICE), 0);
	ck_assert(!segment_judge_exports(segment[1]));
	segment_leave(segment[0]);
	segment_leave(segment[1]);
}
END_TEST

START_TEST(edges)
{
	struct segment *a = join(), *b = join();
	ck_assert_int_eq(segment_reserve(a, 0, SEGMENT_ON_DEVICE, 0, 0), 0);
	ck_assert_int_eq(segment_reserve(a, 0, SEGMENT_ON_DEVICE, 1, 0), -ENOSPC);
	ck_assert_int_eq(segment_reserve(a, 0, SEGMENT_ON_DEVICE, 10, 10), 0);
	ck_assert_int_eq(segment_reserve(b, 0, SEGMENT_ON_DEVICE, 1, 10), -ENOSPC);
	ck_assert_int_eq(segment_reserve(b, 0, SEGMENT_ON_DEVICE, UINT64_MAX, UINT64_MAX), -ENOSPC);
	/* the highest bit is no byte's */
	ck_assert_int_eq(segment_reserve(b, 0, SEGMENT_ON_DEVICE, LEDGER_OPEN - 10, UINT64_MAX),
	                 -ENOSPC);
	ck_assert_int_eq(segment_reserve(b, 0, SEGMENT_ON_DEVICE, LEDGER_OPEN - 11, UINT64_MAX), 0);
	segment_unreserve(b, 0, SEGMENT_ON_DEVICE, LEDGER_OPEN - 11);
	ck_assert_uint_eq(segment_charged(a, 0, SEGMENT_ON_DEVICE), 10);
	ck_assert_uint_eq(segment_charged(a, 0, SEGMENT_ON_HOST), 0);
	/* no such device */
	ck_assert_int_eq(segment_reserve(a, -1, SEGMENT_ON_DEVICE, 1, 10), -EINVAL);
	ck_assert_int_eq(segment_reserve(a, DEVICES, SEGMENT_ON_DEVICE, 1, 10), -EINVAL);
	ck_assert_uint_eq(segment_charged(a, SEGMENT_DEVICES, SEGMENT_ON_DEVICE), 0);
	segment_unreserve(a, 99, SEGMENT_ON_DEVICE, 1);
	/* what one never had cannot be given back at another's cost */
	log_configure("off");
	segment_unreserve(b, 0, SEGMENT_ON_DEVICE, 5);
	ck_assert_uint_eq(segment_charged(a, 0, SEGMENT_ON_DEVICE), 10);
	segment_unreserve(a, 0, SEGMENT_ON_DEVICE, 15);
	ck_assert_uint_eq(segment_charged(a, 0, SEGMENT_ON_DEVICE), 0);
	/* what is charged goes with the one who leaves */
	ck_assert_int_eq(segment_reserve(b, 1, SEGMENT_ON_HOST, 7, 10), 0);
	segment_leave(b);
	ck_assert_uint_eq(segment_charged(a, 1, SEGMENT_ON_HOST), 0);
	segment_leave(a);
}
END_TEST

static void hold(void *unused)
{
	struct segment *segment = join();
	(void)unused;
	if (!segment || segment_reserve(segment, 1, SEGMENT_ON_HOST, 70, 100) != 0)
		_exit(1);
}

START_TEST(what_drains_is_told_from_what_is_held)
{
	struct segment *segment = join();
	segment_drain_ns = 60000000000; /* longer than a busy machine may keep this */
	pid_t victim = child_start(hold, NULL);
	ck_assert_int_eq(segment_reserve(segment, 1, SEGMENT_ON_HOST, 10, 100), 0);
	ck_assert_int_eq(segment_reserve(segment, 1, SEGMENT_ON_HOST, 30, 100), -ENOSPC);
	ck_assert_uint_eq(segment_draining(segment, 1, SEGMENT_ON_HOST), 0);
	child_kill(victim);
	ck_assert_int_eq(segment_reserve(segment, 1, SEGMENT_ON_HOST, 30, 100), -ENOSPC);
	ck_assert_uint_eq(segment_draining(segment, 1, SEGMENT_ON_HOST), 70);
	ck_assert_uint_eq(segment_charged(segment, 1, SEGMENT_ON_HOST), 80);
	ck_assert_uint_eq(segment_draining(segment, 1, SEGMENT_ON_DEVICE), 0);
	ck_assert_uint_eq(segment_draining(segment, 0, SEGMENT_ON_HOST), 0);
	ck_assert_uint_eq(segment_draining(segment, DEVICES, SEGMENT_ON_HOST), 0);
	segment_drain_ns = 0;
	ck_assert_int_eq(segment_reserve(segment, 1, SEGMENT_ON_HOST, 30, 100), 0);
	ck_assert_uint_eq(segment_draining(segment, 1, SEGMENT_ON_HOST), 0);
	segment_leave(segment);
}
END_TEST

/*
 * Children reserve and give back at random and are killed wherever they are. What they believe to
 * hold is kept outside the segment: the sum of it must never exceed the limit.
 */
enum { CHILDREN = 4, KILLS = 120, LIMIT = 10000 };

struct child {
	_Atomic uint64_t held[DEVICES][2];
	_Atomic int writing; /* held and granted do not agree just now */
};

struct outside {
	_Atomic uint64_t granted[DEVICES][2];
	_Atomic int wrong;
	struct child child[CHILDREN];
};

static void live(struct outside *outside, struct child *me, unsigned seed)
{
	struct segment *segment = join();
	if (!segment) {
		atomic_store(&outside->wrong, 1);
		_exit(1);
	}
	for (;;) {
		int d = rand_r(&seed) % DEVICES, s = rand_r(&seed) % 2;
		uint64_t held = me->held[d][s], bytes = (uint64_t)(rand_r(&seed) % 4000);
		if (rand_r(&seed) % 2) {
			if (segment_reserve(segment, d, s, bytes, LIMIT) != 0)
				continue;
			atomic_store(&me->writing, 1);
			atomic_fetch_add(&me->held[d][s], bytes);
			if (atomic_fetch_add(&outside->granted[d][s], bytes) + bytes > LIMIT)
				atomic_store(&outside->wrong, 2);
			atomic_store(&me->writing, 0);
		} else if (held) {
			bytes = rand_r(&seed) % 3 ? held : bytes % held;
			atomic_store(&me->writing, 1);
			atomic_fetch_sub(&me->held[d][s], bytes);
			atomic_fetch_sub(&outside->granted[d][s], bytes);
			atomic_store(&me->writing, 0);
			segment_unreserve(segment, d, s, bytes);
		}
		if (segment_charged(segment, d, s) > LIMIT)
			atomic_store(&outside->wrong, 3);
	}
}

static pid_t start(struct outside *outside, int i, unsigned seed)
{
	pid_t pid = fork();
	if (pid == 0)
		live(outside, &outside->child[i], seed);
	return pid;
}

/* Dead, and what it believed to hold is no longer counted. */
static void stop(struct outside *outside, struct child *child, pid_t pid)
{
	for (;;) {
		kill(pid, SIGSTOP);
		waitpid(pid, NULL, WUNTRACED);
		if (!atomic_load(&child->writing))
			break;
		kill(pid, SIGCONT);
	}
	for (int d = 0; d < DEVICES; d++)
		for (int s = 0; s < 2; s++)
			atomic_fetch_sub(&outside->granted[d][s],
			                 atomic_exchange(&child->held[d][s], 0));
	child_kill(pid);
}

START_TEST(killed_at_any_point)
{
	struct outside *outside =
	    mmap(NULL, sizeof *outside, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct segment *segment = join();
	static struct segment_view view;
	pid_t pid[CHILDREN];

	srand(1);
	for (int i = 0; i < CHILDREN; i++)
		pid[i] = start(outside, i, (unsigned)rand());
	for (int kills = 0; kills < KILLS; kills++) {
		int i = rand() % CHILDREN;
		nanosleep(&(struct timespec){.tv_nsec = rand() % 10000000}, NULL);
		for (int d = 0; d < DEVICES; d++)
			for (int s = 0; s < 2; s++)
				ck_assert_uint_le(segment_charged(segment, d, s), LIMIT);
		ck_assert_int_eq(outside->wrong, 0);
		stop(outside, &outside->child[i], pid[i]);
		pid[i] = start(outside, i, (unsigned)rand());
	}
	for (int i = 0; i < CHILDREN; i++)
		stop(outside, &outside->child[i], pid[i]);
	ck_assert_int_eq(outside->wrong, 0);

	segment_poll(segment);
	pause_ms(30);
	segment_poll(segment);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_int_eq(view.process_count, 1);
	for (int d = 0; d < DEVICES; d++)
		for (int s = 0; s < 2; s++) {
			ck_assert_uint_eq(segment_charged(segment, d, s), 0);
			ck_assert_uint_eq(view.charged[d][s], 0);
			ck_assert_uint_eq(outside->granted[d][s], 0);
		}
	segment_leave(segment);
	munmap(outside, sizeof *outside);
}
END_TEST

/* --- charged in the open: without a limit, and alone on the device --- */

static const struct segment_limit none = {.bytes = UINT64_MAX};

static bool is_open(const struct segment *segment, int device)
{
	return atomic_load(&own_books(segment, device)->ledger.charged[SEGMENT_ON_DEVICE]) >=
	       LEDGER_OPEN;
}

START_TEST(open_as_the_model)
{
	struct segment *segment = join(), *other = join();
	uint64_t model = 0, of_other = 0, peak = 0, own_peak = 0;
	static struct segment_view view;

	srand(_i + 1);
	segment_set_limit(segment, 0, &none);
	for (int step = 0; step < 20000; step++) {
		uint64_t bytes = (uint64_t)(rand() % 1000);
		int what = rand() % 1000;

		if (what < 2) { /* the other one comes, and goes */
			if (!of_other &&
			    segment_reserve(other, 0, SEGMENT_ON_DEVICE, 700, 1000 + model) == 0)
				of_other = 700;
			ck_assert_uint_eq(of_other, 700);
			ck_assert(!is_open(segment, 0));
		} else if (what < 4) {
			segment_unreserve(other, 0, SEGMENT_ON_DEVICE, of_other);
			of_other = 0;
		} else if (what < 6) {
			const struct segment_limit limit = {.bytes = model + of_other};

			segment_set_limit(segment, 0, &limit);
			ck_assert_int_eq(segment_charge(segment, 0, 1, UINT64_MAX, false), -ENOSPC);
			segment_set_limit(segment, 0, &none);
		} else if (what < 500) {
			ck_assert_int_eq(segment_charge(segment, 0, bytes, UINT64_MAX, false), 0);
			model += bytes;
			ck_assert_int_eq(is_open(segment, 0), !of_other);
		} else {
			bytes = bytes < model ? bytes : model;
			segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, bytes);
			model -= bytes;
		}
		peak = model + of_other > peak ? model + of_other : peak;
		own_peak = model > own_peak ? model : own_peak;
		ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), model + of_other);
		ck_assert_uint_eq(segment_charged(other, 0, SEGMENT_ON_DEVICE), model + of_other);
	}
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_uint_eq(view.charged[0][0], model + of_other);
	ck_assert_uint_eq(view.process[0].charged[0][0], model);
	ck_assert_uint_eq(view.process[0].device[0].device_peak, own_peak);
	ck_assert_uint_eq(view.job_total[0].device_peak, peak);
	segment_leave(segment);
	ck_assert_uint_eq(segment_charged(other, 0, SEGMENT_ON_DEVICE), of_other);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_uint_eq(view.job_total[0].device_peak, peak);
	segment_leave(other);
}
END_TEST

/* More than is there is not given back, in the open or not. */
START_TEST(open_edges)
{
	struct segment *segment = join();

	segment_set_limit(segment, 0, &none);
	ck_assert_int_eq(segment_charge(segment, 0, 10, UINT64_MAX, false), 0);
	ck_assert(is_open(segment, 0));
	ck_assert_int_eq(segment_charge(segment, 0, UINT64_MAX, UINT64_MAX, false), -ENOSPC);
	ck_assert_int_eq(segment_charge(segment, 0, LEDGER_OPEN - 1, UINT64_MAX, false), -ENOSPC);
	ck_assert_int_eq(segment_charge(segment, 0, 1, 10, false), -ENOSPC);
	ck_assert_int_eq(segment_charge(segment, 0, 5, 15, true), 0);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 15);
	log_configure("off");
	segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, 16);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 0);
	segment_leave(segment);
}
END_TEST

/*
 * Threads charge in the open while the limit comes and goes: what is asked for once it is there is
 * within it.
 */
enum { THREADS = 3, CHANGES = 300 };

static struct changed {
	struct segment *segment;
	_Atomic uint64_t granted; /* no more than what is charged */
	_Atomic uint64_t limit;   /* in force for whoever begins now */
	_Atomic uint64_t turn;    /* odd: it is being changed */
	_Atomic bool is_over;
} changed;

static void *charge_and_give_back(void *cookie)
{
	unsigned seed = (unsigned)(uintptr_t)cookie;
	uint64_t held = 0;

	while (!atomic_load(&changed.is_over)) {
		uint64_t turn = atomic_load(&changed.turn), limit = atomic_load(&changed.limit);
		uint64_t bytes = (uint64_t)(rand_r(&seed) % 2000);

		if (rand_r(&seed) % 2 && held < 2 * LIMIT) {
			if (segment_charge(changed.segment, 0, bytes, UINT64_MAX, false) != 0)
				continue;
			held += bytes;
			bytes += atomic_fetch_add(&changed.granted, bytes);
			if (turn % 2 == 0 && turn == atomic_load(&changed.turn))
				ck_assert_uint_le(bytes, limit);
		} else {
			bytes = bytes < held ? bytes : held;
			held -= bytes;
			atomic_fetch_sub(&changed.granted, bytes);
			segment_unreserve(changed.segment, 0, SEGMENT_ON_DEVICE, bytes);
		}
	}
	atomic_fetch_sub(&changed.granted, held);
	segment_unreserve(changed.segment, 0, SEGMENT_ON_DEVICE, held);
	return NULL;
}

START_TEST(a_limit_comes_while_threads_charge_in_the_open)
{
	const struct segment_limit limit = {.bytes = LIMIT};
	pthread_t thread[THREADS];

	changed = (struct changed){.segment = join(), .limit = UINT64_MAX};
	segment_set_limit(changed.segment, 0, &none);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, charge_and_give_back, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < CHANGES; i++) {
		atomic_fetch_add(&changed.turn, 1);
		segment_set_limit(changed.segment, 0, i % 2 ? &none : &limit);
		atomic_store(&changed.limit, i % 2 ? UINT64_MAX : LIMIT);
		atomic_fetch_add(&changed.turn, 1);
		nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
	}
	atomic_store(&changed.is_over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(segment_charged(changed.segment, 0, SEGMENT_ON_DEVICE), 0);
	segment_leave(changed.segment);
}
END_TEST

/*
 * A process that charges in the open is stopped wherever it is, others look and charge, and it is
 * killed.
 */
struct in_the_open {
	_Atomic uint64_t before, after; /* what it holds now is one of the two */
	_Atomic uint64_t peak;
};

static void charge_in_the_open(struct in_the_open *me, unsigned seed)
{
	struct segment *segment = join();
	uint64_t held = 0;

	if (!segment)
		_exit(1);
	segment_set_limit(segment, 0, &none);
	for (;;) {
		uint64_t bytes = (uint64_t)(rand_r(&seed) % 4000);
		bool gives = rand_r(&seed) % 2;

		bytes = gives && bytes > held ? held : bytes;
		held = gives ? held - bytes : held + bytes;
		atomic_store(&me->after, held);
		if (gives)
			segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, bytes);
		else if (segment_charge(segment, 0, bytes, UINT64_MAX, false) != 0)
			_exit(2);
		atomic_store(&me->before, held);
		if (held > me->peak)
			atomic_store(&me->peak, held);
	}
}

START_TEST(killed_in_the_open)
{
	struct in_the_open *child =
	    mmap(NULL, sizeof *child, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct segment *segment = join();
	static struct segment_view view;
	uint64_t peak = 0;

	for (unsigned kills = 0; kills < KILLS / 2; kills++) {
		uint64_t total, own = 0;
		pid_t pid;

		child->before = child->after = child->peak = 0;
		pid = fork();
		if (pid == 0)
			charge_in_the_open(child, kills + 1);
		for (int stops = 0; stops < 3; stops++) {
			nanosleep(&(struct timespec){.tv_nsec = 700000}, NULL);
			kill(pid, SIGSTOP);
			waitpid(pid, NULL, WUNTRACED);
			total = segment_charged(segment, 0, SEGMENT_ON_DEVICE) - own;
			ck_assert(total == child->before || total == child->after);
			if (stops == 2) /* where it holds the lock nothing is charged */
				break;
			if (kills % 2 &&
			    segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 10, total + 10) == 0)
				own += 10;
			ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE),
			                  total + own);
			ck_assert_int_ne(
			    segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1, total + own), 0);
			segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, own);
			own = 0;
			kill(pid, SIGCONT);
		}
		peak = child->peak > peak ? child->peak : peak;
		child_kill(pid);
		segment_poll(segment);
		pause_ms(25);
		segment_poll(segment);
		ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 0);
		ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
		ck_assert_uint_eq(view.charged[0][0], 0);
		ck_assert_uint_ge(view.job_total[0].device_peak, peak);
	}
	segment_leave(segment);
	munmap(child, sizeof *child);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("quota");
	TCase *tests = tcase_create("quota");
	tcase_add_checked_fixture(tests, setup, state_directory_remove);
	tcase_set_timeout(tests, 100);
	tcase_add_loop_test(tests, as_the_model, 0, 3);
	tcase_add_loop_test(tests, private_books_answer_as_shared_ones, 0, 3);
	tcase_add_test(tests, edges);
	tcase_add_test(tests, what_drains_is_told_from_what_is_held);
	tcase_add_test(tests, killed_at_any_point);
	tcase_add_loop_test(tests, open_as_the_model, 0, 3);
	tcase_add_test(tests, open_edges);
	tcase_add_test(tests, a_limit_comes_while_threads_charge_in_the_open);
	tcase_add_test(tests, killed_in_the_open);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
