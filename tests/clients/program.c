/* SPDX-License-Identifier: MIT */
/* Any small program needs this; see program.h. */
#include "tests/clients/program.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

void program_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", program_invocation_short_name);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

char *program_read_beside(const char *file)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
	if (length <= 0 || (size_t)length >= sizeof(path))
		program_die("cannot tell where this program lies: %s", strerror(errno));
	while (length > 0 && path[length - 1] != '/')
		length--;
	if (snprintf(path + length, sizeof(path) - length, "%s", file) >=
	    (int)(sizeof(path) - length))
		program_die("%s: the path is too long", file);

	FILE *stream = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	/* No file holds a NUL, so this reads it whole; an empty file is as bad as none. */
	if (!stream || getdelim(&text, &size, '\0', stream) < 0)
		program_die("%s: %s", path, errno ? strerror(errno) : "empty");
	fclose(stream);
	return text;
}

long program_number(const char *option, const char *text, long min, long max)
{
	char *end;

	errno = 0;
	long value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max)
		program_die("--%s=%s: expected a whole number from %ld to %ld", option, text, min,
		            max);
	return value;
}

double program_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}
