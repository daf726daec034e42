/* SPDX-License-Identifier: MIT */
/* The log: one write per line, in any state of the user's process. */
#include "core/base/descriptor.h"
#include "core/base/log.h"

#include "tests/unit/scratch.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>

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
	/* the control sequence introducer in one character of UTF-8, and in one byte */
	log_error("a\xc2\x9b 2J \x9b 2J \xc3\xa9");
	ck_assert_str_eq(said(), "spillway: error: a?? 2J ? 2J \xc3\xa9\n");
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

/* Fills what stderr leads to; its reader reads nothing. Returns the bytes. */
static size_t fill_stderr(void)
{
	int flags = fcntl(STDERR_FILENO, F_GETFL);
	char byte = 'x';
	size_t filled = 0;

	fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
	while (write(STDERR_FILENO, &byte, 1) == 1)
		filled++;
	ck_assert_int_eq(errno, EAGAIN);
	fcntl(STDERR_FILENO, F_SETFL, flags);
	return filled;
}

/* Returns what the reader finds after so many bytes. */
static const char *read_behind(int reader, size_t filled)
{
	static char text[4096];
	size_t length = 0;
	ssize_t got;

	fcntl(reader, F_SETFL, O_NONBLOCK);
	for (char byte; filled > 0; filled--)
		ck_assert_int_eq(read(reader, &byte, 1), 1);
	while ((got = read(reader, text + length, sizeof text - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	return text;
}

/*
 * Lines that are not taken are counted; the next that is taken says so. Nothing is changed of what
 * is the program's.
 */
static void judge_full(int reader, int writer)
{
	int flags;
	size_t filled;

	ck_assert_int_ge(dup2(writer, STDERR_FILENO), 0);
	flags = fcntl(STDERR_FILENO, F_GETFL);
	filled = fill_stderr();
	errno = ENOENT;
	log_error("one");
	log_error("two");
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFL), flags);
	ck_assert_str_eq(read_behind(reader, filled), "");
	log_error("three");
	ck_assert_str_eq(read_behind(reader, 0),
	                 "spillway: warning: 2 lines before this one could not be written and are "
	                 "lost\nspillway: error: three\n");
	log_error("four");
	ck_assert_str_eq(read_behind(reader, 0), "spillway: error: four\n");
	ck_assert_int_eq(fcntl(STDERR_FILENO, F_GETFL), flags);
}

START_TEST(full_pipe)
{
	int ends[2];

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	judge_full(ends[0], ends[1]);
}
END_TEST

START_TEST(full_fifo)
{
	const char *path = scratch_path("fifo");
	int reader;

	ck_assert_int_eq(mkfifo(path, 0600), 0);
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	judge_full(reader, open(path, O_WRONLY | O_CLOEXEC));
}
END_TEST

START_TEST(full_socket)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	judge_full(ends[0], ends[1]);
}
END_TEST

