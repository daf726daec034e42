/* How every command reports trouble. */
#include "tools/tool.h"

#include <stdio.h>
#include <stdlib.h>

int tool_failure = TOOL_FAILED;
void (*complain_to)(const char *line);

void complain_list(const char *format, va_list list)
{
	char *line;

	if (vasprintf(&line, format, list) < 0)
		return;
	for (char *c = line; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = '?';
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

void *allocate(size_t size)
{
	void *memory = calloc(1, size);

	if (!memory)
		fail("out of memory");
	return memory;
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
