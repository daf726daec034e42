/* SPDX-License-Identifier: MIT */
/* Jobs that run with the version before ours: shown, removed once they are over, never joined. */
#include "core/state/before.c" /* its types, too */

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/state/layout.h"
#include "tests/unit/state_directory.h"

static struct before_file *file;
static struct segment_view view;
static char path[600];

/* Where words stood in a ledger of then: the facts' first copy, then charges. */
enum {
	GENERATION = 1,
	LIMIT = 2,
	ELASTIC = 6,
	BLOCKER = 7,
	BLOCKER_GENERATION = 8,
	CHARGED = 17,
	PINNED = 23
};

/* One row of process slots, with the books of one device. */
#define FILE_SIZE \
	((ssize_t)(offsetof(struct before_file, row[0].books) + sizeof file->row[0].books[0]))

static void write_file(void)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pwrite(fd, file, FILE_SIZE, 0), FILE_SIZE);
	close(fd);
}

/* A job of two processes, the second of which is dead and drains. */
static void setup(void)
{
	state_directory_make();
	snprintf(path, sizeof path, "%s/old.segment", state_directory);
	file = aligned_alloc(_Alignof(struct before_file), sizeof *file);
	memset(file, 0, sizeof *file);
	memcpy(file->header.magic, SEGMENT_MAGIC, sizeof file->header.magic);
	file->header.version = SEGMENT_VERSION_BEFORE;
	file->header.size = sizeof(struct before_file);
	segment_read_boot_id(file->header.boot_id);
	strcpy(file->header.job, "old");
	strcpy(file->header.labels, "team=\033x");
	file->header.token = 77;
	file->header.device_count = 1;
	file->header.polled_ns = clock_now();
	file->header.peak[0][SEGMENT_ON_DEVICE] = 900;
	strcpy(file->header.device[0].uuid, "GPU-1");
	file->header.device[0].memory = 1000;
	file->header.ended[0].counters.launches = 5;
	file->header.rows = 1;
	file->header.live[0] = 3;
	for (int i = 0; i < 2; i++) {
		struct before_slot *slot = &file->row[0].slot[i];
		struct before_books *books = &file->row[0].books[0][i];

		slot->life = i ? FUTEX_OWNER_DIED : 4711;
		slot->pid = 10 + i;
		slot->override_hash = 99;
		slot->threads = 8;
		strcpy(slot->command, "train");
		books->ledger.word[CHARGED] = 100;
		books->ledger.word[GENERATION] = books->ledger.word[BLOCKER_GENERATION] = 1;
		books->ledger.word[LIMIT] = 150;
		books->ledger.word[ELASTIC] = ELASTIC_YES;
		books->ledger.word[BLOCKER] = MOVE_PINNED;
		books->ledger.word[PINNED] = 100;
		books->counters.launches = 4;
		books->counters.place[1].launches = 3;
		books->counters.pinned_error = 801;
	}
	write_file();
}

static void teardown(void)
{
	free(file);
	state_directory_remove();
}

START_TEST(is_shown)
{
	char message[512] = "";

	ck_assert_msg(segment_read("old", &view, message, sizeof message) == 0, "%s", message);
	ck_assert_str_eq(view.job, "old");
	ck_assert_str_eq(view.labels, "team=?x");
	ck_assert_uint_eq(view.token, 77);
	ck_assert_int_eq(view.device_count, 1);
	ck_assert_uint_eq(view.device[0].memory, 1000);
	ck_assert_int_eq(view.process_count, 2);
	ck_assert_int_eq(view.process[0].state, SLOT_LIVE);
	ck_assert_int_eq(view.process[1].state, SLOT_DRAINING);
	ck_assert_int_eq(view.process[0].pid, 10);
	ck_assert_int_eq(view.process[0].threads, 7);
	/* by which set and pause know that it follows */
	ck_assert_uint_eq(view.process[0].override_hash, 99);
	ck_assert_uint_eq(view.charged[0][SEGMENT_ON_DEVICE], 200);
	ck_assert_uint_eq(view.job_total[0].launches, 19);
	ck_assert_uint_eq(view.job_total[0].limit_set, 150);
	ck_assert_uint_eq(view.job_total[0].limit_held, 200);
	ck_assert_uint_eq(view.job_total[0].device_peak, 900);
	ck_assert_uint_eq(view.job_total[0].held_reason, HELD_PINNED);
	ck_assert_uint_eq(view.process[0].device[0].held_reason, HELD_PINNED);
	ck_assert_uint_eq(view.process[0].device[0].pinned_error, 801);
	/* figures that it did not have */
	ck_assert_uint_eq(view.job_total[0].refused_at, 0);
	ck_assert_uint_eq(view.job_total[0].driver_used, 0);
	ck_assert_uint_eq(view.ended_ns, 0);
}
END_TEST

