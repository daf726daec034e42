/* SPDX-License-Identifier: MIT */
/*
 * Text of other users, made fit for a terminal, a log and a table.
 *
 * Names, labels, commands and paths come from other processes, files and environments, and a
 * terminal obeys their bytes. An escape sequence begins with a control character of C0, or with one
 * of C1. UTF-8 writes C1 in two bytes, and older terminals read it from one. So printed text holds
 * whole characters of UTF-8 only, and no control characters. No allocation, no lock, errno
 * untouched.
 */
#ifndef SPILLWAY_PRINTABLE_H
#define SPILLWAY_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns the bytes of the character of UTF-8 that the text begins with, of `left` at most; 0 where
 * there is none.
 */
size_t utf8_decode(const char *text, size_t left, uint32_t *code);

/* Returns whether the character is none of C0, DEL and C1, which control. */
static inline bool is_printable_code(uint32_t code)
{
	return code >= 0x20 && (code < 0x7f || code >= 0xa0);
}

/* Puts a "?" for each byte that is not of a printable character. */
void printable_bytes(char *text, size_t length);
/* Does the same up to the end of the string. Returns text. */
char *printable(char *text);
/* Does it line by line, for texts of several lines. Returns text. */
char *printable_lines(char *text);
/* Returns whether the text ends within size bytes and printable() would leave it as it is. */
bool is_printable(const char *text, size_t size);

#endif
