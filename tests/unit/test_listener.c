/* The listener: which changes of a file are told, by inotify and by looking alone. */
#include "core/config/listener.h"

#include "tests/unit/scratch.h"

#include <errno.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>

static struct listener the_listener, *const listener = &the_listener;
static int calls;
static char last_path[PATH_MAX];

/*
 * A user has few instances of inotify (fs.inotify.max_user_instances), which the programs beside us
 * may hold for a while.
 */
static int get_instance(void)
{
	int instance;

	for (int i = 0; i < 600; i++) {
		instance = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
		if (instance >= 0 || errno != EMFILE)
			return instance;
		poll(NULL, 0, 50);
	}
	return instance;
}

/* Makes one that has an instance: another process may take what was free a moment ago. */
static void create_listener(void)
{
	for (int i = 0; i < 10; i++) {
		int instance = get_instance();

		if (instance < 0)
			break;
		close(instance);
		listener_start(listener);
		if (listener->fd >= 0)
			return;
		listener_abandon(listener);
	}
	ck_abort_msg("no instance of inotify can be had: %s", strerror(errno));
}

static void make_listener(void)
{
	scratch_make();
	create_listener();
}

static void destroy_listener(void)
{
	listener_abandon(listener);
	scratch_remove();
}

static void count(void *cookie, const char *path)
{
	*(int *)cookie += 1;
	snprintf(last_path, sizeof(last_path), "%s", path);
}

static bool readable(void)
{
	struct pollfd wait = {.fd = listener->fd, .events = POLLIN};

	return poll(&wait, 1, 60000) == 1;
}

/* Something happened that the descriptor tells of, and check() finds. */
#define ck_assert_told()                                       \
	do {                                                   \
		calls = 0;                                     \
		ck_assert(readable());                         \
		ck_assert_int_eq(listener_check(listener), 1); \
		ck_assert_int_eq(calls, 1);                    \
		ck_assert_int_eq(listener_check(listener), 0); \
	} while (0)

/* The same for what may not be complete yet: it takes a second look. */
#define ck_assert_told_late()                                  \
	do {                                                   \
		calls = 0;                                     \
		ck_assert(readable());                         \
		ck_assert_int_eq(listener_check(listener), 0); \
		ck_assert_int_eq(listener_check(listener), 1); \
		ck_assert_int_eq(calls, 1);                    \
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
	ck_assert_told_late();
	scratch_write("a.ini", "");
	ck_assert_told();

	scratch_write("b.ini", "");
	ck_assert(readable());
	ck_assert_int_eq(listener_check(listener), 0);
}
END_TEST

START_TEST(half_written)
{
	const char *path = scratch_write("a.ini", "memory_limit = 10GiB");
	int fd;

	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	scratch_write("b.ini", "another file tells that it is complete");
	ck_assert_int_eq(listener_check(listener), 0);
	ck_assert_int_eq(write(fd, "memory_limit = 1", 16), 16);
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
	ck_assert(readable());
	ck_assert_int_eq(listener_check(listener), 0);
	mkdir(scratch_path("x/y"), 0700);
	ck_assert(readable());
	ck_assert_int_eq(listener_check(listener), 0);
	scratch_write("x/y/a.ini", "one");
	ck_assert_told();

	/* and goes, and comes again */
	unlink(scratch_path("x/y/a.ini"));
	rmdir(scratch_path("x/y"));
	ck_assert_told_late();
	mkdir(scratch_path("x/y"), 0700);
	ck_assert(readable());
	listener_check(listener);
	scratch_write("x/y/a.ini", "two");
	ck_assert_told();
	/* what is above is no longer of interest */
	scratch_write("other", "");
	ck_assert_int_eq(poll(&(struct pollfd){.fd = listener->fd, .events = POLLIN}, 1, 50), 0);
}
END_TEST

