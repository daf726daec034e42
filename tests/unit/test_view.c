/* SPDX-License-Identifier: MIT */
/* The view: sums that never go back, words never torn, and files with false headers. */
#include "tests/unit/ledger.h"
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <pthread.h>

#include "core/base/clock.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

static const struct segment_device gpu = {.uuid = "GPU-1", .name = "Soft GPU", .memory = 1 << 30};
static struct segment_view view;
static char path[1024];

static void setup(void)
{
	state_directory_make();
	ck_assert_int_eq(directory_segment_path("job", path, sizeof path), 0);
}

static struct segment *join(void)
{
	struct segment *segment = NULL;
	ck_assert_int_eq(segment_join("job", NULL, NULL, &segment, NULL, 0), 0);
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	return segment;
}

/* A negative errno with its reason, or 0. */
static int look(char *message, size_t size)
{
	message[0] = '\0';
	int error = segment_read("job", &view, message, size);
	if (error)
		ck_assert_str_ne(message, "");
	return error;
}

/*
 * Looks again while processes come and go faster than the file can be read, which readers are told
 * of as it is.
 */
static void look_until_whole(void)
{
	char message[1024];
	int error;

	do
		error = look(message, sizeof message);
	while (error == -EBUSY);
	ck_assert_msg(error == 0, "%s", message);
}

static void patch(off_t at, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY);
	ck_assert_int_eq(pwrite(fd, bytes, size, at), (ssize_t)size);
	close(fd);
}

START_TEST(says_what_is_wrong)
{
	char message[1024];
	uint32_t version = 2;
	ck_assert_int_eq(look(message, sizeof message), -ENOENT);
	ck_assert_ptr_nonnull(strstr(message, path));
	ck_assert_int_eq(segment_read("a/b", &view, message, sizeof message), -EINVAL);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), -ENOENT);

	segment_leave(join());
	ck_assert_int_eq(look(message, sizeof message), 0);
	patch(offsetof(struct segment_header, version), &version, sizeof version);
	ck_assert_int_eq(look(message, sizeof message), -EPROTO);
	ck_assert_msg(strstr(message, path) && strstr(message, "version 2, expected version 8"),
	              "%s", message);
}
END_TEST

START_TEST(a_cut_file_is_refused)
{
	char message[1024];
	segment_leave(join());
	struct stat found;
	ck_assert_int_eq(stat(path, &found), 0);
	for (off_t length = found.st_size - 1; length > 0; length -= length / 7 + 1) {
		ck_assert_int_eq(truncate(path, length), 0);
		ck_assert_int_eq(look(message, sizeof message), -EPROTO);
	}
	ck_assert_int_eq(truncate(path, 0), 0);
	ck_assert_int_eq(look(message, sizeof message), -EPROTO);
	ck_assert_int_eq(truncate(path, found.st_size), 0);
	ck_assert_int_eq(look(message, sizeof message), -EPROTO);
}
END_TEST

START_TEST(fields_out_of_bounds_are_refused)
{
	char message[1024], junk[256];
	uint32_t many = 17, slots = SEGMENT_ROW + 1, rows = SEGMENT_ROWS + 1, no_row = 0;
	uint64_t live = 1;
	const struct damage {
		size_t at;
		const void *bytes;
		size_t size;
	} damages[] = {
	    {offsetof(struct segment_header, device_count), &many, sizeof many},
	    {offsetof(struct segment_header, retiring), &slots, sizeof slots},
	    {offsetof(struct segment_header, size), &many, sizeof many},
	    {offsetof(struct segment_header, job), junk, 64},
	    {offsetof(struct segment_header, job), "other", 6},
	    {offsetof(struct segment_header, labels), junk, 256},
	    {offsetof(struct segment_header, run), junk, 64},
	    {offsetof(struct segment_header, boot_id), junk, SEGMENT_BOOT_ID_MAX},
	    {offsetof(struct segment_header, device[3].name), junk, 64},
	    {offsetof(struct segment_header, rows), &rows, sizeof rows},
	    {offsetof(struct segment_header, rows), &no_row, sizeof no_row},
	    {offsetof(struct segment_header, live[1]), &live, sizeof live},
	    {offsetof(struct segment_header, draining[63]), &live, sizeof live},
	    {offsetof(struct segment_file, row[0].slot[0].command), junk, 64},
	    {offsetof(struct segment_file, row[0].slot[0].complaint), junk, 256},
	};
	memset(junk, 'j', sizeof junk);
	for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
		unlink(path);
		struct segment *segment = join();
		struct segment_header good = segment->file->header;
		patch((off_t)damages[i].at, damages[i].bytes, damages[i].size);
		ck_assert_msg(look(message, sizeof message) == -EPROTO, "damage %zu", i);
		patch(0, &good, sizeof good);
		segment_leave(segment);
	}
}
END_TEST