START_TEST(full_terminal)
{
	int reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	int writer;
	struct termios raw;

	ck_assert_int_ge(reader, 0);
	ck_assert_int_eq(grantpt(reader) | unlockpt(reader), 0);
	writer = open(ptsname(reader), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_eq(tcgetattr(writer, &raw), 0);
	cfmakeraw(&raw);
	ck_assert_int_eq(tcsetattr(writer, TCSANOW, &raw), 0);
	judge_full(reader, writer);
}
END_TEST

/* As ^S does. */
START_TEST(stopped_terminal)
{
	int reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	ck_assert_int_eq(grantpt(reader) | unlockpt(reader), 0);
	ck_assert_int_ge(dup2(open(ptsname(reader), O_RDWR | O_NOCTTY), STDERR_FILENO), 0);
	ck_assert_int_eq(tcflow(STDERR_FILENO, TCOOFF), 0);
	log_error("one");
	ck_assert_int_eq(tcflow(STDERR_FILENO, TCOON), 0);
	log_error("two");
	ck_assert_str_eq(read_behind(reader, 0),
	                 "spillway: warning: 1 line before this one could not be written and is "
	                 "lost\r\nspillway: error: two\r\n");
}
END_TEST

/*
 * In the background of a terminal that stops those who write from there (stty tostop): the program
 * goes on.
 */
START_TEST(terminal_of_others)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), status;
	pid_t leader;

	ck_assert_int_eq(grantpt(terminal) | unlockpt(terminal), 0);
	leader = fork();
	if (leader == 0) {
		struct termios settings;
		int writer;
		pid_t background;

		setsid();
		writer = open(ptsname(terminal), O_RDWR); /* it becomes ours */
		if (writer < 0 || tcgetattr(writer, &settings) != 0)
			_exit(1);
		settings.c_lflag |= TOSTOP;
		if (tcsetattr(writer, TCSANOW, &settings) != 0 || dup2(writer, STDERR_FILENO) < 0)
			_exit(2);
		background = fork();
		if (background == 0) {
			setpgid(0, 0);
			log_error("from behind");
			_exit(0);
		}
		if (waitpid(background, &status, WUNTRACED) != background)
			_exit(3);
		if (WIFSTOPPED(status))
			kill(background, SIGKILL);
		_exit(WIFEXITED(status) ? 0 : 4);
	}
	ck_assert_int_eq(waitpid(leader, &status, 0), leader);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	ck_assert_str_eq(read_behind(terminal, 0), "spillway: error: from behind\r\n");
}
END_TEST

/* Whoever cannot open it anew writes only where there is room: here the file of another user. */
START_TEST(full_pipe_of_others)
{
	int ends[2];

	if (geteuid() != 0)
		return;
	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	ck_assert_int_eq(fchmod(ends[1], 0), 0);
	ck_assert_int_eq(setuid(65534), 0);
	ck_assert_int_eq(open("/proc/self/fd/2", O_WRONLY), -1);
	judge_full(ends[0], ends[1]);
}
END_TEST

START_TEST(socket_whose_other_end_is_gone)
{
	int ends[2];
	sigset_t pending;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
	close(ends[0]);
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

	for (int fd = 3; fd < 256; fd++)
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
	ck_assert_int_ge(fd, DESCRIPTOR_ASIDE);
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

/* Nobody reads it: the line goes to stderr; then somebody does, and stops to. */
START_TEST(file_is_a_fifo)
{
	const char *path = scratch_path("fifo");
	int reader;

	ck_assert_int_eq(mkfifo(path, 0600), 0);
	configure_file("info", path);
	log_info("one");
	ck_assert_ptr_nonnull(strstr(said(), "No such device or address; using stderr\n"));
	ck_assert_str_eq(said(), "spillway: info: one\n");
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	log_info("two");
	ck_assert_str_eq(read_behind(reader, 0), "spillway: info: two\n");
	for (int i = 0; i < 10000; i++)
		log_info("%060d", i);
	while (*read_behind(reader, 0))
		;
	log_info("three");
	ck_assert_ptr_nonnull(strstr(read_behind(reader, 0), "are lost\nspillway: info: three\n"));
	close(reader);
	log_info("four");
	ck_assert_str_eq(said(), "");
}
END_TEST

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
	tcase_add_test(tests, full_pipe);
	tcase_add_test(tests, full_fifo);
	tcase_add_test(tests, full_socket);
	tcase_add_test(tests, full_terminal);
	tcase_add_test(tests, stopped_terminal);
	tcase_add_test(tests, terminal_of_others);
	tcase_add_test(tests, full_pipe_of_others);
	tcase_add_test(tests, socket_whose_other_end_is_gone);
	tcase_add_test(tests, file);
	tcase_add_test(tests, file_is_not_stdin);
	tcase_add_test(tests, file_is_a_fifo);
	tcase_add_test(tests, file_at_its_size_limit);
	tcase_add_test(tests, file_that_cannot_be_opened);
	tcase_add_test(tests, descriptor_is_taken_over);
	tcase_add_test(tests, threads);
	suite_add_tcase(suite, tests);
	return scratch_run(suite);
}
