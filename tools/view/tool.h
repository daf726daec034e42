/* SPDX-License-Identifier: MIT */
/*
 * The commands' exit codes, and how they report trouble.
 */
#ifndef SPILLWAY_TOOL_H
#define SPILLWAY_TOOL_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum tool_status {
	TOOL_OK = 0,
	TOOL_FAILED = 1,
	TOOL_USAGE = 2,
	/*
	 * Those of `run`, as timeout(1) and env(1) have them; other values are the program's own.
	 */
	RUN_FAILED = 125,
	RUN_NOT_EXECUTABLE = 126,
	RUN_NOT_FOUND = 127,
};

/* The status of a command that could not do its work: 1, and 125 once `run` has begun. */
extern int tool_failure;
/* The same for a wrong command line: 2, and 125. */
extern int tool_usage_failure;

/* Where complaints go instead of stderr while a screen stands there; NULL: nowhere else. */
extern void (*complain_to)(const char *line);

/*
 * Writes one line to stderr: "spillway: ...". Names come from other processes: control characters
 * become '?'.
 */
void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
void complain_list(const char *format, va_list list) __attribute__((format(printf, 1, 0)));
/* Says it likewise, and ends the tool with tool_failure. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Writes the output; where that cannot be written it prints the reason and ends the tool. */
void output_flush(void);
/* Makes a command fail whose output cannot be written. */
void output_check_at_end(void);
/* Returns zeroed memory, or ends the tool. */
void *allocate(size_t size);
/* Returns the array of so many elements with room for one more, or ends the tool. */
void *grow(void *array, int count, size_t size);
/*
 * Writes a time of CLOCK_REALTIME as the local date and time: "2026-11-22 12:30:00". Returns buf.
 */
const char *time_text(uint64_t ns, char *buf, size_t size);
/* Returns a new string; the caller frees it. */
char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
