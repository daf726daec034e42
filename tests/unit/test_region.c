/* SPDX-License-Identifier: MIT */
/*
 * HAMi's shared region: slots of the living and the dead, written fields, read fields, bad files.
 */
#include "core/modules/vgpu/region.h"

#include <check.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "jumping_clock.h"
#include "tests/unit/scratch.h"

#define UUID  "GPU-7370696c-6c77-6179-2073-6f6674677000"
#define OTHER "GPU-7370696c-6c77-6179-2073-6f6674677001"
#define MIB   (UINT64_C(1) << 20)

static const char *path;

static void setup(void)
{
	scratch_make();
	path = strdup(scratch_path("5f3a.cache"));
}

static struct region_tell told(int pid, uint64_t used)
{
	struct region_tell tell = {.minor = 2, .pid = pid, .priority = 1, .count = 1};

	tell.device[0] = (struct region_device){.limit = 64 * MIB, .percent = 30, .used = used};
	strcpy(tell.device[0].uuid, UUID);
	return tell;
}

static struct region_settings tell_all(const struct region_tell *tell)
{
	struct region_settings settings;
	char why[512];
	int error = region_tell(path, tell, &settings, why, sizeof(why));

	ck_assert_msg(error == 0, "%s", why);
	return settings;
}

static uint64_t word_at(off_t at, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t word = 0;

	ck_assert_int_eq(pread(fd, &word, size, at), (ssize_t)size);
	close(fd);
	return word;
}

static void set_word(off_t at, uint64_t word, size_t size)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	ck_assert_int_eq(pwrite(fd, &word, size, at), (ssize_t)size);
	close(fd);
}

static off_t slot(int i, off_t at)
{
	return REGION_AT_process + (off_t)i * REGION_SLOT + at;
}

static uint64_t total_of(int i)
{
	return word_at(slot(i, SLOT_AT_used) + (off_t)offsetof(struct region_used, total), 8);
}

static int process_count(void)
{
	return (int)word_at(REGION_AT_process_count, 4);
}

static pid_t make_process(void)
{
	pid_t child = fork();

	if (child == 0) {
		pause();
		_exit(0);
	}
	return child;
}