static void expect_left_alone(void)
{
	char *now = malloc(FILE_SIZE);
	int fd = open(path, O_RDONLY);

	ck_assert_int_eq(read(fd, now, FILE_SIZE), FILE_SIZE);
	close(fd);
	ck_assert_mem_eq(now, file, FILE_SIZE);
	free(now);
}

START_TEST(is_not_joined_while_it_runs)
{
	struct segment *segment = NULL;
	char message[512] = "";

	ck_assert_int_eq(segment_join("old", NULL, NULL, &segment, message, sizeof message),
	                 -EPROTO);
	ck_assert_ptr_null(segment);
	ck_assert_ptr_nonnull(strstr(message, path));
	ck_assert_ptr_nonnull(strstr(message, "runs with an earlier version of Spillway"));
	ck_assert_ptr_nonnull(strstr(message, "start this program again once the job has ended"));
	ck_assert_ptr_null(strchr(message, '\n'));
	expect_left_alone();
	ck_assert_int_eq(segment_remove("old"), -EBUSY);
	expect_left_alone();
}
END_TEST

static void end_it(void)
{
	file->row[0].slot[0].life = FUTEX_OWNER_DIED;
	file->header.polled_ns = clock_now() - SEGMENT_SILENT_NS - SEGMENT_DRAIN_NS;
	write_file();
}

START_TEST(is_removed_once_it_is_over)
{
	end_it();
	ck_assert_int_eq(segment_read("old", &view, NULL, 0), 0);
	ck_assert_int_eq(view.process_count, 0);
	ck_assert_uint_eq(view.job_total[0].launches, 19);
	ck_assert_int_eq(segment_remove("old"), 0);
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(is_replaced_once_it_is_over)
{
	struct segment *segment = NULL;
	char message[512] = "";

	end_it();
	ck_assert_msg(segment_join("old", NULL, NULL, &segment, message, sizeof message) == 0, "%s",
	              message);
	ck_assert_int_eq(segment_read("old", &view, message, sizeof message), 0);
	ck_assert_int_eq(view.process_count, 1);
	ck_assert_uint_ne(view.token, 77);
	segment_leave(segment);
}
END_TEST

/* Data from others: what is no such segment is refused as ever. */
START_TEST(what_does_not_fit_is_none)
{
	char message[512] = "";

	file->header.device_count = BEFORE_DEVICES + 1;
	write_file();
	ck_assert_int_eq(segment_read("old", &view, message, sizeof message), -EPROTO);
	ck_assert_ptr_nonnull(strstr(message, "version 7, expected version 8"));
	file->header.device_count = 1;
	write_file();
	ck_assert_int_eq(truncate(path, FILE_SIZE - 1), 0);
	ck_assert_int_eq(segment_read("old", &view, message, sizeof message), -EPROTO);
	/* what is not terminated is no crash */
	memset(file->header.labels, 'x', sizeof file->header.labels);
	memset(file->row[0].slot[0].command, 'x', sizeof file->row[0].slot[0].command);
	memset(file->row[0].slot[0].complaint, 'x', sizeof file->row[0].slot[0].complaint);
	write_file();
	ck_assert_int_eq(segment_read("old", &view, message, sizeof message), 0);
	ck_assert_int_eq(view.process_count, 2);
	ck_assert_uint_eq(strlen(view.process[0].command), sizeof view.process[0].command - 1);
	/* slots in rows that it does not have */
	file->header.live[1] = 1;
	write_file();
	ck_assert_int_eq(segment_read("old", &view, message, sizeof message), -EPROTO);
}
END_TEST

/* --- versions that cannot be read: 5 and 6 are too old, 99 is of a later Spillway --- */

static const uint32_t others[] = {5, 6, 99};
static const char another_boot[] = "00000000-1111-2222-3333-444444444444";

/* In memory, as the state directory is where the machine has it: there the kernel knows writers. */
static void setup_other(void)
{
	setenv("TMPDIR", "/dev/shm", 1);
	state_directory_make();
	snprintf(path, sizeof path, "%s/old.segment", state_directory);
}

/* A file of which only what every version has is known; the rest is noise. */
static void write_other(uint32_t version, const char *boot_id)
{
	char bytes[8192];
	uint64_t size = sizeof bytes;
	int fd;

	memset(bytes, 0xa5, sizeof bytes);
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): a file begins with 8 bytes */
	memcpy(bytes, SEGMENT_MAGIC, 8);
	memcpy(bytes + 8, &version, sizeof version);
	memcpy(bytes + 16, &size, sizeof size);
	memset(bytes + 24, 0, SEGMENT_BOOT_ID_MAX);
	if (boot_id)
		strcpy(bytes + 24, boot_id);
	else
		segment_read_boot_id(bytes + 24);
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(write(fd, bytes, sizeof bytes), sizeof bytes);
	close(fd);
}

