/* The log: one write per line, whatever state the user's process is in. */
#include "core/base/log.h"

#include "tests/unit/scratch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* stderr as a pipe in packet mode: one read() is one write(). */
static int packets;

static void catch_stderr(void)
{
	int ends[2];

	scratch_make();
	ck_assert_int_eq(pipe2(ends, O_DIRECT | O_CLOEXEC | O_NONBLOCK), 0);
	ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
	close(ends[1]);
	packets = ends[0];
	log_configure(NULL);
}

/* The next line written to stderr, "" when there is none. */
static const char *said(void)
{
	static char line[4096];
	ssize_t length = read(packets, line, sizeof(line) - 1);

	line[length > 0 ? length : 0] = '\0';
	return line;
}

START_TEST(levels)
{
	log_error("a %d", 1);
	ck_assert_str_eq(said(), "spillway: error: a 1\n");
	log_warning("b");
	ck_assert_str_eq(said(), "spillway: warning: b\n");
	log_info("c");
	log_debug("d");
	ck_assert_str_eq(said(), "");

	log_configure("DEBUG");
	log_debug("e");
	ck_assert_str_eq(said(), "spillway: debug: e\n");
	ck_assert(log_enabled(LOG_INFO));

	log_configure("off");
	log_error("f");
	ck_assert(!log_enabled(LOG_ERROR));
	ck_assert_str_eq(said(), "");

	log_configure("");
	ck_assert(log_enabled(LOG_WARNING) && !log_enabled(LOG_INFO));
}
END_TEST

START_TEST(bad_spec_is_said_once)
{
	log_configure("loud");
	ck_assert_str_eq(said(),
	                 "spillway: error: SPILLWAY_LOG = loud: expected off, error, warning, info "
	                 "or debug, and optionally :FILE; using warning\n");
	log_configure("info:");
	ck_assert_str_eq(said(), "");
	ck_assert(log_enabled(LOG_WARNING) && !log_enabled(LOG_INFO));
}
END_TEST

