/* SPDX-License-Identifier: MIT */
/* The handwritten digits of data/digits.csv, in an order and with a split that never change. */
#ifndef DIGITS_H
#define DIGITS_H

#include <stdint.h>

enum {
	DIGITS_PIXELS = 64, /* 8 x 8, grey values 0 to 16 */
	DIGITS_CLASSES = 10,
	DIGITS_COUNT = 1797,
	DIGITS_TRAINING = 1437, /* the first ones; the others are for testing */
	DIGITS_TESTING = DIGITS_COUNT - DIGITS_TRAINING,
};

struct digits {
	uint8_t pixels[DIGITS_COUNT][DIGITS_PIXELS];
	uint32_t labels[DIGITS_COUNT];
};

/* Reads digits.csv beside the program, shuffled. The caller frees it. */
struct digits *digits_read(void);

/* SplitMix64: the programs' only source of randomness. */
uint64_t random_next(uint64_t *state);
/* Shuffles count numbers (Fisher-Yates). */
void random_shuffle(uint64_t *state, uint32_t *numbers, uint32_t count);

#endif
