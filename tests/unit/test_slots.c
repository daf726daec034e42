/* SPDX-License-Identifier: MIT */
/*
 * Process slots: as many as there are, found again when their processes are killed, at the same
 * cost for any number.
 */
#include "tests/unit/state_directory.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "core/base/clock.h"
#include "core/state/directory.h"
#include "core/state/layout.h"

#ifdef __SANITIZE_THREAD__
/* Turns its search for lock orders off: one thread holds more locks here than it knows of. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "detect_deadlocks=0";
}
#endif

enum { CHILDREN = 24, MOST_OF_CHILD = 200, STORM = 300 };

static const struct segment_device gpu = {.uuid = "GPU-1"}, other_gpu = {.uuid = "GPU-2"};
static struct segment_view view;

static void setup(void)
{
	state_directory_make();
	segment_drain_ns = 0;
}

static struct segment *join(void)
{
	struct segment *segment = NULL;
	char message[512] = "";
	int error = segment_join("job", NULL, NULL, &segment, message, sizeof message);

	if (error)
		fprintf(stderr, "%d: %s\n", error, message);
	return segment;
}

/* Another process's hold on the segment, but in this one: its slot and its own charges. */
static bool join_again(struct segment *segment, struct segment *again)
{
	struct segment_file *file = segment->file;
	bool is_made = true;

	*again = *segment;
	while (is_made) {
		if (segment_lock(file) != 0)
			return false;
		again->number = slots_take(file);
		if (again->number >= 0)
			slots_enter(file, again->number);
		segment_unlock(file);
		if (again->number >= 0) {
			again->slot = slot_of(file, again->number);
			again->own = books_of(file, again->number, 0);
			return true;
		}
		if (file->header.rows == SEGMENT_ROWS)
			return false;
		/* As a join does that finds all taken. */
		int fd = segment_reopen(segment);
		uint32_t rows = file->header.rows, devices = file->header.device_count;
		is_made = fd >= 0 && segment_reserve_row(fd, rows, devices) == 0 &&
		          segment_lock(file) == 0;
		if (is_made && file->header.rows == rows && file->header.device_count == devices)
			file->header.rows = rows + 1;
		if (is_made)
			segment_unlock(file);
		close(fd);
	}
	return false;
}

static void fill(struct segment *segment, int slots)
{
	struct segment again;

	for (int i = 1; i < slots; i++)
		ck_assert(join_again(segment, &again));
}

static int live_slots(const struct segment *segment)
{
	int count = 0;

	for (int n = -1; (n = slots_next(&segment->file->header, n, SLOTS_LIVE)) >= 0;)
		count++;
	return count;
}

START_TEST(the_257th_has_a_slot_and_the_4097th_has_none)
{
	enum { JOINED = 257 };
	static struct segment *segment[JOINED];
	struct segment *more = NULL, again;
	char message[512] = "";

	for (int i = 0; i < JOINED; i++) {
		segment[i] = join();
		ck_assert_ptr_nonnull(segment[i]);
		ck_assert_int_eq(segment_device(segment[i], &gpu), 0);
		ck_assert_int_eq(segment_reserve(segment[i], 0, SEGMENT_ON_DEVICE, 1, JOINED), 0);
	}
	ck_assert_int_eq(segment_reserve(segment[JOINED - 1], 0, SEGMENT_ON_DEVICE, 1, JOINED),
	                 -ENOSPC);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_int_eq(view.process_count, JOINED);
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], JOINED);
	ck_assert_uint_eq(segment[0]->file->header.rows, JOINED / SEGMENT_ROW + 1);

	fill(segment[0], SEGMENT_SLOTS - JOINED + 1);
	ck_assert(!join_again(segment[0], &again));
	ck_assert_int_eq(segment_join("job", NULL, NULL, &more, message, sizeof message), -EUSERS);
	ck_assert_ptr_nonnull(strstr(message, "has 4096 processes already"));
	ck_assert_ptr_null(more);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_int_eq(view.process_count, SEGMENT_SLOTS);
	segment_leave(segment[100]);
	segment[100] = join();
	ck_assert_ptr_nonnull(segment[100]);
	ck_assert_int_eq(segment[100]->number, 100);
	ck_assert_uint_eq(segment_own(segment[100], 0).ledger->charged[0], 0);
	/* The first stays: its mapping has the mutexes of all those, which this thread holds. */
	for (int i = 1; i < JOINED; i++)
		segment_leave(segment[i]);
}
END_TEST

struct crowd {
	struct segment *segment;
	int slots;
};

static void child_fills(void *cookie)
{
	const struct crowd *crowd = cookie;

	fill(crowd->segment, crowd->slots);
}

