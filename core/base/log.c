/* SPDX-License-Identifier: MIT */
/*
 * The log: one line, one write(2).
 *
 * It runs inside the user's process, on any thread, at any time, in a forked child too. So it keeps
 * errno, allocates nothing, takes no lock and waits for no reader. It is no cancellation point, and
 * lets no signal through that the write causes. It checks that a descriptor is still its own.
 */
#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/descriptor.h"
#include "core/base/file_status.h"
#include "core/base/printable.h"

static const char *const level_names[] = {"off", "error", "warning", "info", "debug"};

static struct {
	atomic_int level;
	atomic_int fd;             /* -1: not open */
	_Atomic uint64_t identity; /* of the file behind fd */
} state = {.level = LOG_WARNING, .fd = -1};
static char log_file[PATH_MAX]; /* "": stderr. Set by log_configure() alone */

static atomic_uint lost;   /* lines since the last that could be written */
static atomic_bool is_cut; /* the last line that was written has no end */

/*
 * Writes to the program's own stderr without waiting for its reader. O_NONBLOCK would also apply to
 * the program and to every process that shares the open file. So a pipe or a terminal is opened
 * anew for this line, and a socket is told with the call. Where it cannot be opened anew (no /proc,
 * or the file is not ours by now), the line is written only if poll() reports room. For a pipe a
 * line fits then, unless another thread was faster.
 */
static ssize_t write_without_waiting(int fd, const char *text, size_t length)
{
	enum { KEPT = O_APPEND | O_DIRECT };
	struct pollfd room = {.fd = fd, .events = POLLOUT};
	char path[40];
	struct stat file;
	ssize_t written;
	int own = -1;

	if (file_status_of(fd, &file) != 0)
		return -1;
	if (S_ISREG(file.st_mode))
		return write(fd, text, length);
	if (S_ISSOCK(file.st_mode))
		return send(fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
	snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
	/* opening another device may mean more than opening it */
	if (S_ISFIFO(file.st_mode) || isatty(fd))
		own =
		    descriptor_above_stdio(open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
		                                          (fcntl(fd, F_GETFL) & KEPT)));
	if (own < 0 && (poll(&room, 1, 0) != 1 || !(room.revents & (POLLOUT | POLLERR)))) {
		errno = EAGAIN;
		return -1;
	}
	written = write(own < 0 ? fd : own, text, length);
	if (own >= 0) {
		int error = errno;

		close(own);
		errno = error;
	}
	return written;
}

/*
 * Writes all of the line or counts it as lost: a terminal and a stream may take a part. No effect
 * of the write may end or stop the user's process: a pipe without a reader, a file at its size
 * limit, a terminal of another process group.
 */
static bool write_line(int fd, bool is_own, const char *line, size_t length)
{
	const struct timespec no_time = {0};
	sigset_t caused, pending, before;
	bool was_pending;
	ssize_t written;

	sigemptyset(&caused);
	sigaddset(&caused, SIGPIPE);
	sigaddset(&caused, SIGXFSZ);
	sigpending(&pending);
	was_pending = sigismember(&pending, SIGPIPE) || sigismember(&pending, SIGXFSZ);
	sigaddset(&caused, SIGTTOU);
	/* On Linux the mask of the calling thread; pthread_sigmask() would need a newer glibc. */
	sigprocmask(SIG_BLOCK, &caused, &before);
	do
		written =
		    is_own ? write(fd, line, length) : write_without_waiting(fd, line, length);
	while (written < 0 && errno == EINTR);
	sigdelset(&caused, SIGTTOU);
	if (written < 0 && (errno == EPIPE || errno == EFBIG) && !was_pending)
		sigtimedwait(&caused, NULL, &no_time);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (written > 0)
		atomic_store(&is_cut, (size_t)written < length);
	return written == (ssize_t)length;
}

/* Writes the line behind a note about the lost lines before it, as one. */
static void write_or_count(int fd, bool is_own, const char *line, size_t length)
{
	char together[LOG_LINE_MAX + 128];
	unsigned before = atomic_exchange(&lost, 0);
	int notice = 0;

	if (before)
		notice = snprintf(together, sizeof together - LOG_LINE_MAX,
		                  "%sspillway: warning: %u %s before this one could not be written "
		                  "and %s lost\n",
		                  atomic_load(&is_cut) ? "\n" : "", before,
		                  before == 1 ? "line" : "lines", before == 1 ? "is" : "are");
	memcpy(together + notice, line, length);
	if (!write_line(fd, is_own, together, (size_t)notice + length))
		atomic_fetch_add(&lost, before + 1);
}