START_TEST(errno_is_kept)
{
	errno = ENOENT;
	log_error("%m");
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_str_eq(said(), "spillway: error: No such file or directory\n");
	log_configure("loud");
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_ge(dup2(open("/dev/full", O_WRONLY), STDERR_FILENO), 0);
	log_error("x");
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(long_lines_are_cut)
{
	char text[3000];
	const char *line;

	for (size_t length = 0; length < sizeof(text);
	     length += length < 900 || length > 1100 ? 97 : 1) {
		memset(text, 'x', length);
		text[length] = '\0';
		log_error("%s", text);
		line = said();
		ck_assert_uint_le(strlen(line), LOG_LINE_MAX);
		ck_assert_int_eq(line[strlen(line) - 1], '\n');
		if (strlen("spillway: error: ") + length + 1 <= LOG_LINE_MAX)
			ck_assert_uint_eq(strlen(line), strlen("spillway: error: ") + length + 1);
		else
			ck_assert_str_eq(line + LOG_LINE_MAX - 5, "x...\n");
		ck_assert_str_eq(said(), "");
	}
}
END_TEST

START_TEST(control_characters_do_not_pass)
{
	log_error("a\nspillway: error: forged\x1b[2J\x7f");
	ck_assert_str_eq(said(), "spillway: error: a?spillway: error: forged?[2J?\n");
}
END_TEST

START_TEST(once)
{
	for (int i = 0; i < 3; i++)
		log_once(LOG_ERROR, "here");
	ck_assert_str_eq(said(), "spillway: error: here\n");
	ck_assert_str_eq(said(), "");
}
END_TEST

START_TEST(reader_of_stderr_is_gone)
{
	sigset_t pending;

	close(packets);
	log_error("nobody hears this");
	sigpending(&pending);
	ck_assert_int_eq(sigismember(&pending, SIGPIPE), 0);
}
END_TEST

static void configure_file(const char *level, const char *path)
{
	char spec[PATH_MAX + 16];

	snprintf(spec, sizeof(spec), "%s:%s", level, path);
	log_configure(spec);
}

/* The descriptor that leads to a file, or -1. */
static int descriptor_of(const char *path)
{
	struct stat wanted, found;

	for (int fd = 3; fd < 64; fd++)
		if (stat(path, &wanted) == 0 && fstat(fd, &found) == 0 &&
		    wanted.st_ino == found.st_ino && wanted.st_dev == found.st_dev)
			return fd;
	return -1;
}

START_TEST(file)
{
	const char *path = scratch_write("log", "before\n");
	char *text;
	int fd;

	configure_file("info", path);
	ck_assert_int_eq(descriptor_of(path), -1); /* opened on first use */
	log_info("one");
	log_info("two");
	text = scratch_read(path);
	ck_assert_str_eq(text, "before\nspillway: info: one\nspillway: info: two\n");
	free(text);
	ck_assert_str_eq(said(), "");
	fd = descriptor_of(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);

	log_configure(NULL);
	ck_assert_int_eq(descriptor_of(path), -1);
}
END_TEST

START_TEST(file_is_not_stdin)
{
	const char *path = scratch_path("log");

	configure_file("info", path);
	close(STDIN_FILENO);
	log_info("one");
	ck_assert_int_eq(fcntl(STDIN_FILENO, F_GETFD), -1);
	ck_assert_int_ge(descriptor_of(path), 3);
	ck_assert_int_eq(open("/dev/null", O_RDONLY), STDIN_FILENO);
}

START_TEST(file_at_its_size_limit)
{
	const char *path = scratch_write("log", "before");
	struct rlimit before, small;
	sigset_t pending;

	configure_file("info", path);
	getrlimit(RLIMIT_FSIZE, &before);
	small = (struct rlimit){6, before.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	log_info("one");
	setrlimit(RLIMIT_FSIZE, &before);
	sigpending(&pending);
	ck_assert_int_eq(sigismember(&pending, SIGXFSZ), 0);
}
END_TEST

START_TEST(file_that_cannot_be_opened)
{
	log_configure("info:/nonexistent/log");
	errno = EPERM;
	log_info("one");
	ck_assert_int_eq(errno, EPERM);
	ck_assert_str_eq(said(), "spillway: error: SPILLWAY_LOG: cannot open /nonexistent/log: No "
	                         "such file or directory; using stderr\n");
	ck_assert_str_eq(said(), "spillway: info: one\n");
	log_info("two");
	ck_assert_str_eq(said(), "spillway: info: two\n");
}
END_TEST

/* A program that closes descriptors it does not know must not find log lines in its own file. */
START_TEST(descriptor_is_taken_over)
{
	const char *path = scratch_path("log");
	const char *theirs = scratch_write("theirs", "");
	char *text;
	int fd, other;

	configure_file("info", path);
	log_info("one");
	fd = descriptor_of(path);
	other = open(theirs, O_RDWR);
	ck_assert_int_eq(dup2(other, fd), fd);
	log_info("two");

	text = scratch_read(theirs);
	ck_assert_str_eq(text, "");
	free(text);
	text = scratch_read(path);
	ck_assert_str_eq(text, "spillway: info: one\nspillway: info: two\n");
	free(text);

	fd = descriptor_of(path);
	ck_assert_int_eq(dup2(other, fd), fd);
	log_configure(NULL);
	ck_assert_int_ge(fcntl(fd, F_GETFD), 0); /* theirs stays open */
}
END_TEST

enum { THREADS = 8, LINES = 200 };

static void *say_lines(void *name)
{
	for (int i = 0; i < LINES; i++)
		log_info("%s %s %s %s", (char *)name, (char *)name, (char *)name, (char *)name);
	return NULL;
}

START_TEST(threads)
{
	static char names[THREADS][2] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	const char *path = scratch_path("log");
	pthread_t thread[THREADS];
	char *text, *line, *rest;
	int lines = 0;

	configure_file("info", path);
	for (int i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, say_lines, names[i]), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	text = scratch_read(path);
	for (line = strtok_r(text, "\n", &rest); line;
	     line = strtok_r(NULL, "\n", &rest), lines++) {
		char expected[64];
		char c = line[strlen(line) - 1];

		snprintf(expected, sizeof(expected), "spillway: info: %c %c %c %c", c, c, c, c);
		ck_assert_str_eq(line, expected);
	}
	ck_assert_int_eq(lines, THREADS * LINES);
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("log");
	TCase *tests = tcase_create("log");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, catch_stderr, scratch_remove);
	tcase_add_test(tests, levels);
	tcase_add_test(tests, bad_spec_is_said_once);
	tcase_add_test(tests, errno_is_kept);
	tcase_add_test(tests, long_lines_are_cut);
	tcase_add_test(tests, control_characters_do_not_pass);
	tcase_add_test(tests, once);
	tcase_add_test(tests, reader_of_stderr_is_gone);
	tcase_add_test(tests, file);
	tcase_add_test(tests, file_is_not_stdin);
	tcase_add_test(tests, file_at_its_size_limit);
	tcase_add_test(tests, file_that_cannot_be_opened);
	tcase_add_test(tests, descriptor_is_taken_over);
	tcase_add_test(tests, threads);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