/*
 * Makes rows of slots unreadable, or readable again: who touches one of them ends the test.
 */
static void forbid(struct segment_file *file, int first, int behind, int protection)
{
	if (first < behind)
		ck_assert_int_eq(mprotect(&file->row[first],
		                          (size_t)(behind - first) * sizeof file->row[0],
		                          protection),
		                 0);
}

/* A charge touches the process's own slot alone, a refusal as many others as there are in a
 * row, and a join the first that lives. */
START_TEST(costs_are_the_same_for_any_number)
{
	static const int numbers[] = {1, 256, SEGMENT_SLOTS - SEGMENT_ROW};
	struct segment *segment = join(), *next;
	struct segment_file *file = segment->file;
	const struct segment_header *header = &file->header;
	struct crowd crowd = {.segment = segment, .slots = numbers[_i]}, more = crowd;
	pid_t child[2] = {0};
	int rows;

	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	child[0] = child_start(child_fills, &crowd);
	rows = (int)header->rows;
	forbid(file, 1, rows, PROT_NONE);
	for (int i = 0; i < 1000; i++) {
		ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1, 1000), 0);
		ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), 1);
		segment_unreserve(segment, 0, SEGMENT_ON_DEVICE, 1);
	}
	for (int i = 0; i < 3 * rows; i++) {
		int looked_at = (int)(header->probed + 1) % rows;

		forbid(file, 1, rows, PROT_NONE);
		forbid(file, looked_at, looked_at + 1, PROT_READ | PROT_WRITE);
		ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1001, 1000),
		                 -ENOSPC);
		ck_assert_int_eq((int)header->probed, looked_at);
		forbid(file, 1, rows, PROT_READ | PROT_WRITE);
	}

	/* A row that is full is not gone through by who comes. */
	more.slots = rows * SEGMENT_ROW - numbers[_i] + 1;
	if (rows > 1)
		child[1] = child_start(child_fills, &more);
	forbid(file, 1, (int)header->rows, PROT_NONE);
	ck_assert_int_eq(segment_lock(file), 0);
	ck_assert(slots_any_lives(file));
	ck_assert_int_eq(slots_take(file), rows > 1 ? -1 : 1);
	segment_unlock(file);
	forbid(file, 1, (int)header->rows, PROT_READ | PROT_WRITE);
	next = join();
	ck_assert_ptr_nonnull(next);
	segment_leave(next);
	for (int i = 0; i < 2; i++)
		if (child[i])
			child_kill(child[i]);
	segment_leave(segment);
}
END_TEST

/* The share that a child was told to take, and what it is charged with. */
struct share {
	pid_t pid;
	int slots;
	uint64_t bytes;
};

static void child_takes(void *cookie)
{
	const struct share *share = cookie;
	struct segment *segment = join(), again;

	if (!segment || segment_device(segment, &gpu) != 0 ||
	    segment_reserve(segment, 0, SEGMENT_ON_DEVICE, share->bytes, UINT64_MAX) != 0)
		_exit(1);
	for (int i = 1; i < share->slots; i++)
		if (!join_again(segment, &again) ||
		    segment_reserve(&again, 0, SEGMENT_ON_DEVICE, share->bytes, UINT64_MAX) != 0)
			_exit(1);
}

/* Compares with what is known of who lives, once each has been looked at. */
static void expect(struct segment *segment, const struct share *share)
{
	uint64_t bytes = 0;
	int slots = 1;

	for (int i = 0; i < CHILDREN; i++) {
		slots += share[i].slots;
		bytes += (uint64_t)share[i].slots * share[i].bytes;
	}
	/* as the helper threads of all would, once each */
	for (int i = 0; i <= SEGMENT_ROWS; i++)
		segment_poll(segment);
	ck_assert_int_eq(live_slots(segment), slots);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), bytes);
	ck_assert_int_eq(segment_read("job", &view, NULL, 0), 0);
	ck_assert_int_eq(view.process_count, slots);
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], bytes);
	ck_assert_int_eq(segment_lock(segment->file), 0);
	quota_recount(segment->file);
	segment_unlock(segment->file);
	ck_assert_uint_eq(segment_charged(segment, 0, SEGMENT_ON_DEVICE), bytes);
}

