/* SPDX-License-Identifier: MIT */
/* Filling in the sentence. */
#include "core/state/refuse.h"

#include <stdarg.h>
#include <stdio.h>

int state_refuse(int error, char *message, size_t size, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (message)
		vsnprintf(message, size, format, arguments);
	va_end(arguments);
	return error;
}
