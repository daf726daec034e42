/*
 * UTF-8, for formats that demand it of names that come from other processes.
 */
#ifndef SPILLWAY_UTF8_H
#define SPILLWAY_UTF8_H

#include <stddef.h>

/* Bytes of the character at the beginning of text; 0 when it is none. */
size_t utf8_length(const char *text);

#endif
