/* SPDX-License-Identifier: MIT */
/* The state directory: names, making, refusing. */
#include "tests/unit/state_directory.h"

#include <errno.h>

#include "core/state/directory.h"
#include "core/state/segment.h"

static char inner[600];

static void setup(void)
{
	state_directory_make();
	snprintf(inner, sizeof inner, "%s/state", state_directory);
	setenv("SPILLWAY_STATE_DIR", inner, 1);
}

static void teardown(void)
{
	unlink(inner);
	rmdir(inner);
	state_directory_remove(); /* what is deeper goes with TMPDIR */
}

static void expect_refused(int error, const char *part)
{
	char message[1024] = "";
	ck_assert_int_eq(directory_open(1, message, sizeof message), error);
	ck_assert_msg(strstr(message, part) != NULL, "%s", message);
	ck_assert_int_eq(directory_open(1, NULL, 0), error);
}

START_TEST(has_a_name)
{
	char path[512], expected[700];
	unsetenv("SPILLWAY_STATE_DIR");
	directory_root = inner;
	snprintf(expected, sizeof expected, "%s/dev/shm/spillway-%u", inner, (unsigned)geteuid());
	ck_assert_str_eq(directory_path(path, sizeof path), expected);
	setenv("SPILLWAY_STATE_DIR", "", 1);
	ck_assert_str_eq(directory_path(path, sizeof path), expected);
	setenv("SPILLWAY_STATE_DIR", "/x", 1);
	ck_assert_int_eq(directory_segment_path("a.b-C_9", path, sizeof path), 0);
	ck_assert_str_eq(path, "/x/a.b-C_9.segment");
	ck_assert_int_eq(directory_override_path("a", path, sizeof path), 0);
	ck_assert_str_eq(path, "/x/a.override.ini");
	ck_assert_int_eq(directory_override_path("a", path, 10), -ENAMETOOLONG);
	ck_assert_int_eq(directory_segment_path("../a", path, sizeof path), -EINVAL);
}
END_TEST

/* As a process of a job does, whose environment is the program's to change. */
START_TEST(stays_when_it_is_kept)
{
	char path[512];

	directory_keep();
	setenv("SPILLWAY_STATE_DIR", "/elsewhere", 1);
	directory_keep();
	ck_assert_str_eq(directory_path(path, sizeof path), inner);
	unsetenv("SPILLWAY_STATE_DIR");
	ck_assert_str_eq(directory_path(path, sizeof path), inner);
}
END_TEST

START_TEST(checks_names)
{
	char longest[65];
	memset(longest, 'a', sizeof longest);
	longest[64] = '\0';
	ck_assert_int_eq(directory_check_name(longest), -EINVAL);
	longest[63] = '\0';
	ck_assert_int_eq(directory_check_name(longest), 0);
	ck_assert_int_eq(directory_check_name("a"), 0);
	static const char *const bad[] = {"",    ".",   "..",       ".a", "a/b",
	                                  "a b", "a\n", "\xc3\xa4", NULL};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ck_assert_int_eq(directory_check_name(bad[i]), -EINVAL);
}
END_TEST

START_TEST(is_made_private)
{
	struct stat found;
	char message[1024] = "";
	ck_assert_int_eq(directory_open(0, message, sizeof message), -ENOENT);
	ck_assert_ptr_nonnull(strstr(message, inner));
	ck_assert_int_eq(access(inner, F_OK), -1);
	umask(0777); /* must not matter */
	int fd = directory_open(1, message, sizeof message);
	umask(022);
	ck_assert_msg(fd >= 0, "%s", message);
	ck_assert_int_eq(fstat(fd, &found), 0);
	ck_assert_uint_eq(found.st_mode & 07777, 0700);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	fd = directory_open(1, NULL, 0); /* again */
	ck_assert_int_ge(fd, 0);
	close(fd);
}
END_TEST

