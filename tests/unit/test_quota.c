/* Quota: against a model in one process, and with processes killed at any point in many. */
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <sys/mman.h>

#include "core/base/log.h"
#include "core/state/layout.h"

enum { DEVICES = 2, HELD_MAX = 8 };

static struct segment *join(void)
{
	struct segment *segment = NULL;
	char message[512] = "";
	int error = segment_join("job", NULL, NULL, &segment, message, sizeof message);
	if (error)
		fprintf(stderr, "%s\n", message);
	for (int d = 0; segment && d < DEVICES; d++) {
		struct segment_device device = {0};
		snprintf(device.uuid, sizeof device.uuid, "GPU-%d", d);
		if (segment_device(segment, &device) != d)
			return NULL;
	}
	return segment;
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

START_TEST(edges)
{
	struct segment *a = join(), *b = join();
	ck_assert_int_eq(segment_reserve(a, 0, SEGMENT_ON_DEVICE, 0, 0), 0);
	ck_assert_int_eq(segment_reserve(a, 0, SEGMENT_ON_DEVICE, 1, 0), -ENOSPC);
	ck_assert_int_eq(segment_reserve(a, 0, SEGMENT_ON_DEVICE, 10, 10), 0);
	ck_assert_int_eq(segment_reserve(b, 0, SEGMENT_ON_DEVICE, 1, 10), -ENOSPC);
	ck_assert_int_eq(segment_reserve(b, 0, SEGMENT_ON_DEVICE, UINT64_MAX, UINT64_MAX), -ENOSPC);
	ck_assert_int_eq(segment_reserve(b, 0, SEGMENT_ON_DEVICE, UINT64_MAX - 10, UINT64_MAX), 0);
	segment_unreserve(b, 0, SEGMENT_ON_DEVICE, UINT64_MAX - 10);
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

	segment_tend(segment);
	pause_ms(30);
	segment_tend(segment);
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

int main(void)
{
	Suite *suite = suite_create("quota");
	TCase *tests = tcase_create("quota");
	tcase_add_checked_fixture(tests, setup, state_directory_remove);
	tcase_set_timeout(tests, 100);
	tcase_add_loop_test(tests, as_the_model, 0, 3);
	tcase_add_test(tests, edges);
	tcase_add_test(tests, what_drains_is_told_from_what_is_held);
	tcase_add_test(tests, killed_at_any_point);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