START_TEST(random_bytes_never_crash)
{
	static union {
		struct segment_header header;
		unsigned char bytes[1 << 20];
	} whole, damaged;
	char message[1024];
	struct segment *segment = join();
	statistics_add(&segment_own(segment, 0).counters->launches, 1);
	int fd = open(path, O_RDONLY);
	ssize_t size = pread(fd, &whole, sizeof whole, 0);
	ck_assert_int_gt(size, (ssize_t)sizeof whole.header);
	ck_assert_int_lt(size, (ssize_t)sizeof whole);
	close(fd);

	srand(1);
	for (ssize_t i = 0; i < size; i++)
		damaged.bytes[i] = (unsigned char)rand();
	patch(0, &damaged, (size_t)size);
	ck_assert_int_eq(look(message, sizeof message), -EPROTO);
	/* past the first check, and damaged in a few places */
	for (int round = 0; round < 300; round++) {
		memcpy(&damaged, &whole, (size_t)size);
		for (int edits = rand() % 20; edits >= 0; edits--) {
			/* half of them where structure is */
			size_t room = rand() % 2 ? sizeof damaged.header : (size_t)size;
			damaged.bytes[(size_t)rand() % room] = (unsigned char)rand();
		}
		/* an odd sequence only costs time */
		damaged.header.sequence = 0;
		patch(0, &damaged, (size_t)size);
		int error = look(message, sizeof message);
		ck_assert(error == 0 || error == -EPROTO);
		if (error == 0)
			ck_assert_int_le(view.process_count, SEGMENT_SLOTS);
	}
	patch(0, &whole, (size_t)size);
	segment_leave(segment);
}
END_TEST

START_TEST(looking_writes_nothing)
{
	struct stat before, after;
	char message[1024];
	segment_leave(join());
	chmod(path, 0400);
	ck_assert_int_eq(stat(path, &before), 0);
	pause_ms(20);
	ck_assert_int_eq(look(message, sizeof message), 0);
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_int_eq(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	ck_assert_int_eq(before.st_mtim.tv_sec, after.st_mtim.tv_sec);
}
END_TEST

static _Atomic bool done;

static void *flip(void *counter)
{
	for (uint64_t value = 0; !done; value = ~value)
		statistics_set((_Atomic uint64_t *)counter, value);
	return NULL;
}

START_TEST(a_counter_is_never_torn)
{
	struct segment *segment = join();
	pthread_t thread;
	uint64_t seen[2] = {0};
	char message[1024];
	done = false;
	pthread_create(&thread, NULL, flip, &segment_own(segment, 0).counters->launches);
	for (int i = 0; i < 3000; i++) {
		ck_assert_int_eq(look(message, sizeof message), 0);
		uint64_t value = view.process[0].device[0].launches;
		ck_assert(value == 0 || value == UINT64_MAX);
		seen[value & 1]++;
	}
	done = true;
	pthread_join(thread, NULL);
	ck_assert_uint_ne(seen[0] + seen[1], 0);
	segment_leave(segment);
}
END_TEST

/* Keeps an invariant between two counters, though each is changed while the other is not yet. */
static void *spill(void *counters)
{
	struct counters *s = counters;
	while (!done) {
		statistics_begin(s);
		statistics_add(&s->spills, 1);
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
		statistics_add(&s->spilled_bytes, 4096);
		statistics_end(s);
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	}
	return NULL;
}

START_TEST(what_belongs_together_is_seen_together)
{
	enum { LOOKS = 100, WRITERS = 2 };
	struct segment *segment = join();
	pthread_t thread[WRITERS];
	char message[1024];
	uint64_t last = 0;
	int news = 0;
	done = false;
	segment_view_patience_ns = UINT64_MAX / 2; /* on a busy machine */
	for (int i = 0; i < WRITERS; i++)
		pthread_create(&thread[i], NULL, spill, segment_own(segment, 0).counters);
	/* the writers may be late */
	for (int i = 0; i < LOOKS || news <= 2; i++) {
		ck_assert_int_eq(look(message, sizeof message), 0);
		const struct statistics *seen = &view.process[0].device[0];
		ck_assert_uint_eq(seen->spilled_bytes, 4096 * seen->spills);
		ck_assert_uint_eq(view.job_total[0].spilled_bytes, 4096 * view.job_total[0].spills);
		news += seen->spills > last;
		last = seen->spills;
	}
	done = true;
	for (int i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	segment_leave(segment);
}
END_TEST

/* Counts what it has been charged for, once it has. */
static void *allocate(void *cookie)
{
	struct segment *segment = cookie;

	while (!done) {
		ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1, UINT64_MAX), 0);
		statistics_add(&segment_own(segment, 0).counters->allocations, 1);
	}
	return NULL;
}

