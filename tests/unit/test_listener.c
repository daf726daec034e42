/* SPDX-License-Identifier: MIT */
/* The listener: which changes of a file are told, and when. */
#include "core/config/listener.h"

#include "tests/unit/scratch.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct listener the_listener, *const listener = &the_listener;
static int calls;
static char last_path[PATH_MAX];

static void make_listener(void)
{
	scratch_make();
	listener->count = 0;
}

static void destroy_listener(void)
{
	scratch_remove();
}

static void count(void *cookie, const char *path)
{
	*(int *)cookie += 1;
	snprintf(last_path, sizeof(last_path), "%s", path);
}

/* The second of two looks that find the same tells it. */
#define ck_assert_told()                                       \
	do {                                                   \
		calls = 0;                                     \
		ck_assert_int_eq(listener_check(listener), 0); \
		ck_assert(listener_is_unsettled(listener));    \
		ck_assert_int_eq(listener_check(listener), 1); \
		ck_assert_int_eq(calls, 1);                    \
		ck_assert(!listener_is_unsettled(listener));   \
		ck_assert_int_eq(listener_check(listener), 0); \
	} while (0)

START_TEST(writing)
{
	const char *path = scratch_write("a.ini", "one");

	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	ck_assert_int_eq(listener_check(listener), 0);
	scratch_write("a.ini", "three");
	ck_assert_told();
	ck_assert_str_eq(last_path, path);
	scratch_write("a.ini", "seven"); /* the size stays */
	ck_assert_told();
	unlink(path);
	ck_assert_told();
	scratch_write("a.ini", "");
	ck_assert_told();

	scratch_write("b.ini", "");
	ck_assert_int_eq(listener_check(listener), 0);
}
END_TEST

START_TEST(half_written)
{
	const char *path = scratch_write("a.ini", "memory = 10GiB");
	int fd;

	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ck_assert_int_eq(listener_check(listener), 0);
	ck_assert_int_eq(write(fd, "memory = 1", 10), 10);
	ck_assert_int_eq(listener_check(listener), 0);
	ck_assert_int_eq(write(fd, "2GiB", 4), 4);
	close(fd);
	ck_assert_told();
}
END_TEST

/* An editor's way, with the old time and size. */
START_TEST(renaming)
{
	const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	const char *path = scratch_write("a.ini", "one");
	const char *next;

	utimensat(AT_FDCWD, path, times, 0);
	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	next = scratch_write("a.ini.new", "two");
	utimensat(AT_FDCWD, next, times, 0);
	ck_assert_int_eq(rename(next, path), 0);
	ck_assert_told();
}
END_TEST

/* Same file, size and time: only what it says differs. */
START_TEST(content_alone)
{
	const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	const char *path = scratch_write("a.ini", "one");

	utimensat(AT_FDCWD, path, times, 0);
	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	scratch_write("a.ini", "two");
	utimensat(AT_FDCWD, path, times, 0);
	ck_assert_told();
}
END_TEST

/* Kubernetes: file -> ..data/file, ..data -> ..1, and ..data is swapped. */
START_TEST(swapped_symlink)
{
	const char *path = scratch_path("a.ini");
	const char *data = scratch_path("..data");
	const char *next = scratch_path("..data_tmp");

	mkdir(scratch_path("..1"), 0700);
	mkdir(scratch_path("..2"), 0700);
	scratch_write("..1/a.ini", "one");
	scratch_write("..2/a.ini", "two");
	ck_assert_int_eq(symlink("..1", data), 0);
	ck_assert_int_eq(symlink("..data/a.ini", path), 0);
	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	ck_assert_int_eq(symlink("..2", next), 0);
	ck_assert_int_eq(rename(next, data), 0);
	ck_assert_told();
}
END_TEST

