/* SPDX-License-Identifier: MIT */
/*
 * Claims: how far a job's limit has risen, the process that decides it, and the memory that jobs
 * owe each other.
 */
#include "tests/unit/ledger.h"
#include "tests/unit/state_directory.h"

#include "core/base/clock.h"
#include "core/budget/applied.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

#define SECOND UINT64_C(1000000000)

static const struct segment_device gpu = {.uuid = "GPU-1", .memory = 1000};
static const struct segment_device other_gpu = {.uuid = "GPU-2", .memory = 1000};

static struct segment *join(const char *job, const struct segment_device *device)
{
	struct segment *segment = NULL;

	ck_assert_int_eq(segment_join(job, NULL, NULL, &segment, NULL, 0), 0);
	ck_assert_int_eq(segment_device(segment, device), 0);
	return segment;
}

/* Returns the bytes by which the limit has risen, as all processes of the job see it. */
static uint64_t grown(const struct segment *segment, int device)
{
	return segment->file->header.applied[device].grown;
}

static void patch(const char *job, off_t at, const void *bytes, size_t size)
{
	char path[512];
	int fd;

	ck_assert_int_eq(directory_segment_path(job, path, sizeof path), 0);
	fd = open(path, O_WRONLY);
	ck_assert_int_eq(pwrite(fd, bytes, size, at), (ssize_t)size);
	close(fd);
}

static uint64_t charged_to_others(const struct segment *segment, int device)
{
	struct charges charges = {0};
	uint64_t bytes = 0;

	ck_assert(segment_charges(segment, device, &charges));
	for (size_t i = 0; i < charges.count; i++)
		bytes += charges.list[i].bytes;
	free(charges.list);
	return bytes;
}

/* The word of a job without a limit is its process's, which charges without the lock. */
START_TEST(a_job_without_a_limit_tells_its_charges)
{
	struct segment *one = join("job", &gpu), *two = join("other", &gpu);

	segment_set_limit(two, 0, &(struct segment_limit){.bytes = UINT64_MAX});
	for (uint64_t charged = 100; charged <= 300; charged += 100) {
		ck_assert_int_eq(segment_charge(two, 0, 100, UINT64_MAX, false), 0);
		ck_assert_uint_eq(charged_to_others(one, 0), charged);
	}
	segment_leave(one);
	segment_leave(two);
}
END_TEST

START_TEST(growth_is_the_whole_job_s)
{
	struct segment *one = join("job", &gpu), *two = join("job", &gpu);

	apply_limit(one, 0, 100);
	segment_set_grown(one, 0, 100, 30);
	ck_assert_uint_eq(grown(two, 0), 30);
	/* The same limit again changes nothing, another one starts anew. */
	apply_limit(two, 0, 100);
	ck_assert_uint_eq(grown(one, 0), 30);
	apply_limit(two, 0, 80);
	ck_assert_uint_eq(grown(one, 0), 0);
	apply_limit(one, 0, 80);
	/* As does growth that was judged for the one before. */
	segment_set_grown(one, 0, 100, 30);
	ck_assert_uint_eq(grown(two, 0), 0);
	segment_set_grown(two, 0, 80, 20);
	segment_leave(one);
	ck_assert_uint_eq(grown(two, 0), 20);
	segment_leave(two);
	/* Nobody has any when nobody was there. */
	one = join("job", &gpu);
	ck_assert_uint_eq(grown(one, 0), 0);
	apply_limit(one, SEGMENT_DEVICES, 1);
	segment_set_grown(one, SEGMENT_DEVICES, 1, 1);
	segment_leave(one);
}
END_TEST

START_TEST(one_process_judges_at_a_time)
{
	struct segment *one = join("job", &gpu), *two = join("job", &gpu);

	ck_assert(segment_judges_growth(one, 0, UINT64_MAX));
	ck_assert(!segment_judges_growth(one, 0, UINT64_MAX));
	ck_assert(!segment_judges_growth(two, 0, UINT64_MAX));
	ck_assert(segment_judges_growth(two, 1, UINT64_MAX));
	pause_ms(2);
	ck_assert(segment_judges_growth(two, 0, 1000000));
	ck_assert(!segment_judges_growth(two, SEGMENT_DEVICES, 0));
	segment_leave(one);
	segment_leave(two);
}
END_TEST