START_TEST(refuses_what_others_may_write)
{
	ck_assert_int_eq(mkdir(inner, 0700), 0);
	chmod(inner, 0770);
	expect_refused(-EPERM, "expected 0700");
	chmod(inner, 01777);
	expect_refused(-EPERM, inner);
	chmod(inner, 0755); /* reading is no harm */
	close(directory_open(1, NULL, 0));
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(inner, 12345, 0), 0);
		expect_refused(-EPERM, "12345");
	}
}
END_TEST

START_TEST(refuses_links_and_files)
{
	ck_assert_int_eq(symlink("/tmp", inner), 0);
	expect_refused(-ENOTDIR, "not a link");
	unlink(inner);
	close(open(inner, O_CREAT | O_WRONLY, 0600));
	expect_refused(-ENOTDIR, inner);
	setenv("SPILLWAY_STATE_DIR", "relative/path", 1);
	expect_refused(-EINVAL, "absolute");
	setenv("SPILLWAY_STATE_DIR", "/nonexistent/path", 1);
	expect_refused(-ENOENT, "/nonexistent/path");
}
END_TEST

/* --- the places of the default, below a folder of the test's --- */

static char places[3][720];

static void under_a_root(void)
{
	static const char *const folders[] = {"dev", "dev/shm", "run", "run/user", "tmp"};
	char path[700];

	unsetenv("SPILLWAY_STATE_DIR");
	ck_assert_int_eq(mkdir(inner, 0700), 0);
	directory_root = inner;
	for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
		snprintf(path, sizeof path, "%s/%s", inner, folders[i]);
		ck_assert_int_eq(mkdir(path, 0700), 0);
	}
	snprintf(path, sizeof path, "%s/run/user/%u", inner, (unsigned)geteuid());
	ck_assert_int_eq(mkdir(path, 0700), 0);
	snprintf(places[0], sizeof places[0], "%s/dev/shm/spillway-%u", inner, (unsigned)geteuid());
	snprintf(places[1], sizeof places[1], "%s/spillway", path);
	snprintf(places[2], sizeof places[2], "%s/tmp/spillway-%u", inner, (unsigned)geteuid());
}

/* Opened and named alike, by who makes it and who only looks. */
static void expect_place(int place)
{
	char path[700], message[1024] = "";
	struct stat opened, named;
	int fd = directory_open(1, message, sizeof message);

	ck_assert_msg(fd >= 0, "%s", message);
	ck_assert_str_eq(directory_path(path, sizeof path), places[place]);
	ck_assert_int_eq(fstat(fd, &opened), 0);
	ck_assert_int_eq(lstat(places[place], &named), 0);
	ck_assert_uint_eq(opened.st_ino, named.st_ino);
	close(fd);
	fd = directory_open(0, NULL, 0);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_int_eq(directory_passed_over(message, sizeof message), place != 0);
	if (place) {
		ck_assert_msg(strstr(message, places[0]) && strstr(message, "expected"), "%s",
		              message);
		ck_assert_msg(strstr(message, places[place]) != NULL, "%s", message);
	}
}

START_TEST(what_another_user_has_is_passed_over)
{
	under_a_root();
	expect_place(0);
	ck_assert_int_eq(rmdir(places[0]), 0);

	ck_assert_int_eq(symlink("/tmp", places[0]), 0);
	expect_place(1);
	ck_assert_int_eq(rmdir(places[1]), 0);
	close(open(places[1], O_CREAT | O_WRONLY, 0600));
	expect_place(2);

	/* What is in use stays so, though a place before it is free again, and whoever is asked. */
	unlink(places[0]);
	unlink(places[1]);
	char path[700];
	int fd = directory_open(1, NULL, 0);
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_str_eq(directory_path(path, sizeof path), places[2]);
	ck_assert_int_eq(access(places[0], F_OK), -1);
	ck_assert(!directory_passed_over(path, sizeof path)); /* nobody's fault any more */
	ck_assert_int_eq(rmdir(places[2]), 0);
	expect_place(0);
	rmdir(places[0]);

	/* One that others may write to, or, where we can make it so, another user's. */
	ck_assert_int_eq(mkdir(places[0], 0700), 0);
	ck_assert_int_eq(chmod(places[0], 0777), 0);
	expect_place(1);
	if (geteuid() == 0) {
		ck_assert_int_eq(chmod(places[0], 0700), 0);
		ck_assert_int_eq(chown(places[0], 12345, 0), 0);
		expect_place(1);
		ck_assert_int_eq(chown(places[0], 0, 0), 0);
	} else {
		ck_assert_int_eq(chmod(places[0], 0700), 0);
	}
	expect_place(0);
}
END_TEST

