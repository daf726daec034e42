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

enum { WORD_MAX = 48 };

/* Insertions, deletions and replacements that turn one word into the other. */
static int distance(const char *a, const char *b)
{
	int row[WORD_MAX + 1];
	int a_length = (int)strnlen(a, WORD_MAX);
	int b_length = (int)strnlen(b, WORD_MAX);

	for (int j = 0; j <= b_length; j++)
		row[j] = j;
	for (int i = 1; i <= a_length; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= b_length; j++) {
			int best = diagonal + (a[i - 1] != b[j - 1]);

			if (best > row[j] + 1)
				best = row[j] + 1;
			if (best > row[j - 1] + 1)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[b_length];
}

const char *config_closest(const char *word, const char *const *words)
{
	const char *closest = NULL;
	int least = 3; /* further away is another word */

	for (; *words; words++) {
		int edits = distance(word, *words);

		if (edits < least) {
			least = edits;
			closest = *words;
		}
	}
	return closest;
}