START_TEST(others_are_owed_what_their_limits_leave)
{
	struct segment *own = join("own", &gpu), *limited = join("limited", &gpu);
	struct segment *unlimited = join("unlimited", &gpu), *elsewhere = join("else", &other_gpu);
	uint64_t then;

	apply_limit(own, 0, 500);
	apply_limit(elsewhere, 0, 400);
	ck_assert_uint_eq(segment_owed(own, 0), 0); /* who has met the device has said nothing */
	apply_limit(limited, 0, 300);
	ck_assert_uint_eq(segment_owed(own, 0), 300);
	ck_assert_int_eq(segment_reserve(limited, 0, SEGMENT_ON_DEVICE, 120, 300), 0);
	ck_assert_uint_eq(segment_owed(own, 0), 180);
	/* What has risen by itself is owed to nobody. */
	segment_set_grown(limited, 0, 300, 100);
	ck_assert_uint_eq(segment_owed(own, 0), 180);
	ck_assert_int_eq(segment_reserve(limited, 0, SEGMENT_ON_DEVICE, 220, 400), 0);
	ck_assert_uint_eq(segment_owed(own, 0), 0);
	segment_unreserve(limited, 0, SEGMENT_ON_DEVICE, 340);

	apply_limit(unlimited, 0, CONFIG_UNLIMITED);
	ck_assert_uint_eq(segment_owed(own, 0), 300);
	ck_assert_int_eq(segment_reserve(unlimited, 0, SEGMENT_ON_HOST, 70, 70), 0);
	ck_assert_uint_eq(segment_owed(own, 0), 370);
	ck_assert_uint_eq(segment_owed(limited, 0), 570);
	ck_assert_uint_eq(segment_owed(own, SEGMENT_DEVICES), 0);

	/* Others hold all that they are charged there, whatever they are owed. */
	ck_assert_uint_eq(charged_to_others(own, 0), 0);
	ck_assert_int_eq(segment_reserve(limited, 0, SEGMENT_ON_DEVICE, 30, 300), 0);
	ck_assert_int_eq(segment_reserve(unlimited, 0, SEGMENT_ON_DEVICE, 4, 70), 0);
	ck_assert_int_eq(segment_reserve(own, 0, SEGMENT_ON_DEVICE, 200, 500), 0);
	ck_assert_int_eq(segment_reserve(elsewhere, 0, SEGMENT_ON_DEVICE, 100, 400), 0);
	ck_assert_uint_eq(charged_to_others(own, 0), 34);
	ck_assert_uint_eq(charged_to_others(limited, 0), 204);
	ck_assert_uint_eq(charged_to_others(own, SEGMENT_DEVICES), 0);
	segment_unreserve(limited, 0, SEGMENT_ON_DEVICE, 30);
	segment_unreserve(unlimited, 0, SEGMENT_ON_DEVICE, 4);
	/* One that has said nothing for long has ended. */
	then = clock_now() - 10 * SECOND;
	patch("limited", offsetof(struct segment_header, polled_ns), &then, sizeof then);
	ck_assert_uint_eq(segment_owed(own, 0), 70);
	segment_poll(limited);
	ck_assert_uint_eq(segment_owed(own, 0), 370);
	segment_leave(own);
	segment_leave(limited);
	segment_leave(unlimited);
	segment_leave(elsewhere);
}
END_TEST

/* --- two looks at the charges of other processes --- */

/* Does what any process of a job does about its dead. */
static void slots_probe_of(const char *job)
{
	struct segment *segment = NULL;

	ck_assert_int_eq(segment_join(job, NULL, NULL, &segment, NULL, 0), 0);
	segment_poll(segment);
	segment_leave(segment);
}

static void take_16(void *job)
{
	struct segment *segment = join(job, &gpu);

	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 16, UINT64_MAX), 0);
}

