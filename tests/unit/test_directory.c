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
	state_directory_remove();
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
	char path[512], expected[64];
	unsetenv("SPILLWAY_STATE_DIR");
	snprintf(expected, sizeof expected, "/dev/shm/spillway-%u", (unsigned)geteuid());
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
	tcase_add_test(tests, lists_jobs);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
