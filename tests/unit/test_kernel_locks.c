/* SPDX-License-Identifier: MIT */
/*
 * The list of locks, while locks come and go between two reads: random lists that are handed out as
 * the kernel hands out /proc/locks.
 */
#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/state/kernel_locks.c"
#include "suite.h"

enum { LOCKS = 2000, STAYS = 50, STAY_AT = 1000000 };

struct lock {
	uint64_t start;
	int file;
};

/* As seq_file.c does it: a reader keeps its place as a number of locks, and the rest of a line. */
struct reader {
	int next;
	char rest[PAGE];
	size_t rest_bytes;
};

static struct world {
	struct lock lock[LOCKS];
	int count;
	int churn; /* locks that at most come, and at most go, between two reads */
	uint64_t next_start;
	struct reader reader[2];
} world;

static bool has_been_found[STAYS], was_seen_by_one[STAYS];

static int below(int bound)
{
	return bound > 0 ? rand() % bound : 0;
}

static void lock_insert(int at, struct lock lock)
{
	if (world.count == LOCKS)
		return;
	memmove(&world.lock[at + 1], &world.lock[at], (size_t)(world.count - at) * sizeof(lock));
	world.lock[at] = lock;
	world.count++;
}

static void lock_remove(int at)
{
	if (world.lock[at].start >= STAY_AT)
		return;
	world.count--;
	memmove(&world.lock[at], &world.lock[at + 1],
	        (size_t)(world.count - at) * sizeof(struct lock));
}

/* New locks come at the head of their processor's list: at the start, or in the middle. */
static void lock_come(void)
{
	bool is_alike = below(8) == 0;

	lock_insert(below(2) ? 0 : world.count / 2,
	            (struct lock){.start = is_alike ? 7 : ++world.next_start % STAY_AT,
	                          .file = is_alike ? 1 : below(1000)});
}

static void world_make(int locks, int churn)
{
	memset(&world, 0, sizeof(world));
	memset(has_been_found, 0, sizeof(has_been_found));
	memset(was_seen_by_one, 0, sizeof(was_seen_by_one));
	world.churn = churn;
	for (int i = 0; i < locks; i++)
		lock_come();
	for (int i = 0; i < STAYS; i++)
		lock_insert(below(world.count + 1),
		            (struct lock){.start = (uint64_t)(STAY_AT + i), .file = i / 4});
}

static void world_turn(void)
{
	for (int gone = below(world.churn + 1); gone > 0; gone--)
		lock_remove(below(world.count));
	for (int come = below(world.churn + 1); come > 0; come--)
		lock_come();
}

static int print_line(char *line, size_t size, int number)
{
	const struct lock *lock = &world.lock[number];

	return snprintf(line, size, "%d: OFDLCK ADVISORY  READ -1 00:01:%d %llu %llu\n", number + 1,
	                lock->file, (unsigned long long)lock->start,
	                (unsigned long long)lock->start + 1);
}

static size_t fill(struct reader *reader, char buffer[PAGE], size_t wanted)
{
	char line[200];
	size_t bytes = 0;

	while (reader->next < world.count && bytes < wanted) {
		size_t length = (size_t)print_line(line, sizeof(line), reader->next);

		if (bytes + length >= PAGE)
			break;
		memcpy(buffer + bytes, line, length);
		bytes += length;
		if (reader == &world.reader[0] && world.lock[reader->next].start >= STAY_AT)
			was_seen_by_one[world.lock[reader->next].start - STAY_AT] = true;
		reader->next++;
	}
	return bytes;
}