/* In each job: one process is killed before the first look, and another takes as much after it. */
START_TEST(a_job_that_dies_and_starts_again_has_grown)
{
	char own[] = "own", other[] = "other", *jobs[] = {own, other};
	struct segment *segment = join(own, &gpu);
	struct charges then = {0}, now = {0};
	struct charges_change change;

	segment_drain_ns = 0;
	for (int i = 0; i < 2; i++) {
		child_kill(child_start(take_16, jobs[i]));
		ck_assert(segment_charges(segment, 0, &then));
		pid_t next = child_start(take_16, jobs[i]);
		/* The dead one is noticed once, and its memory has drained the next time. */
		for (int look = 0; look < 2 * SEGMENT_ROWS; look++)
			slots_probe_of(jobs[i]);
		ck_assert(segment_charges(segment, 0, &now));
		change = charges_change(&then, &now);
		ck_assert_uint_eq(change.grown, 16);
		ck_assert_uint_eq(change.fallen, 0);
		ck_assert(!charges_are_same(&then, &now));
		child_kill(next);
		for (int look = 0; look < 2 * SEGMENT_ROWS; look++)
			slots_probe_of(jobs[i]);
	}
	segment_leave(segment);
	free(then.list);
	free(now.list);
}
END_TEST

enum { MOST_PROCESSES = 64, WORLDS = 20000 };

/* Processes that begin, take, give and die, and the memory that the device has in use for them. */
static struct world {
	struct one {
		struct charge charge;
		uint64_t held; /* at most what it is charged */
		bool is_dead;
	} process[MOST_PROCESSES];
	int count;
	uint64_t born;
	bool is_exact; /* since that was set no process of another job gave, and none died */
} world;

static void world_begin(struct one *one, uint64_t bytes)
{
	*one = (struct one){.held = bytes};
	one->charge = (struct charge){.job = 1 + (uint64_t)rand() % 3,
	                              .began_ns = ++world.born,
	                              .slot = (uint32_t)rand() % 4,
	                              .bytes = bytes};
	one->charge.is_own_job = one->charge.job == 1;
}

static void world_change_live(struct one *one, uint64_t bytes)
{
	switch (rand() % 3) {
	case 0: /* takes */
		one->charge.bytes += bytes;
		one->held += bytes;
		break;
	case 1: /* gives */
		bytes = bytes < one->held ? bytes : one->held;
		one->charge.bytes -= bytes;
		one->held -= bytes;
		world.is_exact &= one->charge.is_own_job;
		break;
	default: /* dies; its memory goes now or later */
		one->is_dead = true;
		one->held = rand() % 2 ? one->held : 0;
		world.is_exact = false;
		break;
	}
}

static void world_change(void)
{
	uint64_t bytes = 1 + (uint64_t)rand() % 100;
	int i = rand() % (world.count + 1);
	struct one *one = &world.process[i];

	if (i == world.count) {
		if (world.count < MOST_PROCESSES) {
			world_begin(one, bytes);
			world.count++;
		}
	} else if (!one->is_dead) {
		world_change_live(one, bytes);
	} else if (one->held) {
		one->held = 0;
		world.is_exact = false;
	} else { /* it has drained, and another one begins, mostly in its process slot */
		uint32_t slot = one->charge.slot;

		*one = world.process[--world.count];
		world_begin(&world.process[world.count], bytes);
		world.process[world.count].charge.slot = slot;
		world.count += rand() % 4 != 0;
	}
}

/* Looks as a process does that holds `own` itself. Returns what the device has in use. */
static uint64_t world_look(struct charges *charges, uint64_t own)
{
	charges->count = 0;
	for (int i = 0; i < world.count; i++) {
		own += world.process[i].held;
		charges->list[charges->count++] = world.process[i].charge;
	}
	return own;
}