static void end_process(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

START_TEST(one_who_tells_makes_it)
{
	struct region_tell tell = told(getpid(), 5 * MIB);
	struct region_settings settings = tell_all(&tell);
	struct stat found;

	ck_assert_int_eq(stat(path, &found), 0);
	ck_assert_int_eq(found.st_mode & 0777, 0666);
	ck_assert_int_eq(found.st_size, REGION_SIZE + 1);
	ck_assert_uint_eq(word_at(REGION_AT_initialized, 4), REGION_MAGIC);
	ck_assert_uint_eq(word_at(REGION_AT_major_version, 4), 1);
	ck_assert_uint_eq(word_at(REGION_AT_minor_version, 4), 2);
	ck_assert_uint_eq(word_at(REGION_AT_lock, 4), 1); /* a semaphore that is free */
	ck_assert_int_eq(process_count(), 1);
	ck_assert_uint_eq(word_at(slot(0, SLOT_AT_pid), 4), (unsigned)getpid());
	ck_assert_uint_eq(word_at(slot(0, SLOT_AT_status), 4), 1);
	ck_assert_uint_eq(total_of(0), 5 * MIB);
	ck_assert_int_eq(settings.count, 1);
	ck_assert_str_eq(settings.device[0].uuid, UUID);
	ck_assert_uint_eq(settings.device[0].limit, 64 * MIB);
	ck_assert_uint_eq(settings.device[0].percent, 30);
	ck_assert(!settings.is_blocked && settings.is_switched);
}
END_TEST

START_TEST(the_dead_go_and_the_living_stay)
{
	pid_t first = make_process(), second = make_process();
	struct region_tell tell = told(first, 1 * MIB);

	tell_all(&tell);
	tell = told(second, 2 * MIB);
	tell_all(&tell);
	set_word(slot(1, SLOT_AT_host_pid), 4711, 4); /* what the monitor wrote */
	tell = told(getpid(), 3 * MIB);
	tell_all(&tell);
	ck_assert_int_eq(process_count(), 3);
	end_process(first);
	tell_all(&tell);
	ck_assert_int_eq(process_count(), 2);
	for (int i = 0; i < 2; i++) {
		bool is_ours = word_at(slot(i, SLOT_AT_pid), 4) == (unsigned)getpid();

		ck_assert_uint_eq(total_of(i), is_ours ? 3 * MIB : 2 * MIB);
		ck_assert_uint_eq(word_at(slot(i, SLOT_AT_host_pid), 4), is_ours ? 0 : 4711);
	}
	region_leave(path, getpid());
	ck_assert_int_eq(process_count(), 1);
	ck_assert_uint_eq(word_at(slot(0, SLOT_AT_pid), 4), (unsigned)second);
	ck_assert_uint_eq(total_of(1), 0);
	end_process(second);
}
END_TEST

static pid_t holder; /* of the region's lock; 0: it has let go */

static void end_holder(void)
{
	if (holder)
		end_process(holder);
	holder = 0;
}

/* Another process has the region's lock when this one leaves, until this one has waited. */
START_TEST(who_leaves_waits_for_others)
{
	struct region_tell tell = told(getpid(), 8 * MIB);
	int locked[2];
	char is_locked;

	tell_all(&tell);
	ck_assert_int_eq(pipe(locked), 0);
	holder = fork();
	if (holder == 0) {
		struct flock range = {
		    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = REGION_SIZE};
		int fd = open(path, O_RDWR | O_CLOEXEC);

		is_locked = fcntl(fd, F_OFD_SETLK, &range) == 0;
		if (write(locked[1], &is_locked, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(locked[0], &is_locked, 1), 1);
	ck_assert(is_locked);
	jumping_start();
	jumping.at_nap = end_holder;
	region_leave(path, getpid());
	ck_assert_int_eq(holder, 0);
	ck_assert_uint_eq(word_at(REGION_AT_process_count, 4), 0);
	close(locked[0]);
	close(locked[1]);
}
END_TEST

START_TEST(monitor_are_read_and_limits_never_written_again)
{
	struct region_tell tell = told(getpid(), 0);
	struct region_settings settings;

	tell_all(&tell);
	set_word(REGION_AT_limit, 32 * MIB, 8);
	set_word(REGION_AT_sm_limit, 100, 8);
	set_word(REGION_AT_recent_kernel, (uint32_t)-1, 4);
	set_word(REGION_AT_utilization_switch, 0, 4);
	tell.has_launched = true;
	settings = tell_all(&tell);
	ck_assert_uint_eq(settings.device[0].limit, 32 * MIB);
	ck_assert_uint_eq(settings.device[0].percent, 0);
	ck_assert(settings.is_blocked && !settings.is_switched);
	ck_assert_int_eq(region_read(path, &settings), 0);
	ck_assert_uint_eq(settings.device[0].limit, 32 * MIB);
	set_word(REGION_AT_recent_kernel, 0, 4);
	settings = tell_all(&tell);
	ck_assert(!settings.is_blocked);
	ck_assert_uint_eq(word_at(REGION_AT_recent_kernel, 4), 2);
}
END_TEST

START_TEST(devices_are_known_by_uuid)
{
	struct region_tell tell = told(getpid(), 1 * MIB);
	struct region_settings settings;

	tell_all(&tell);
	strcpy(tell.device[0].uuid, OTHER);
	tell.device[0].limit = 16 * MIB;
	tell.device[1] = told(0, 7 * MIB).device[0];
	tell.count = 2;
	settings = tell_all(&tell);
	ck_assert_int_eq(settings.count, 2);
	ck_assert_str_eq(settings.device[0].uuid, UUID);
	ck_assert_str_eq(settings.device[1].uuid, OTHER);
	ck_assert_uint_eq(settings.device[1].limit, 16 * MIB);
	ck_assert_uint_eq(total_of(0), 7 * MIB);
}
END_TEST

static void expect_refused(int error, const char *part)
{
	struct region_tell tell = told(getpid(), MIB);
	struct region_settings settings;
	char why[512];

	ck_assert_int_eq(region_tell(path, &tell, &settings, why, sizeof(why)), error);
	ck_assert_msg(strstr(why, part), "%s", why);
}

START_TEST(what_is_no_region_is_left_as_it_is)
{
	struct region_tell tell = told(getpid(), MIB);
	struct region_settings settings;

	tell_all(&tell);
	set_word(REGION_AT_minor_version, 9, 4);
	expect_refused(-EPROTO, "version 1.9, expected 1.1 or 1.2");
	ck_assert_int_eq(region_read(path, &settings), -EPROTO);
	set_word(REGION_AT_minor_version, 1, 4);
	tell_all(&tell);
	set_word(REGION_AT_process_count, 5000, 4);
	expect_refused(-EPROTO, path);
	unlink(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	expect_refused(-EPROTO, "not HAMi's shared region");
	unlink(path);
	ck_assert_int_eq(symlink("/dev/null", path), 0);
	expect_refused(-ELOOP, path);
	unlink(path);
	ck_assert_int_eq(region_read(path, &settings), -ENOENT);
}
END_TEST

/* The path is the environment's, which may name any file of its user's. */
START_TEST(what_somebody_has_written_is_no_region)
{
	static const char *const texts[] = {"weights", "x"};
	struct region_tell tell = told(getpid(), MIB);

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char read_back[16] = "";
		int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		ck_assert_int_eq(write(fd, texts[i], strlen(texts[i])), (ssize_t)strlen(texts[i]));
		expect_refused(-EPROTO, "not HAMi's shared region");
		ck_assert_int_eq(pread(fd, read_back, sizeof(read_back), 0),
		                 (ssize_t)strlen(texts[i]));
		ck_assert_str_eq(read_back, texts[i]);
		close(fd);
	}
	/* What HAMi-core has begun is no text of anybody's. */
	ck_assert_int_eq(truncate(path, 0), 0);
	ck_assert_int_eq(truncate(path, REGION_SIZE + 1), 0);
	tell_all(&tell);
	ck_assert_uint_eq(total_of(0), MIB);
	ck_assert_int_eq(truncate(path, 0), 0);
	tell_all(&tell);
	ck_assert_uint_eq(total_of(0), MIB);
}
END_TEST

/* Live processes have all places: the process is not seen, is told so, and reads its settings. */
START_TEST(one_that_is_full_is_said_and_read)
{
	struct region_tell tell = told(getpid(), MIB);
	struct region_settings settings;

	tell_all(&tell);
	for (int i = 0; i < REGION_PROCESSES; i++)
		set_word(REGION_AT_process + i * REGION_SLOT + SLOT_AT_pid, 1, 4);
	set_word(REGION_AT_process_count, REGION_PROCESSES, 4);
	set_word(REGION_AT_limit, 9 * MIB, 8);
	expect_refused(-EUSERS, "has 1024 processes already");
	ck_assert_int_eq(region_read(path, &settings), 0);
	ck_assert_uint_eq(settings.device[0].limit, 9 * MIB);
	/* One more byte, a hole of a terabyte, a count of devices that is none. */
	ck_assert_int_eq(truncate(path, (off_t)1 << 40), 0);
	set_word(REGION_AT_device_count, -1, 8);
	ck_assert_int_eq(region_read(path, &settings), 0);
	ck_assert_int_eq(settings.count, REGION_DEVICES);
	ck_assert_uint_eq(settings.device[0].limit, 9 * MIB);
}
END_TEST

START_TEST(one_that_was_cut_short_is_made_anew)
{
	struct region_tell tell = told(getpid(), 5 * MIB);
	struct region_settings settings;

	tell_all(&tell);
	ck_assert_int_eq(truncate(path, 3000), 0);
	ck_assert_int_eq(region_read(path, &settings), -ENOENT);
	settings = tell_all(&tell);
	ck_assert_uint_eq(settings.device[0].limit, 64 * MIB);
	ck_assert_uint_eq(total_of(0), 5 * MIB);
}
END_TEST

START_TEST(who_finds_it_locked_comes_again)
{
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = REGION_SIZE};
	struct region_tell tell = told(getpid(), MIB);
	struct region_settings settings;
	char why[512];
	int fd;

	tell_all(&tell);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_SETLK, &range), 0); /* as HAMi-core's lockf() */
	tell = told(getpid(), 9 * MIB);
	ck_assert_int_eq(region_tell(path, &tell, &settings, why, sizeof(why)), -EAGAIN);
	ck_assert_uint_eq(total_of(0), MIB);
	close(fd);
	tell_all(&tell);
	ck_assert_uint_eq(total_of(0), 9 * MIB);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("region");
	TCase *tests = tcase_create("region");

	tcase_add_checked_fixture(tests, setup, scratch_remove);
	tcase_add_test(tests, who_leaves_waits_for_others);
	tcase_add_test(tests, one_who_tells_makes_it);
	tcase_add_test(tests, the_dead_go_and_the_living_stay);
	tcase_add_test(tests, monitor_are_read_and_limits_never_written_again);
	tcase_add_test(tests, devices_are_known_by_uuid);
	tcase_add_test(tests, what_is_no_region_is_left_as_it_is);
	tcase_add_test(tests, what_somebody_has_written_is_no_region);
	tcase_add_test(tests, one_that_is_full_is_said_and_read);
	tcase_add_test(tests, one_that_was_cut_short_is_made_anew);
	tcase_add_test(tests, who_finds_it_locked_comes_again);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