static ssize_t read_world(void *source, int number, char *text, size_t size)
{
	struct reader *reader = &world.reader[number];
	size_t copied = reader->rest_bytes < size ? reader->rest_bytes : size, more;
	char buffer[PAGE];

	(void)source;
	world_turn();
	memcpy(text, reader->rest, copied);
	reader->rest_bytes -= copied;
	memmove(reader->rest, reader->rest + copied, reader->rest_bytes);
	if (reader->rest_bytes)
		return (ssize_t)copied;
	more = fill(reader, buffer, size - copied);
	if (more > size - copied) {
		reader->rest_bytes = more - (size - copied);
		memcpy(reader->rest, buffer + size - copied, reader->rest_bytes);
		more = size - copied;
	}
	memcpy(text + copied, buffer, more);
	return (ssize_t)(copied + more);
}

static kernel_locks_found note_found;

/* Reads the world. */
static enum kernel_locks_read walk(int pages)
{
	struct list list = {.read = read_world, .found = note_found};

	return list_walk(&list, pages);
}

static void note_found(void *cookie, uint64_t start, uint64_t end)
{
	(void)cookie;
	if (start >= STAY_AT && start < STAY_AT + STAYS && end == start + 1)
		has_been_found[start - STAY_AT] = true;
}

static int count_missed(const bool *seen)
{
	int missed = 0;

	for (int i = 0; i < STAYS; i++)
		missed += !seen[i];
	return missed;
}

START_TEST(a_list_that_stays_is_read_whole)
{
	for (int locks = 0; locks < 600; locks++) {
		srand((unsigned int)locks);
		world_make(locks, 0);
		ck_assert_int_eq(walk(256), KERNEL_LOCKS_WHOLE);
		ck_assert_int_eq(count_missed(has_been_found), 0);
	}
}
END_TEST

START_TEST(no_lock_that_stays_is_missed)
{
	enum { WORLDS = 3000, CALM = 6 };
	int missed_by_one = 0, calm = 0, calm_in_doubt = 0;

	for (int seed = 0; seed < WORLDS; seed++) {
		enum kernel_locks_read read;
		int churn = 1 + seed % 60;

		srand((unsigned int)seed);
		world_make(100 + below(900), churn);
		read = walk(256);
		ck_assert_msg(read != KERNEL_LOCKS_WHOLE || !count_missed(has_been_found),
		              "seed %d: %d locks that stayed were missed", seed,
		              count_missed(has_been_found));
		if (read == KERNEL_LOCKS_WHOLE)
			missed_by_one += count_missed(was_seen_by_one);
		calm += churn <= CALM;
		calm_in_doubt += churn <= CALM && read != KERNEL_LOCKS_WHOLE;
	}
	ck_assert_int_gt(missed_by_one, 0);
	ck_assert_msg(calm_in_doubt * 50 < calm, "%d of %d calm lists are in doubt", calm_in_doubt,
	              calm);
}
END_TEST

START_TEST(more_pages_than_asked_for)
{
	world_make(600, 0);
	ck_assert_int_eq(walk(2), KERNEL_LOCKS_TOO_MANY);
}
END_TEST

static void note_own(void *cookie, uint64_t start, uint64_t end)
{
	*(bool *)cookie |= start == 123456789 && end == 123456798;
}

START_TEST(the_kernels_list_has_our_lock)
{
	struct flock lock = {.l_type = F_RDLCK, .l_start = 123456789, .l_len = 10};
	bool is_of_descriptor = false, is_in_list = false;
	int fd = memfd_create("locked", MFD_CLOEXEC);
	enum kernel_locks_read read;

	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &lock), 0);
	kernel_locks_of(fd, note_own, &is_of_descriptor);
	ck_assert(is_of_descriptor);
	read = kernel_locks_all(256, note_own, &is_in_list);
	ck_assert(is_in_list || read != KERNEL_LOCKS_WHOLE);
	close(fd);
	is_in_list = false;
	kernel_locks_all(256, note_own, &is_in_list);
	ck_assert(!is_in_list);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("all");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, a_list_that_stays_is_read_whole);
	tcase_add_test(tests, no_lock_that_stays_is_missed);
	tcase_add_test(tests, more_pages_than_asked_for);
	tcase_add_test(tests, the_kernels_list_has_our_lock);
	return suite_run("kernel_locks", tests);
}
