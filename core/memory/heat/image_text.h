/* Reading PTX: what the files about images share. Private. */
#ifndef SPILLWAY_IMAGE_TEXT_H
#define SPILLWAY_IMAGE_TEXT_H

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static inline uint64_t sum(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t product(uint64_t a, uint64_t b)
{
	uint64_t result;

	return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static inline bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

static inline bool begins(const char *text, const char *end, const char *word)
{
	size_t length = strlen(word);

	return (size_t)(end - text) >= length && memcmp(text, word, length) == 0 &&
	       (text + length == end || !is_word(text[length]));
}

/* Of one element: .v4 .f32 are four times 32 bits. */
static inline uint64_t element_bytes(const char *text, const char *end)
{
	uint64_t bytes = 16, vector = 1;

	for (; text < end && *text != '[' && *text != '='; text++) {
		if (*text == '.' && end - text > 2 && text[1] == 'v' &&
		    isdigit((unsigned char)text[2]))
			vector = (uint64_t)(text[2] - '0');
		else if (*text == '.' && end - text > 2 && strchr("busf", text[1]) &&
		         isdigit((unsigned char)text[2]))
			bytes = sum(strtoull(text + 2, NULL, 10), 7) / 8;
	}
	return product(bytes, vector);
}

/* Up to the end of a declaration; several dimensions are multiplied. */
static inline uint64_t declared_bytes(const char *text, const char *end)
{
	uint64_t bytes = element_bytes(text, end);

	for (; text < end && *text != '='; text++) {
		if (*text == '[')
			bytes = product(bytes, strtoull(text + 1, NULL, 0));
	}
	return bytes;
}

#endif
