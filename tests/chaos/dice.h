/* SPDX-License-Identifier: MIT */
/*
 * Random numbers that depend on where they are drawn alone: the seed, the process that draws, and
 * the step. So a process does the same operations with the same numbers each time, independent of
 * earlier steps and of other processes.
 */
#ifndef CHAOS_DICE_H
#define CHAOS_DICE_H

#include <stdbool.h>
#include <stdint.h>

struct dice {
	uint64_t state;
};

/* SplitMix64. */
static inline uint64_t roll(struct dice *dice)
{
	uint64_t z = dice->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static inline struct dice dice_of(uint64_t seed, uint64_t who, uint64_t life, uint64_t step)
{
	struct dice dice = {seed};

	dice.state = roll(&dice) ^ who;
	dice.state = roll(&dice) ^ life;
	dice.state = roll(&dice) ^ step;
	return dice;
}

/* From 0 to below n. */
static inline uint32_t below(struct dice *dice, uint32_t n)
{
	return (uint32_t)((roll(dice) >> 32) * n >> 32);
}

static inline bool one_in(struct dice *dice, uint32_t n)
{
	return below(dice, n) == 0;
}

#endif