bool log_write(int fd, const char *text, size_t length)
{
	int cancel, saved_errno = errno;
	bool written;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	written = write_line(fd, false, text, length);
	pthread_setcancelstate(cancel, NULL);
	errno = saved_errno;
	return written;
}

/* Returns a number for the file behind fd; 0: fd is closed. */
static uint64_t log_identify(int fd)
{
	struct stat file;

	if (file_status_of(fd, &file) != 0)
		return 0;
	return (file.st_ino << 16 ^ file.st_dev) | 1;
}

/*
 * Returns whether fd is still ours: programs close descriptors that they do not know and get their
 * numbers.
 */
static bool still_ours(int fd)
{
	return fd >= 0 && log_identify(fd) == atomic_load(&state.identity);
}

/* Opens the log file, or returns -1. Each thread opens it; the first to publish wins. */
static int log_open_file(void)
{
	int current = atomic_load(&state.fd);
	int fd;

	if (still_ours(current))
		return current;
	fd = descriptor_aside(open(
	    log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
	if (fd < 0)
		return -1;
	atomic_store(&state.identity, log_identify(fd));
	if (!atomic_compare_exchange_strong(&state.fd, &current, fd)) {
		close(fd);
		return current;
	}
	return fd;
}

/*
 * Returns the descriptor that lines go to, and whether it is one that we opened, so that writing to
 * it never waits.
 */
static int destination(bool *is_own)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char line[LOG_LINE_MAX];
	int fd;

	*is_own = false;
	if (log_file[0] == '\0')
		return STDERR_FILENO;
	fd = log_open_file();
	*is_own = fd >= 0;
	if (fd >= 0)
		return fd;
	if (!atomic_flag_test_and_set(&said)) {
		snprintf(line, sizeof(line),
		         "spillway: error: SPILLWAY_LOG: cannot open %.512s: %m; using stderr\n",
		         log_file);
		printable(line);
		line[strlen(line) - 1] = '\n';
		write_or_count(STDERR_FILENO, false, line, strlen(line));
	}
	return STDERR_FILENO;
}

bool log_enabled(enum log_level level)
{
	return level != LOG_OFF &&
	       (int)level <= atomic_load_explicit(&state.level, memory_order_relaxed);
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[LOG_LINE_MAX + 1]; /* one more, for the NUL that is not written */
	int saved_errno = errno, cancel;
	int prefix, body, fd;
	bool is_own;
	size_t length;
	va_list arguments;

	if (!log_enabled(level))
		return;
	prefix = snprintf(line, sizeof(line), "spillway: %s: ", level_names[level]);
	va_start(arguments, format);
	errno = saved_errno; /* for %m */
	body = vsnprintf(line + prefix, sizeof(line) - (size_t)prefix, format, arguments);
	va_end(arguments);
	if (body < 0)
		body = 0;

	length = (size_t)prefix + (size_t)body;
	if (length > LOG_LINE_MAX - 1) {
		length = LOG_LINE_MAX - 1;
		strcpy(line + length - 3, "...");
	}
	/* Text from outside must not look like another line, or drive a terminal. */
	printable_bytes(line, length);
	line[length++] = '\n';
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	fd = destination(&is_own);
	write_or_count(fd, is_own, line, length);
	pthread_setcancelstate(cancel, NULL);
	errno = saved_errno;
}

static bool parse_spec(const char *spec, int *level, const char **file)
{
	size_t length = strcspn(spec, ":");

	*file = spec[length] == ':' ? spec + length + 1 : "";
	if ((spec[length] == ':' && **file == '\0') || strlen(*file) >= sizeof(log_file))
		return false;
	for (int i = LOG_OFF; i <= LOG_DEBUG; i++) {
		if (strlen(level_names[i]) == length &&
		    strncasecmp(spec, level_names[i], length) == 0) {
			*level = i;
			return true;
		}
	}
	return false;
}

void log_configure(const char *spec)
{
	int saved_errno = errno;
	int level = LOG_WARNING;
	const char *file = "";
	bool bad = spec && *spec && !parse_spec(spec, &level, &file);
	int old;

	if (bad)
		file = "";
	old = atomic_exchange(&state.fd, -1);
	if (still_ours(old))
		close(old);
	strcpy(log_file, file);
	atomic_store(&state.level, level);
	if (bad)
		log_once(LOG_ERROR,
		         "SPILLWAY_LOG = %s: expected off, error, warning, info or debug, and "
		         "optionally :FILE; using warning",
		         spec);
	errno = saved_errno;
}