START_TEST(several_handlers)
{
	const char *path = scratch_write("a.ini", "one");
	int first = 0, second = 0;

	ck_assert_int_eq(listener_add(listener, path, count, &first), 0);
	ck_assert_int_eq(listener_add(listener, path, count, &second), 0);
	scratch_write("a.ini", "two");
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

START_TEST(descriptor_is_closed_on_exec)
{
	ck_assert_int_ne(fcntl(listener->fd, F_GETFD) & FD_CLOEXEC, 0);
}
END_TEST

START_TEST(descriptor_is_not_stdin)
{
	listener_abandon(listener);
	close(STDIN_FILENO);
	create_listener();
	ck_assert_int_ge(listener->fd, 3);
	ck_assert_int_eq(open("/dev/null", O_RDONLY), STDIN_FILENO);
}
END_TEST

/* A program closes descriptors it does not know and gets the number for its own pipe. */
START_TEST(descriptor_is_taken_over)
{
	const char *path = scratch_write("a.ini", "one");
	int fd = listener->fd;
	int theirs[2];
	char data[8];

	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	ck_assert_int_eq(pipe(theirs), 0);
	ck_assert_int_eq(dup2(theirs[0], fd), fd);
	ck_assert_int_eq(write(theirs[1], "data", 4), 4);
	scratch_write("a.ini", "two");
	ck_assert_int_eq(listener_check(listener), 0);
	ck_assert_int_eq(listener_check(listener), 1);
	ck_assert_int_eq(listener->fd, -1);
	listener_abandon(listener);
	ck_assert_int_eq(read(fd, data, sizeof(data)), 4);
	close(fd);
	close(theirs[0]);
	close(theirs[1]);
}
END_TEST

/* The same with an inotify descriptor of its own: its events are its own, and its watches. */
START_TEST(descriptor_is_their_inotify)
{
	const char *path = scratch_write("a.ini", "one");
	int fd = listener->fd;
	int theirs = get_instance();
	struct f_owner_ex owner = {.type = F_OWNER_PID, .pid = getpid()};
	char event[512];

	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	ck_assert_int_eq(inotify_add_watch(theirs, scratch_path(""), IN_CREATE), 1);
	ck_assert_int_eq(fcntl(theirs, F_SETOWN_EX, &owner), 0);
	ck_assert_int_eq(dup2(theirs, fd), fd);
	ck_assert_int_eq(listener_add(listener, "/", count, &calls), 0);
	scratch_write("b.ini", "an event of theirs");
	scratch_write("a.ini", "two");
	ck_assert_int_eq(listener_check(listener), 0);
	ck_assert_int_eq(listener_check(listener), 1);
	ck_assert_int_eq(listener->fd, -1);
	listener_abandon(listener);
	ck_assert_int_gt(read(fd, event, sizeof(event)), 0);
	ck_assert_str_eq(((const struct inotify_event *)(const void *)event)->name, "b.ini");
	ck_assert_int_eq(inotify_rm_watch(theirs, 1), 0);
	ck_assert_int_ne(inotify_rm_watch(theirs, 2), 0);
	close(fd);
	close(theirs);
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
	ck_assert(readable());
	ck_assert_int_eq(listener_check(listener), 0);
	ck_assert_int_eq(listener_check(listener), 0);
}
END_TEST

START_TEST(without_inotify)
{
	struct rlimit before;
	const char *path = scratch_write("a.ini", "one");

	getrlimit(RLIMIT_NOFILE, &before);
	listener_abandon(listener);
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, before.rlim_max});
	listener_start(listener);
	setrlimit(RLIMIT_NOFILE, &before);
	ck_assert_int_eq(listener->fd, -1);

	ck_assert_int_eq(listener_add(listener, path, count, &calls), 0);
	calls = 0;
	scratch_write("a.ini", "three");
	ck_assert_int_eq(listener_check(listener), 0);
	ck_assert_int_eq(listener_check(listener), 1);
	ck_assert_int_eq(calls, 1);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("listener");
	TCase *tests = tcase_create("listener");
	int instance = get_instance();

	if (instance < 0) {
		printf("no instance of inotify can be had: %s\n", strerror(errno));
		return 77;
	}
	close(instance);
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
	tcase_add_test(tests, descriptor_is_closed_on_exec);
	tcase_add_test(tests, descriptor_is_not_stdin);
	tcase_add_test(tests, descriptor_is_taken_over);
	tcase_add_test(tests, descriptor_is_their_inotify);
	tcase_add_test(tests, no_descriptor_to_look_with);
	tcase_add_test(tests, touching);
	tcase_add_test(tests, without_inotify);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
