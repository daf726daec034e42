/* SPDX-License-Identifier: MIT */
/* Errors for people: one line that names the place, what stood there and what was expected. */
#include "core/config/snapshot.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int config_fail(struct config_error *error, int status, struct config_place place,
                const char *format, ...)
{
	char *message = error->message;
	size_t size = sizeof(error->message);
	int length;
	va_list arguments;

	snprintf(error->file, sizeof(error->file), "%s", place.file);
	error->line = place.line;
	if (place.line > 0)
		length = snprintf(message, size, "%s:%d: ", place.file, place.line);
	else
		length = snprintf(message, size, "%s: ", place.file);
	if (length >= 0 && (size_t)length < size) {
		va_start(arguments, format);
		vsnprintf(message + length, size - (size_t)length, format, arguments);
		va_end(arguments);
	}
	return status;
}

int config_fail_value(struct config_error *error, struct config_place place, const char *key,
                      const char *value, const char *problem)
{
	config_fail(error, -EINVAL, place, "%s = %s: %s", key, value, problem);
	if (place.line == 0)
		snprintf(error->message, sizeof(error->message), "%s = %s: %s", place.file, value,
		         problem);
	return -EINVAL;
}
