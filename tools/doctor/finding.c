/* SPDX-License-Identifier: MIT */
/* Findings: noted as they are made, printed as the tool ends, however it does. */
#include "tools/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/printable.h"
#include "tools/view/tool.h"

static struct noted {
	bool good;
	char *said, *try; /* try NULL: nothing is known */
} * noted;
static int count;
static char *next;
static pid_t noted_by; /* a child that tries a driver may call exit(), too */

static void print_those(bool good)
{
	for (int i = 0; i < count; i++) {
		if (noted[i].good != good)
			continue;
		printf("%s  %s\n", good ? "ok" : "no", noted[i].said);
		if (noted[i].try)
			printf("      try: %s\n", noted[i].try);
	}
}

static void print_all(void)
{
	if (getpid() != noted_by)
		return;
	print_those(false);
	print_those(true);
	if (next)
		printf("\nnext: %s\n", next);
}

static char *format_line(const char *format, va_list list)
{
	char *said;

	if (vasprintf(&said, format, list) < 0)
		fail("out of memory");
	printable_lines(said);
	return said;
}

bool finding(bool good, const char *format, ...)
{
	va_list list;

	if (count == 0 && atexit(print_all) != 0)
		fail("out of memory");
	noted_by = getpid();
	noted = grow(noted, count, sizeof *noted);
	va_start(list, format);
	noted[count++] = (struct noted){good, format_line(format, list), NULL};
	va_end(list);
	return good;
}

void finding_try(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	noted[count - 1].try = format_line(format, list);
	va_end(list);
}

void finding_next(const char *format, ...)
{
	va_list list;

	va_start(list, format);
	next = format_line(format, list);
	va_end(list);
}
