/* SPDX-License-Identifier: MIT */
/* Printable text. Rules: runs inside the user's process. */
#include "core/base/printable.h"

#include <string.h>

size_t utf8_decode(const char *text, size_t left, uint32_t *code)
{
	const unsigned char *at = (const unsigned char *)text;
	static const struct {
		unsigned char mask, lead;
		uint32_t smallest;
	} forms[] = {
	    {0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

	for (size_t length = 1; length <= 4 && length <= left; length++) {
		if ((*at & forms[length - 1].mask) != forms[length - 1].lead)
			continue;
		*code = *at & (unsigned char)~forms[length - 1].mask;
		for (size_t i = 1; i < length; i++) {
			if ((at[i] & 0xc0) != 0x80)
				return 0;
			*code = *code << 6 | (at[i] & 0x3f);
		}
		if (*code < forms[length - 1].smallest || *code > 0x10ffff ||
		    (*code >= 0xd800 && *code <= 0xdfff))
			return 0;
		return length;
	}
	return 0;
}

/* Returns the bytes of the printable character at the beginning, or 0. */
static size_t character(const char *text, size_t left)
{
	uint32_t code;
	size_t length = utf8_decode(text, left, &code);

	return length && is_printable_code(code) ? length : 0;
}

void printable_bytes(char *text, size_t length)
{
	for (size_t i = 0; i < length;) {
		size_t step = character(text + i, length - i);

		if (!step)
			text[i++] = '?';
		i += step;
	}
}

char *printable(char *text)
{
	printable_bytes(text, strlen(text));
	return text;
}

char *printable_lines(char *text)
{
	for (char *line = text; *line;) {
		size_t length = strcspn(line, "\n");

		printable_bytes(line, length);
		line += length + (line[length] == '\n');
	}
	return text;
}

bool is_printable(const char *text, size_t size)
{
	size_t length = strnlen(text, size);

	for (size_t i = 0, step; i < length; i += step) {
		step = character(text + i, length - i);
		if (!step)
			return false;
	}
	return length < size;
}
