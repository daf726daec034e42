/* A finding: a line on standard output. */
#include "tools/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/printable.h"
#include "tools/view/tool.h"

bool finding(bool good, const char *format, ...)
{
	va_list list;
	char *said;

	va_start(list, format);
	if (vasprintf(&said, format, list) < 0)
		fail("out of memory");
	va_end(list);
	printf("%s  %s\n", good ? "ok" : "no", printable_lines(said));
	free(said);
	return good;
}
