/* SPDX-License-Identifier: MIT */
/*
 * Costs: what launches took lately, by what is launched: so that work in flight can be bounded
 * before it is measured.
 *
 * key   what is launched; alike for launches that take about the same time. Never 0
 * tally the launches of one round, by key: once the round is measured they are what is learnt from
 *
 * A key that is not known counts as a whole quantum, so it gets a round for itself and is known
 * after it. Not thread-safe: the pacer's lock guards it.
 *
 * Costs are not learnt from what spun through a slot. By the clock alone a program queues seconds
 * of work in 2 ms.
 */
#ifndef SPILLWAY_COST_H
#define SPILLWAY_COST_H

#include <stdint.h>

enum { COST_ENTRIES = 1024, COST_WAYS = 4, COST_KINDS = 16 };

struct cost {
	uint64_t key, ns; /* 0: unused */
};

struct costs {
	struct cost entry[COST_ENTRIES];
};

struct tally {
	uint64_t ns; /* what its launches should cost */
	uint32_t launches;
	uint32_t kinds; /* of them in kind[]; the rest of the launches has other keys */
	struct {
		uint64_t key;
		uint32_t launches;
	} kind[COST_KINDS];
};

/* Returns what one launch costs; 0: not known. */
uint64_t cost_of(const struct costs *costs, uint64_t key);
void tally_add(struct tally *tally, uint64_t key, uint64_t ns);
/*
 * Learns from a tally of launches that took so long together; 0: it could not be measured, and
 * nothing is learnt.
 */
void cost_learn(struct costs *costs, const struct tally *tally, uint64_t busy_ns);

#endif
