/* SPDX-License-Identifier: MIT */
/*
 * The INI reader: inih behind a guard.
 *
 * inih 55 splits long lines and takes the tail for a new setting. It cuts section names, repeats
 * the previous key for an indented line, and ignores the text after "]". It stops at NUL bytes and
 * tells no line numbers. So it gets one checked line at a time, and its callbacks are given the
 * line they came from.
 */
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/file_status.h"
#include "core/config/snapshot.h"

/* Small files, read whole: a half-read or endless one is an error, not a configuration. */

enum { FILE_MAX = 1 << 20 };

static int reader_read_all(int fd, char *text, size_t size, size_t *length)
{
	size_t used = 0;

	for (;;) {
		ssize_t got = read(fd, text + used, size - used);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		used += (size_t)got;
		if (used == size)
			return -EAGAIN; /* it grows */
	}
	text[used] = '\0';
	*length = used;
	return 0;
}

int config_file_load(const char *path, bool follow_symlink, char **text, size_t *length)
{
	/*
	 * O_NONBLOCK: opening a FIFO must not hang the user's process. By number: a library that
	 * is preloaded and puts other files in the place of some (fakechroot) is not asked.
	 */
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path,
	                      O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY |
	                          (follow_symlink ? 0 : O_NOFOLLOW));
	struct stat status;
	char *buffer = NULL;
	int result;

	if (fd < 0)
		return -errno;
	if (file_status_of(fd, &status) != 0)
		result = -errno;
	else if (S_ISDIR(status.st_mode))
		result = -EISDIR;
	else if (!S_ISREG(status.st_mode))
		result = -EINVAL;
	else if (status.st_size > FILE_MAX)
		result = -EFBIG;
	else if (!(buffer = malloc((size_t)status.st_size + 1)))
		result = -ENOMEM;
	else
		result = reader_read_all(fd, buffer, (size_t)status.st_size + 1, length);
	close(fd);
	if (result == 0)
		*text = buffer;
	else
		free(buffer);
	return result;
}

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

static int reader_begin_section(struct source *source, const char *line, size_t length)
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
	return line[0] == '[' ? reader_begin_section(source, line, length) : 0;
}

/* Reads a line as inih asks for it, by the rules of fgets(). */
static char *reader_next_line(char *buffer, int size, void *cookie)
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
	int bad_line = ini_parse_stream(reader_next_line, &source, take_value, &source);

	/* A line that inih could not split comes out only here; an earlier one is the better news.
	 */
	if (bad_line > 0 && (source.status == 0 || bad_line < source.line)) {
		source.line = bad_line;
		return config_fail(error, -EINVAL, here(&source),
		                   "expected [section], key = value or a comment");
	}
	return source.status;
}
