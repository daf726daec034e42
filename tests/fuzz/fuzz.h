/* SPDX-License-Identifier: MIT */
/*
 * Fuzz targets: readers of data that another process may have written. The driver (test_fuzz.c) has
 * the table of them.
 *
 * A target is run in two ways. libFuzzer, by hand: `make fuzz`, see rules.mk. The short run of
 * `make check` needs no clang. It takes a good input, then as many random changes of it as the
 * target's row says, the same in every run.
 */
#ifndef SPILLWAY_FUZZ_H
#define SPILLWAY_FUZZ_H

#include <stddef.h>
#include <stdint.h>

enum { FUZZ_INPUT_MAX = 2048 }; /* bytes of an input of the short run */

struct fuzz_target {
	const char *name;
	const char *reads; /* the reader that it tests */
	/* Tests one input. Ends the process where something is wrong. */
	void (*run)(const uint8_t *data, size_t size);
	/* The corpus of the short run: a good input, and how often it is changed. */
	size_t (*good)(uint8_t input[FUZZ_INPUT_MAX]);
	size_t (*change)(uint8_t input[FUZZ_INPUT_MAX]);
	int rounds;
};

extern const struct fuzz_target fuzz_handle, fuzz_page, fuzz_ptx, fuzz_ring, fuzz_ring_state,
    fuzz_segment, fuzz_text;

/* xorshift: the same numbers in every run. */
uint64_t fuzz_random(void);

#endif