START_TEST(folder_comes_later)
{
	ck_assert_int_eq(listener_add(listener, scratch_path("x/y/a.ini"), count, &calls), 0);
	mkdir(scratch_path("x"), 0700);
	ck_assert_int_eq(listener_check(listener), 0);
	mkdir(scratch_path("x/y"), 0700);
	ck_assert_int_eq(listener_check(listener), 0);
	scratch_write("x/y/a.ini", "one");
	ck_assert_told();

	/* and goes, and comes again */
	unlink(scratch_path("x/y/a.ini"));
	rmdir(scratch_path("x/y"));
	ck_assert_told();
	mkdir(scratch_path("x/y"), 0700);
	listener_check(listener);
	scratch_write("x/y/a.ini", "two");
	ck_assert_told();
	/* what is above is no longer of interest */
	scratch_write("other", "");
	ck_assert_int_eq(listener_check(listener), 0);
}
END_TEST

START_TEST(several_handlers)
{
	const char *path = scratch_write("a.ini", "one");
	int first = 0, second = 0;

	ck_assert_int_eq(listener_add(listener, path, count, &first), 0);
	ck_assert_int_eq(listener_add(listener, path, count, &second), 0);
	scratch_write("a.ini", "two");
	ck_assert_int_eq(listener_check(listener), 0);
	ck_assert_int_eq(listener_check(listener), 2);
	ck_assert(first == 1 && second == 1);
}
END_TEST

START_TEST(long_paths)
{
	char path[PATH_MAX + 1];

	memset(path, 'x', PATH_MAX);
	path[PATH_MAX] = '\0';
	ck_assert_int_eq(listener_add(listener, path, count, &calls), -ENAMETOOLONG);
	path[PATH_MAX - 1] = '\0';
	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	ck_assert_int_eq(listener_add(listener, "relative.ini", count, &calls), 0);
	ck_assert_int_eq(listener_add(listener, "", count, &calls), 0);
	ck_assert_int_eq(listener_add(listener, "/", count, &calls), 0);
	ck_assert_int_eq(listener_add(listener, "/one/too/many", count, &calls), -ENOSPC);
	ck_assert_int_eq(listener_check(listener), 0);
}
END_TEST

/* What `spillway set` writes says that it is whole, and is told at the first look. */
START_TEST(whole)
{
	const char *path = scratch_write("a.ini", "one");

	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	scratch_write("a.ini", "three\n" LISTENER_WHOLE);
	ck_assert_int_eq(listener_check(listener), 1);
	ck_assert_int_eq(listener_check(listener), 0);
	scratch_write("a.ini", LISTENER_WHOLE "and more");
	ck_assert_told();
}
END_TEST

/* A file that cannot be looked at for want of a descriptor has neither changed nor gone. */
START_TEST(no_descriptor_to_look_with)
{
	const char *path = scratch_write("a.ini", "one");
	struct rlimit before;

	getrlimit(RLIMIT_NOFILE, &before);
	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max});
	listener->files[0].unread = LISTENER_READ;
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(listener_check(listener), 0);
	setrlimit(RLIMIT_NOFILE, &before);
	ck_assert_int_eq(listener_check(listener), 0);
	scratch_write("a.ini", "three");
	ck_assert_told();
}
END_TEST

START_TEST(touching)
{
	const char *path = scratch_write("a.ini", "one");

	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	scratch_write("a.ini", "one");
	ck_assert_int_eq(listener_check(listener), 0);
	ck_assert_int_eq(listener_check(listener), 0);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("listener");
	TCase *tests = tcase_create("listener");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, make_listener, destroy_listener);
	tcase_add_test(tests, writing);
	tcase_add_test(tests, half_written);
	tcase_add_test(tests, renaming);
	tcase_add_test(tests, content_alone);
	tcase_add_test(tests, swapped_symlink);
	tcase_add_test(tests, folder_comes_later);
	tcase_add_test(tests, several_handlers);
	tcase_add_test(tests, long_paths);
	tcase_add_test(tests, no_descriptor_to_look_with);
	tcase_add_test(tests, touching);
	tcase_add_test(tests, whole);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
