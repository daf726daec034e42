/* SPDX-License-Identifier: MIT */
/*
 * The INI reader: inih behind a guard.
 *
 * inih 55 splits long lines and takes the tail for a new setting, cuts section names, repeats the
 * previous key for an indented line, ignores what follows "]", stops at NUL bytes and tells no line
 * numbers. So it gets one checked line at a time, and its callbacks are given the line they came
 * from.
 */
#include "core/config/snapshot.h"

#include <errno.h>
#include <ini.h>
#include <string.h>

enum { LINE_LENGTH_MAX = 197 }; /* inih's buffer is 200 bytes: "\r\n" and NUL */

struct source {
	const char *file;
	const char *next, *end;
	int line;
	config_item_handler handler;
	void *cookie;
	struct config_error *error;
	int status; /* of the first line that failed */
};

static struct config_place here(const struct source *source)
{
	return (struct config_place){source->file, source->line};
}

static int begin_section(struct source *source, const char *line, size_t length)
{
	const char *end = memchr(line, ']', length);
	char name[CONFIG_SECTION_MAX + 1];
	struct config_item item = {.place = here(source), .section = name};
	size_t name_length, rest;

	if (!end)
		return config_fail(source->error, -EINVAL, here(source),
		                   "%.*s: expected ] at the end of the section's name", (int)length,
		                   line);
	name_length = (size_t)(end - line) - 1;
	if (name_length > CONFIG_SECTION_MAX)
		return config_fail(source->error, -EINVAL, here(source),
		                   "%.*s: expected a section name of at most %d bytes", (int)length,
		                   line, CONFIG_SECTION_MAX);
	rest = strspn(end + 1, " \t");
	if (end + 1 + rest < line + length && !strchr(";#", end[1 + rest]))
		return config_fail(source->error, -EINVAL, here(source),
		                   "%.*s: expected nothing after ]", (int)length, line);
	memcpy(name, line + 1, name_length);
	name[name_length] = '\0';
	return source->handler(source->cookie, &item, source->error);
}

static int check_line(struct source *source, const char *line, size_t length)
{
	static const char byte_order_mark[] = "\xef\xbb\xbf";
	struct config_error *error = source->error;
	size_t indent;

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)line[i] < ' ' && line[i] != '\t')
			return config_fail(error, -EINVAL, here(source),
			                   "byte %zu is 0x%02x: expected plain text", i + 1,
			                   (unsigned)line[i]);
	if (length > LINE_LENGTH_MAX)
		return config_fail(error, -EINVAL, here(source),
		                   "%.20s...: the line has %zu bytes: expected at most %d", line,
		                   length, LINE_LENGTH_MAX);
	if (source->line == 1 && length >= 3 && memcmp(line, byte_order_mark, 3) == 0) {
		line += 3;
		length -= 3;
	}
	for (indent = 0; indent < length && (line[indent] == ' ' || line[indent] == '\t');)
		indent++;
	if (indent == length || strchr(";#", line[indent]))
		return 0;
	if (indent > 0)
		return config_fail(error, -EINVAL, here(source),
		                   "%.*s: begins with white space; expected [section] or key = "
		                   "value in the first column",
		                   (int)(length - indent), line + indent);
	return line[0] == '[' ? begin_section(source, line, length) : 0;
}

/* Reads a line as inih asks for it, by the rules of fgets(). */
static char *next_line(char *buffer, int size, void *cookie)
{
	struct source *source = cookie;
	const char *line = source->next;
	const char *newline;
	size_t length;

	if (source->status != 0 || line == source->end || size < LINE_LENGTH_MAX + 3)
		return NULL;
	newline = memchr(line, '\n', (size_t)(source->end - line));
	length = (size_t)((newline ? newline : source->end) - line);
	source->next = newline ? newline + 1 : source->end;
	source->line++;
	if (length > 0 && line[length - 1] == '\r')
		length--;
	source->status = check_line(source, line, length);
	if (source->status != 0)
		return NULL;
	memcpy(buffer, line, length);
	strcpy(buffer + length, "\n");
	return buffer;
}

static int take_value(void *cookie, const char *section, const char *key, const char *value)
{
	struct source *source = cookie;
	struct config_item item = {
	    .place = here(source), .section = section, .key = key, .value = value};

	if (source->status == 0)
		source->status = source->handler(source->cookie, &item, source->error);
	return 1;
}

int config_read(const char *file, const char *text, size_t length, config_item_handler handler,
                void *cookie, struct config_error *error)
{
	struct source source = {.file = file,
	                        .next = text,
	                        .end = text + length,
	                        .handler = handler,
	                        .cookie = cookie,
	                        .error = error};
	int bad_line = ini_parse_stream(next_line, &source, take_value, &source);

	/* A line that inih could not split comes out only here; an earlier one is the better news.
	 */
	if (bad_line > 0 && (source.status == 0 || bad_line < source.line)) {
		source.line = bad_line;
		return config_fail(error, -EINVAL, here(&source),
		                   "expected [section], key = value or a comment");
	}
	return source.status;
}