START_TEST(joins_and_kills_as_the_model)
{
	struct share share[CHILDREN] = {{0}};
	struct segment *segment = join();

	srand(_i + 1);
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	for (int step = 0; step < 60; step++) {
		struct share *one = &share[rand() % CHILDREN];

		if (one->pid) {
			child_kill(one->pid);
			*one = (struct share){0};
		} else {
			one->slots = 1 + rand() % MOST_OF_CHILD;
			one->bytes = (uint64_t)(rand() % 1000);
			one->pid = child_start(child_takes, one);
		}
		if (rand() % 4 == 0)
			expect(segment, share);
	}
	expect(segment, share);
	for (int i = 0; i < CHILDREN; i++) {
		if (share[i].pid)
			child_kill(share[i].pid);
		share[i] = (struct share){0};
	}
	expect(segment, share);
	segment_leave(segment);
}
END_TEST

START_TEST(a_fork_storm_leaves_nothing)
{
	struct segment *segment = join();
	pid_t child[STORM];
	int hold[2], status;
	char byte;

	ck_assert_int_eq(pipe(hold), 0);
	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	for (int i = 0; i < STORM; i++) {
		child[i] = fork();
		if (child[i] == 0) {
			close(hold[1]);
			struct segment *own = join();
			if (!own || segment_device(own, &other_gpu) != 1 ||
			    segment_reserve(own, 1, SEGMENT_ON_DEVICE, 7, UINT64_MAX) != 0 ||
			    segment_own(own, 1).ledger->charged[0] != 7)
				_exit(1);
			if (i % 3 == 0)
				raise(SIGKILL);
			if (i % 3 == 1)
				segment_leave(own);
			_exit(read(hold[0], &byte, 1) == 0 ? 0 : 2);
		}
	}
	close(hold[1]);
	for (int i = 0; i < STORM; i++) {
		ck_assert_int_eq(waitpid(child[i], &status, 0), child[i]);
		ck_assert_msg(i % 3 == 0 ? WIFSIGNALED(status) : status == 0, "%d: %x", i, status);
	}
	close(hold[0]);
	for (int i = 0; i <= SEGMENT_ROWS; i++)
		segment_poll(segment);
	ck_assert_int_eq(live_slots(segment), 1);
	ck_assert_uint_eq(segment_charged(segment, 1, SEGMENT_ON_DEVICE), 0);
	ck_assert_int_le((int)segment->file->header.rows, STORM / SEGMENT_ROW + 1);
	segment_leave(segment);
}
END_TEST

/* A full disk refuses who comes, and nobody is killed. */
START_TEST(where_there_is_no_room_who_comes_is_refused)
{
	struct segment *segment = join(), *next = NULL;
	struct rlimit limit, small;
	struct stat found;
	char path[512], message[512] = "";

	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	fill(segment, SEGMENT_ROW);
	ck_assert_int_eq(directory_segment_path("job", path, sizeof path), 0);
	ck_assert_int_eq(stat(path, &found), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){.rlim_cur = (rlim_t)found.st_size, .rlim_max = limit.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	int error = segment_join("job", NULL, NULL, &next, message, sizeof message);
	int of_device = segment_device(segment, &other_gpu);
	setrlimit(RLIMIT_FSIZE, &limit);
	ck_assert_int_eq(error, -EFBIG);
	ck_assert_int_eq(of_device, -EFBIG);
	ck_assert_uint_eq(segment->file->header.rows, 1);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 1, 1), 0);
	ck_assert_int_eq(segment_device(segment, &other_gpu), 1);
	next = join();
	ck_assert_int_eq(next->number, SEGMENT_ROW);
	segment_leave(next);
	segment_leave(segment);
}
END_TEST

/* A device that is met late has room in all rows, and a row that comes late for all devices. */
START_TEST(devices_and_rows_come_in_any_order)
{
	struct segment *segment = join(), *late, again[3];
	struct segment_device device = {0};

	for (int d = 0; d < SEGMENT_DEVICES; d++) {
		snprintf(device.uuid, sizeof device.uuid, "GPU-%d", d);
		ck_assert_int_eq(segment_device(segment, &device), d);
		for (int i = 0; i < 2 * SEGMENT_ROW / 3; i++)
			ck_assert(join_again(segment, &again[i % 3]));
		for (int i = 0; i < 3; i++)
			for (int known = 0; known <= d; known++) {
				ck_assert_uint_eq(segment_own(&again[i], known).ledger->charged[0],
				                  0);
				ck_assert_int_eq(segment_reserve(&again[i], known,
				                                 SEGMENT_ON_DEVICE, 1, UINT64_MAX),
				                 0);
			}
		ck_assert_ptr_null(segment_own(segment, d + 1).ledger);
	}
	late = join();
	ck_assert_int_eq(segment_reserve(late, SEGMENT_DEVICES - 1, SEGMENT_ON_DEVICE, 1, 3),
	                 -ENOSPC);
	ck_assert_int_eq(segment_reserve(late, SEGMENT_DEVICES - 1, SEGMENT_ON_DEVICE, 1, 4), 0);
	segment_leave(late);
	segment_leave(segment);
}
END_TEST