START_TEST(what_is_charged_is_seen_after_the_counters)
{
	enum { LOOKS = 2000 };
	struct segment *segment = join();
	pthread_t thread;
	char message[1024];
	uint64_t last = 0;
	int news = 0;

	done = false;
	pthread_create(&thread, NULL, allocate, segment);
	for (int i = 0; i < LOOKS || news <= 2; i++) {
		uint64_t counted;

		ck_assert_int_eq(look(message, sizeof message), 0);
		counted = view.process[0].device[0].allocations;
		ck_assert_uint_ge(view.charged[0][SEGMENT_ON_DEVICE], counted);
		ck_assert_uint_ge(view.job_total[0].device_peak,
		                  view.charged[0][SEGMENT_ON_DEVICE]);
		news += counted > last;
		last = counted;
	}
	done = true;
	pthread_join(thread, NULL);
	segment_leave(segment);
}
END_TEST

static void say_limit(struct segment *segment, uint64_t generation, uint64_t limit, bool evicted)
{
	ledger_says(segment, &(const struct facts){.generation = generation,
	                                           .limit = limit,
	                                           .evicted = evicted,
	                                           .elastic = ELASTIC_YES});
}

/* A process says which limit it keeps to; whether that is held follows from what all have. */
START_TEST(a_limit_is_held_once_memory_is_gone)
{
	struct segment *one = join(), *two = join();
	const struct statistics *total = &view.job_total[0];
	char message[1024];

	ck_assert_int_eq(segment_reserve(one, 0, SEGMENT_ON_DEVICE, 80, 100), 0);
	ck_assert_int_eq(segment_reserve(two, 0, SEGMENT_ON_DEVICE, 20, 100), 0);
	say_limit(one, 1, 40, false);
	say_limit(two, 1, 40, false);
	ck_assert_int_eq(look(message, sizeof message), 0);
	ck_assert_uint_eq(total->limit_held, 100);
	ck_assert_uint_eq(total->held_reason, HELD_PENDING);
	segment_unreserve(one, 0, SEGMENT_ON_DEVICE, 50);
	ck_assert_int_eq(look(message, sizeof message), 0);
	ck_assert_uint_eq(total->limit_held, 50);
	ck_assert_uint_eq(total->held_reason, HELD_PENDING);
	segment_unreserve(one, 0, SEGMENT_ON_DEVICE, 30);
	ck_assert_int_eq(look(message, sizeof message), 0);
	ck_assert_uint_eq(total->limit_held, 40);
	ck_assert_uint_eq(total->held_reason, HELD_NONE);
	/* All of what is evicted is beyond. */
	say_limit(two, 2, 40, true);
	ck_assert_int_eq(look(message, sizeof message), 0);
	ck_assert_uint_eq(total->held_reason, HELD_PENDING);
	/* What one has been told the other will be. */
	ck_assert_uint_eq(view.process[0].device[0].held_reason, HELD_PENDING);
	segment_unreserve(one, 0, SEGMENT_ON_DEVICE, 0);
	say_limit(one, 2, 40, true);
	segment_unreserve(two, 0, SEGMENT_ON_DEVICE, 20);
	ck_assert_int_eq(look(message, sizeof message), 0);
	ck_assert_uint_eq(total->held_reason, HELD_NONE);
	segment_leave(one);
	segment_leave(two);
}
END_TEST

