/* SPDX-License-Identifier: MIT */
/*
 * One line to stderr (or a file) per message: "spillway: error: ...".
 *
 * This code runs inside the user's process: each line is one write(2), errno is preserved, nothing
 * is allocated, stdout is never touched. SPILLWAY_LOG is a level (off, error, warning, info, debug;
 * default warning). ":FILE" may follow, for example "info:/tmp/job.log": the file is appended to,
 * and is opened on first use with CLOEXEC. log_line() is thread-safe. log_configure() comes before
 * other threads log. Lines longer than LOG_LINE_MAX bytes, newline included, are cut and end in
 * "..."; an unprintable byte becomes "?". The log waits for no reader. A line is lost and counted
 * where a full pipe, a stopped terminal or a file does not take it. The next line that is taken
 * follows a line with the number of lost ones.
 */
#ifndef SPILLWAY_LOG_H
#define SPILLWAY_LOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { LOG_LINE_MAX = 1024 };

enum log_level { LOG_OFF, LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

/*
 * Configures the log. spec: as SPILLWAY_LOG; NULL or empty: the default. A bad spec is said once
 * and the default kept.
 */
void log_configure(const char *spec);
bool log_enabled(enum log_level level);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * Writes text to a given descriptor as a line is written to stderr: it waits for no reader, and no
 * signal comes of it. Returns whether all of it was taken.
 */
bool log_write(int fd, const char *text, size_t length);

#define log_error(...)   log_line(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_line(LOG_WARNING, __VA_ARGS__)
#define log_info(...)    log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...)   log_line(LOG_DEBUG, __VA_ARGS__)

/* The same line only the first time this place is reached in the process. */
#define log_once(level, ...)                                    \
	do {                                                    \
		static atomic_flag log_said = ATOMIC_FLAG_INIT; \
		if (!atomic_flag_test_and_set(&log_said))       \
			log_line(level, __VA_ARGS__);           \
	} while (0)

#endif
