/* SPDX-License-Identifier: MIT */
/* Random changes of a good file, the same in every run, as tests/fuzz/changes.h reads them. */
#ifndef SPILLWAY_TESTS_FUZZ_CHANGES_H
#define SPILLWAY_TESTS_FUZZ_CHANGES_H

#include "tests/unit/scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* of tests/fuzz/fuzz_*.c */

enum { FUZZ_CHANGES_MAX = 128 };

/* Two bytes of length and some changes where some_offset() says. Size of the input. */
static inline size_t fuzz_changes(uint8_t input[FUZZ_CHANGES_MAX], uint32_t (*some_offset)(void))
{
	size_t size = 2;

	input[0] = input[1] = 0;
	if (scratch_random() % 8 == 0) {
		input[0] = (uint8_t)scratch_random();
		input[1] = (uint8_t)scratch_random();
	}
	for (uint64_t changes = scratch_random() % 6; changes > 0; changes--) {
		uint32_t at = some_offset();
		uint8_t length = (uint8_t)(1 + scratch_random() % 12);

		input[size] = (uint8_t)at;
		input[size + 1] = (uint8_t)(at >> 8);
		input[size + 2] = (uint8_t)(at >> 16);
		input[size + 3] = length;
		for (int i = 0; i < length; i++) {
			/* often a number that is hardly another */
			uint64_t byte = scratch_random();
			input[size + 4 + (size_t)i] = byte % 3 ? (uint8_t)(byte >> 8) : 0;
		}
		size += 4u + length;
	}
	return size;
}

#endif