/* Stopped or killed within a change: what there is is seen, after a bounded time. */
START_TEST(a_change_that_never_ends_keeps_nobody)
{
	struct segment *segment = join();
	struct counters *s = segment_own(segment, 0).counters;
	char message[1024];
	statistics_begin(s);
	statistics_add(&s->spills, 1);
	ck_assert_int_eq(look(message, sizeof message), 0);
	ck_assert_uint_eq(view.process[0].device[0].spills, 1);
	segment_leave(segment);
}
END_TEST

/* Processes come, count, go or are killed: the job's sum only grows, by what was counted. */
START_TEST(sums_never_go_back)
{
	enum { VISITORS = 60 };
	struct segment *segment = join();
	uint64_t last = 0;
	segment_drain_ns = 1000000;
	for (int visitor = 0; visitor < VISITORS; visitor++) {
		pid_t child = fork();
		if (child == 0) {
			struct segment *own;
			if (segment_join("job", NULL, NULL, &own, NULL, 0) != 0)
				_exit(1);
			statistics_add(&segment_own(own, 0).counters->launches, 1);
			if (visitor % 2)
				segment_leave(own);
			_exit(0);
		}
		int status, looks = 0;
		while (waitpid(child, &status, WNOHANG) == 0 || looks < 10) {
			if (looks++ % 3 == 0)
				segment_poll(segment);
			look_until_whole();
			ck_assert_uint_ge(view.job_total[0].launches, last);
			last = view.job_total[0].launches;
		}
	}
	look_until_whole();
	ck_assert_uint_eq(view.job_total[0].launches, VISITORS);
	segment_leave(segment);
}
END_TEST

/* The same with comings and goings in the middle of looking: between the file's first and last
 * bytes. */
START_TEST(sums_hold_while_slots_come_and_go)
{
	struct segment *segment = join();
	uint64_t last = 0;
	segment_drain_ns = 60000000000;
	for (int i = 1; i < SEGMENT_ROW - 1; i++) {
		slot_of(segment->file, i)->drained_ns = clock_now() + segment_drain_ns;
		segment->file->header.draining[i / SEGMENT_ROW] |= (uint64_t)1 << i % SEGMENT_ROW;
	}
	pid_t child = fork();
	while (child == 0) {
		struct segment *own;
		if (segment_join("job", NULL, NULL, &own, NULL, 0) != 0)
			_exit(1);
		statistics_add(&segment_own(own, 0).counters->launches, 1);
		nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
		segment_leave(own);
	}
	for (int looks = 0; looks < 1000 || last <= 10; looks++) {
		look_until_whole();
		ck_assert_uint_ge(view.job_total[0].launches, last);
		last = view.job_total[0].launches;
	}
	child_kill(child);
	segment_leave(segment);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("view");
	TCase *tests = tcase_create("view");
	tcase_add_checked_fixture(tests, setup, state_directory_remove);
	tcase_set_timeout(tests, 100);
	tcase_add_test(tests, says_what_is_wrong);
	tcase_add_test(tests, a_cut_file_is_refused);
	tcase_add_test(tests, fields_out_of_bounds_are_refused);
	tcase_add_test(tests, random_bytes_never_crash);
	tcase_add_test(tests, looking_writes_nothing);
	tcase_add_test(tests, a_counter_is_never_torn);
	tcase_add_test(tests, what_belongs_together_is_seen_together);
	tcase_add_test(tests, what_is_charged_is_seen_after_the_counters);
	tcase_add_test(tests, a_limit_is_held_once_memory_is_gone);
	tcase_add_test(tests, a_change_that_never_ends_keeps_nobody);
	tcase_add_test(tests, sums_never_go_back);
	tcase_add_test(tests, sums_hold_while_slots_come_and_go);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
