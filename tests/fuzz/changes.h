/* SPDX-License-Identifier: MIT */
/*
 * Changes of a file that is good, as fuzz targets read them from their input. A change is an offset
 * and bytes to put there. It has 4 bytes, and as many more as the last of them says. The offset is
 * little endian; above the file's end it counts within the file's hot part.
 */
#ifndef SPILLWAY_FUZZ_CHANGES_H
#define SPILLWAY_FUZZ_CHANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

struct changed_file {
	int fd;
	const void *good;
	size_t size;
	size_t hot, hot_size; /* where changes matter most */
};

static inline void changes_put(const struct changed_file *file, uint64_t at, const void *bytes,
                               size_t size)
{
	if (size && pwrite(file->fd, bytes, size, (off_t)at) != (ssize_t)size)
		abort();
}

/* Each change, or with undo what was there before. */
static inline void changes_apply(const struct changed_file *file, const uint8_t *data, size_t size,
                                 bool undo)
{
	while (size >= 4) {
		uint64_t at = (uint64_t)data[0] | (uint64_t)data[1] << 8 | (uint64_t)data[2] << 16;
		size_t length = data[3] < size - 4 ? data[3] : size - 4;

		if (at >= file->size)
			at = file->hot + at % file->hot_size;
		if (length > file->size - at)
			length = file->size - at;
		changes_put(file, at, undo ? (const uint8_t *)file->good + at : data + 4, length);
		data += 4 + length;
		size -= 4 + length;
	}
}

/* Returns what two bytes make of the file's length: 0: it stays, else a fraction of it. */
static inline size_t changes_length(const struct changed_file *file, const uint8_t bytes[2])
{
	uint64_t fraction = bytes[0] | (uint64_t)bytes[1] << 8;

	return fraction ? (size_t)(file->size * fraction / 65535) : file->size;
}

/* --- inputs of the short run --- */

/* The length as it is, and no change. */
static inline size_t changes_none(uint8_t *input)
{
	input[0] = input[1] = 0;
	return 2;
}

/* Two bytes of length and at most five changes where some_offset() says. Size of the input. */
static inline size_t changes_make(uint8_t *input, uint32_t (*some_offset)(void))
{
	size_t size = changes_none(input);

	if (fuzz_random() % 8 == 0) {
		input[0] = (uint8_t)fuzz_random();
		input[1] = (uint8_t)fuzz_random();
	}
	for (uint64_t changes = fuzz_random() % 6; changes > 0; changes--) {
		uint32_t at = some_offset();
		uint8_t length = (uint8_t)(1 + fuzz_random() % 12);

		input[size] = (uint8_t)at;
		input[size + 1] = (uint8_t)(at >> 8);
		input[size + 2] = (uint8_t)(at >> 16);
		input[size + 3] = length;
		for (int i = 0; i < length; i++) {
			/* often a number that is hardly another */
			uint64_t byte = fuzz_random();

			input[size + 4 + (size_t)i] = byte % 3 ? (uint8_t)(byte >> 8) : 0;
		}
		size += 4u + length;
	}
	return size;
}

#endif