START_TEST(where_none_can_be_the_first_says_why)
{
	char path[700], message[1024] = "";

	under_a_root();
	for (int i = 0; i < 3; i++)
		close(open(places[i], O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(directory_open(1, message, sizeof message), -ENOTDIR);
	ck_assert_msg(strstr(message, places[0]) != NULL, "%s", message);
	ck_assert_int_eq(directory_open(0, NULL, 0), -ENOTDIR);
	ck_assert_str_eq(directory_path(path, sizeof path), places[0]);
	ck_assert(!directory_passed_over(message, sizeof message));

	/* Before anything is made it is the first that could be. */
	unlink(places[0]);
	ck_assert_int_eq(directory_open(0, message, sizeof message), -ENOENT);
	ck_assert_str_eq(directory_path(path, sizeof path), places[0]);
	/* A parent that is missing is nobody's fault. */
	snprintf(path, sizeof path, "%s/dev/shm", inner);
	ck_assert_int_eq(rmdir(path), 0);
	unlink(places[1]);
	int fd = directory_open(1, message, sizeof message);
	ck_assert_msg(fd >= 0, "%s", message);
	close(fd);
	ck_assert_str_eq(directory_path(path, sizeof path), places[1]);
	ck_assert(!directory_passed_over(message, sizeof message));
	directory_keep();
	rmdir(places[1]);
	ck_assert_str_eq(directory_path(path, sizeof path), places[1]);
}
END_TEST

static int collect(void *all, const char *job)
{
	strcat(all, job);
	strcat(all, " ");
	return 0;
}

static int stop(void *all, const char *job)
{
	collect(all, job);
	return 1;
}

START_TEST(lists_jobs)
{
	char all[256] = "";
	static const char *const names[] = {"a.segment", ".b.segment",  "c.override.ini",
	                                    ".segment",  "d d.segment", "segment"};
	ck_assert_int_eq(segment_list(collect, all), 0);
	close(directory_open(1, NULL, 0));
	int fd = open(inner, O_RDONLY | O_DIRECTORY);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		close(openat(fd, names[i], O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(segment_list(collect, all), 1);
	ck_assert_str_eq(all, "a ");
	close(openat(fd, "b.segment", O_CREAT | O_WRONLY, 0600));
	ck_assert_int_eq(segment_list(collect, all), 2);
	ck_assert_int_eq(segment_list(stop, all), 1);
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		unlinkat(fd, names[i], 0);
	unlinkat(fd, "b.segment", 0);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("directory");
	TCase *tests = tcase_create("directory");
	tcase_add_checked_fixture(tests, setup, teardown);
	tcase_add_test(tests, has_a_name);
	tcase_add_test(tests, stays_when_it_is_kept);
	tcase_add_test(tests, checks_names);
	tcase_add_test(tests, is_made_private);
	tcase_add_test(tests, refuses_what_others_may_write);
	tcase_add_test(tests, refuses_links_and_files);
	tcase_add_test(tests, what_another_user_has_is_passed_over);
	tcase_add_test(tests, where_none_can_be_the_first_says_why);
	tcase_add_test(tests, lists_jobs);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
