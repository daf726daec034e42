/* SPDX-License-Identifier: MIT */
/* How every command reports trouble. */
#include "tools/view/tool.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/printable.h"

int tool_failure = TOOL_FAILED;
int tool_usage_failure = TOOL_USAGE;
void (*complain_to)(const char *line);

void complain_list(const char *format, va_list list)
{
	char *line;

	if (vasprintf(&line, format, list) < 0)
		return;
	printable(line);
	fflush(stdout);
	if (complain_to)
		complain_to(line);
	else
		fprintf(stderr, "spillway: %s\n", line);
	free(line);
}

void complain(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	complain_list(format, list);
	va_end(list);
}

void fail(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	complain_list(format, list);
	va_end(list);
	exit(tool_failure);
}

/* Returns errno, where output could not be written; else 0. */
static int output_error(void)
{
	if (fflush(stdout) != 0)
		return errno;
	return ferror(stdout) ? EIO : 0;
}

static bool output_failed; /* it was said */

static void complain_of_output(int error)
{
	output_failed = true;
	complain("standard output: %s", strerror(error));
}

void output_flush(void)
{
	int error = output_error();

	if (!error)
		return;
	complain_of_output(error);
	exit(tool_failure);
}

static void at_end(void)
{
	int error = output_failed ? 0 : output_error();

	if (!error)
		return;
	complain_of_output(error);
	_exit(tool_failure);
}

void output_check_at_end(void)
{
	if (atexit(at_end) != 0)
		fail("out of memory");
}

void *allocate(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		fail("out of memory");
	return memory;
}

void *grow(void *array, int count, size_t size)
{
	void *grown = realloc(array, ((size_t)count + 1) * size);

	if (!grown)
		fail("out of memory");
	return grown;
}

const char *time_text(uint64_t ns, char *buf, size_t size)
{
	time_t seconds = (time_t)(ns / 1000000000);
	struct tm local;

	if (!localtime_r(&seconds, &local) || !strftime(buf, size, "%Y-%m-%d %H:%M:%S", &local))
		snprintf(buf, size, "?");
	return buf;
}

char *text(const char *format, ...)
{
	va_list list;
	char *result;

	va_start(list, format);
	if (vasprintf(&result, format, list) < 0)
		fail("out of memory");
	va_end(list);
	return result;
}