/* One world: the driver takes 50 of its own between two looks. Returns what is measured. */
static uint64_t world_measure(struct charges *then, struct charges *now)
{
	struct charges_change change;
	uint64_t before, after;

	world = (struct world){0};
	for (int i = rand() % 40; i > 0; i--)
		world_change();
	before = world_look(then, 1000);
	world.is_exact = true;
	for (int i = rand() % 12; i > 0; i--)
		world_change();
	after = world_look(now, 1050);
	change = charges_change(then, now);
	ck_assert(charges_are_same(then, then));
	before += change.grown;
	after += change.fallen;
	return after > before ? after - before : 0;
}

START_TEST(another_process_s_memory_is_never_the_driver_s)
{
	struct charge lists[2][MOST_PROCESSES];
	struct charges then = {.list = lists[0]}, now = {.list = lists[1]};
	int exact = 0, fewer = 0;

	for (int i = 0; i < WORLDS; i++) {
		srand((unsigned int)i);
		uint64_t bytes = world_measure(&then, &now);

		ck_assert_msg(bytes <= 50, "world %d: %llu", i, (unsigned long long)bytes);
		ck_assert_msg(bytes == 50 || !world.is_exact, "world %d: %llu", i,
		              (unsigned long long)bytes);
		exact += world.is_exact;
		fewer += bytes < 50;
	}
	ck_assert_int_gt(exact, WORLDS / 10);
	ck_assert_int_gt(fewer, WORLDS / 10);
}
END_TEST

START_TEST(what_is_no_segment_is_owed_nothing)
{
	struct segment *own = join("own", &gpu), *other = join("other", &gpu);
	uint32_t many = SEGMENT_DEVICES + 1, version = 2;
	char path[512];

	apply_limit(other, 0, 300);
	ck_assert_uint_eq(segment_owed(own, 0), 300);
	patch("other", offsetof(struct segment_header, device_count), &many, sizeof many);
	ck_assert_uint_eq(segment_owed(own, 0), 0);
	many = 1;
	patch("other", offsetof(struct segment_header, device_count), &many, sizeof many);
	patch("other", offsetof(struct segment_header, version), &version, sizeof version);
	ck_assert_uint_eq(segment_owed(own, 0), 0);
	segment_leave(other);
	ck_assert_int_eq(directory_segment_path("other", path, sizeof path), 0);
	ck_assert_int_eq(truncate(path, 100), 0);
	ck_assert_uint_eq(segment_owed(own, 0), 0);
	/* The environment may have changed by then; the directory is the one of the job. */
	unlink(path);
	other = join("other", &gpu);
	apply_limit(other, 0, 200);
	unsetenv("SPILLWAY_STATE_DIR");
	ck_assert_uint_eq(segment_owed(own, 0), 200);
	setenv("SPILLWAY_STATE_DIR", state_directory, 1);
	segment_leave(other);
	segment_leave(own);
}
END_TEST

START_TEST(a_code_is_the_highest_of_the_living)
{
	struct segment *one = join("job", &gpu), *two = join("job", &gpu);
	static struct segment_view view;

	ledger_says(one, &(const struct facts){.blocker = MOVE_CAPTURE});
	ledger_says(two, &(const struct facts){.blocker = MOVE_PINNED});
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_uint_eq(view.job_total[0].move_pending, MOVE_PINNED);
	segment_leave(two);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_uint_eq(view.job_total[0].move_pending, MOVE_CAPTURE);
	segment_leave(one);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_uint_eq(view.job_total[0].move_pending, MOVE_NONE);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("applied");
	TCase *tests = tcase_create("applied");

	tcase_add_checked_fixture(tests, state_directory_make, state_directory_remove);
	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, a_job_without_a_limit_tells_its_charges);
	tcase_add_test(tests, growth_is_the_whole_job_s);
	tcase_add_test(tests, one_process_judges_at_a_time);
	tcase_add_test(tests, others_are_owed_what_their_limits_leave);
	tcase_add_test(tests, a_job_that_dies_and_starts_again_has_grown);
	tcase_add_test(tests, another_process_s_memory_is_never_the_driver_s);
	tcase_add_test(tests, what_is_no_segment_is_owed_nothing);
	tcase_add_test(tests, a_code_is_the_highest_of_the_living);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