/* --- whose death the kernel does not mark --- */

/* As after an out-of-memory kill: the list of what the thread holds is not found any more. */
static void lose_robust_list(void)
{
	static struct robust_list_head none;

	none.list.next = &none.list;
	syscall(SYS_set_robust_list, &none, sizeof none);
}

/* Starts a process that joins, with memory, and is killed; with the job's lock or without. */
static void kill_unmarked(bool with_lock)
{
	int ready[2], status;
	char byte = 0;
	pid_t child;

	ck_assert_int_eq(pipe(ready), 0);
	child = fork();
	if (child == 0) {
		struct segment *segment = join();
		bool is_right = segment && segment_device(segment, &gpu) == 0 &&
		                segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 5, UINT64_MAX) == 0;

		if (is_right && with_lock)
			is_right = segment_lock(segment->file) == 0;
		lose_robust_list();
		byte = is_right;
		if (write(ready[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(ready[0], &byte, 1), 1);
	ck_assert(byte);
	kill(child, SIGKILL);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	close(ready[0]);
	close(ready[1]);
}

static void expect_books(int processes, uint64_t charged)
{
	char message[512] = "";

	ck_assert_msg(segment_read("job", &view, message, sizeof message) == 0, "%s", message);
	ck_assert_int_eq(view.process_count, processes);
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], charged);
}

START_TEST(who_died_unmarked_is_let_go_by_who_lives)
{
	struct segment *segment = join();

	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 3, UINT64_MAX), 0);
	for (int i = 0; i < 20; i++)
		kill_unmarked(false);
	for (int i = 0; i < 30; i++)
		segment_poll(segment);
	expect_books(1, 3);
	segment_leave(segment);
}
END_TEST

START_TEST(who_died_unmarked_keeps_no_job_alive)
{
	struct segment *segment;
	char message[512] = "";

	kill_unmarked(false);
	ck_assert_msg(segment_read("job", &view, message, sizeof message) == 0, "%s", message);
	ck_assert_uint_ne(view.ended_ns, 0);
	segment = join();
	ck_assert(segment->begins_job);
	expect_books(1, 0);
	segment_leave(segment);
}
END_TEST

/* The whole job would stand still for ever. */
START_TEST(who_died_unmarked_with_the_lock_gives_it_back)
{
	struct segment *segment = join();

	ck_assert_int_eq(segment_device(segment, &gpu), 0);
	kill_unmarked(true);
	ck_assert_int_eq(segment_reserve(segment, 0, SEGMENT_ON_DEVICE, 3, UINT64_MAX), 0);
	for (int i = 0; i < 3; i++)
		segment_poll(segment);
	expect_books(1, 3);
	segment_leave(segment);
}
END_TEST

/* A process of another namespace of process ids cannot be asked for, so it lives. */
START_TEST(who_is_elsewhere_counts_as_alive)
{
	struct segment *segment = join(), elsewhere;

	ck_assert(join_again(segment, &elsewhere));
	elsewhere.slot->pid = 1;
	elsewhere.slot->pid_space = slot_pid_space() + 1;
	for (int i = 0; i < 3; i++)
		segment_poll(segment);
	ck_assert(slot_owner_lives(elsewhere.slot));
	elsewhere.slot->pid_space = 0;
	segment_poll(segment);
	ck_assert(slot_owner_lives(elsewhere.slot));
	elsewhere.slot->pid_space = slot_pid_space();
	ck_assert(!slot_owner_lives(elsewhere.slot));
	segment_leave(segment);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("slots");
	TCase *tests = tcase_create("slots");

	tcase_add_checked_fixture(tests, setup, state_directory_remove);
	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, the_257th_has_a_slot_and_the_4097th_has_none);
	tcase_add_loop_test(tests, costs_are_the_same_for_any_number, 0, 3);
	tcase_add_loop_test(tests, joins_and_kills_as_the_model, 0, 3);
	tcase_add_test(tests, a_fork_storm_leaves_nothing);
	tcase_add_test(tests, where_there_is_no_room_who_comes_is_refused);
	tcase_add_test(tests, devices_and_rows_come_in_any_order);
	tcase_add_test(tests, who_died_unmarked_is_let_go_by_who_lives);
	tcase_add_test(tests, who_died_unmarked_keeps_no_job_alive);
	tcase_add_test(tests, who_died_unmarked_with_the_lock_gives_it_back);
	tcase_add_test(tests, who_is_elsewhere_counts_as_alive);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