/* Maps the file as every version does, and keeps no descriptor. */
static void live_in(void *where)
{
	int fd = open(where, O_RDWR);
	char *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (map == MAP_FAILED)
		_exit(1);
	close(fd);
}

static void expect_blocked(uint32_t version)
{
	struct segment *segment = NULL;
	char message[512] = "", number[32];
	struct stat before, after;

	snprintf(number, sizeof number, "version %u,", version);
	ck_assert_int_eq(stat(path, &before), 0);
	ck_assert_int_eq(segment_join("old", NULL, NULL, &segment, message, sizeof message),
	                 -EPROTO);
	ck_assert_ptr_nonnull(strstr(message, path));
	ck_assert_ptr_nonnull(strstr(message, number));
	ck_assert_ptr_nonnull(strstr(message, "once the job has ended, or under another job name"));
	ck_assert_int_eq(segment_remove("old"), -EBUSY);
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_uint_eq(before.st_ino, after.st_ino);
}

static void expect_free(void)
{
	struct segment *segment = NULL;
	char message[512] = "";

	ck_assert_msg(segment_join("old", NULL, NULL, &segment, message, sizeof message) == 0, "%s",
	              message);
	segment_leave(segment);
}

START_TEST(another_version_is_left_alone_while_a_process_has_it)
{
	pid_t process;

	write_other(others[_i], NULL);
	process = child_start(live_in, path);
	expect_blocked(others[_i]);
	child_kill(process);
	expect_free();
	ck_assert_int_eq(segment_read("old", &view, NULL, 0), 0);
}
END_TEST

START_TEST(another_version_is_removed_when_no_process_has_it)
{
	write_other(others[_i], NULL);
	ck_assert_int_eq(segment_read("old", &view, NULL, 0), -EPROTO);
	ck_assert_int_eq(segment_remove("old"), 0);
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(another_version_of_another_boot_is_over)
{
	write_other(others[_i], another_boot);
	expect_free();
}
END_TEST

/* Which file it is decides, not its name: a file that is no segment is nobody's to remove. */
START_TEST(what_is_no_segment_is_left_alone)
{
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	ck_assert_int_eq(write(fd, "important", 9), 9);
	close(fd);
	ck_assert_int_eq(segment_remove("old"), -EPROTO);
	ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("before");
	TCase *tests = tcase_create("before");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, is_shown);
	tcase_add_test(tests, is_not_joined_while_it_runs);
	tcase_add_test(tests, is_removed_once_it_is_over);
	tcase_add_test(tests, is_replaced_once_it_is_over);
	tcase_add_test(tests, what_does_not_fit_is_none);
	suite_add_tcase(suite, tests);
	tests = tcase_create("other versions");
	tcase_add_checked_fixture(tests, setup_other, state_directory_remove);
	tcase_add_loop_test(tests, another_version_is_left_alone_while_a_process_has_it, 0, 3);
	tcase_add_loop_test(tests, another_version_is_removed_when_no_process_has_it, 0, 3);
	tcase_add_loop_test(tests, another_version_of_another_boot_is_over, 0, 3);
	tcase_add_test(tests, what_is_no_segment_is_left_alone);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
