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
	enum finding_mark mark;
	char *said, *try; /* try NULL: nothing is known */
} * noted;
static int count;
static char *next;
static pid_t noted_by; /* a child that tries a driver may call exit(), too */

static void print_those(enum finding_mark mark)
{
	static const char *const words[] = {"no", "--", "ok"};

	for (int i = 0; i < count; i++) {
		if (noted[i].mark != mark)
			continue;
		printf("%s  %s\n", words[mark], noted[i].said);
		if (noted[i].try)
			printf("      try: %s\n", noted[i].try);
	}
}

static void print_all(void)
{
	if (getpid() != noted_by)
		return;
	print_those(FINDING_NO);
	print_those(FINDING_NOTE);
	print_those(FINDING_OK);
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

void finding(enum finding_mark mark, const char *format, ...)
{
	va_list list;

	if (count == 0 && atexit(print_all) != 0)
		fail("out of memory");
	noted_by = getpid();
	noted = grow(noted, count, sizeof *noted);
	va_start(list, format);
	noted[count++] = (struct noted){mark, format_line(format, list), NULL};
	va_end(list);
}

bool finding_is_well(void)
{
	for (int i = 0; i < count; i++)
		if (noted[i].mark == FINDING_NO)
			return false;
	return true;
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
