/*
 * The log: one line, one write(2).
 *
 * It runs inside the user's process, on any thread, at any time, in a forked child too: errno is
 * preserved, nothing is allocated, no lock is taken, no signal is let through that the write
 * causes, no thread is cancelled here, and no descriptor is trusted to be still ours.
 */
#include "core/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "core/base/descriptor.h"
#include "core/base/file_status.h"

static const char *const level_names[] = {"off", "error", "warning", "info", "debug"};

static struct {
	atomic_int level;
	atomic_int fd;             /* -1: not open */
	_Atomic uint64_t identity; /* of the file behind fd */
} state = {.level = LOG_WARNING, .fd = -1};
static char log_file[PATH_MAX]; /* "": stderr. Set by log_configure() alone */

/* A pipe that nobody reads or a file at its size limit must not kill the user's process. */
static void write_line(int fd, const char *line, size_t length)
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
	/* On Linux the mask of the calling thread; pthread_sigmask() would need a newer glibc. */
	sigprocmask(SIG_BLOCK, &caused, &before);
	do
		written = write(fd, line, length);
	while (written < 0 && errno == EINTR);
	if (written < 0 && (errno == EPIPE || errno == EFBIG) && !was_pending)
		sigtimedwait(&caused, NULL, &no_time);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* A number for the file behind fd; 0: fd is closed. */
static uint64_t identify(int fd)
{
	struct stat file;

	if (file_status_of(fd, &file) != 0)
		return 0;
	return (file.st_ino << 16 ^ file.st_dev) | 1;
}

/* Programs close descriptors they do not know, and the number may be theirs by now. */
static bool still_ours(int fd)
{
	return fd >= 0 && identify(fd) == atomic_load(&state.identity);
}

/* The log file or -1. Threads that come here together open it each; the first to publish wins. */
static int open_file(void)
{
	int current = atomic_load(&state.fd);
	int fd;

	if (still_ours(current))
		return current;
	fd = descriptor_above_stdio(open(
	    log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0600));
	if (fd < 0)
		return -1;
	atomic_store(&state.identity, identify(fd));
	if (!atomic_compare_exchange_strong(&state.fd, &current, fd)) {
		close(fd);
		return current;
	}
	return fd;
}

static int destination(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	char line[LOG_LINE_MAX];
	int fd;

	if (log_file[0] == '\0')
		return STDERR_FILENO;
	fd = open_file();
	if (fd >= 0)
		return fd;
	if (!atomic_flag_test_and_set(&said)) {
		snprintf(line, sizeof(line),
		         "spillway: error: SPILLWAY_LOG: cannot open %.512s: %m; using stderr\n",
		         log_file);
		write_line(STDERR_FILENO, line, strlen(line));
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
	int prefix, body;
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
	for (size_t i = 0; i < length; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[length++] = '\n';
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	write_line(destination(), line, length);
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
