/* SPDX-License-Identifier: MIT */
/* Costs of launches. Rules: called on the paced launch path; no driver call, no allocation. */
#include "core/pace/cost.h"

#include <stddef.h>

/* The least cost, so that a known cost is not 0. */
#define LEAST_NS 500u

static size_t first_way(uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15ull) >> 32) % (COST_ENTRIES / COST_WAYS) *
	       COST_WAYS;
}

static struct cost *find(const struct costs *costs, uint64_t key)
{
	const struct cost *way = &costs->entry[first_way(key)];

	for (int i = 0; i < COST_WAYS; i++) {
		if (way[i].key == key)
			return (struct cost *)&way[i];
	}
	return NULL;
}

uint64_t cost_of(const struct costs *costs, uint64_t key)
{
	const struct cost *cost = find(costs, key);

	return cost ? cost->ns : 0;
}

void tally_add(struct tally *tally, uint64_t key, uint64_t ns)
{
	tally->ns += ns;
	tally->launches++;
	for (uint32_t i = 0; i < tally->kinds; i++) {
		if (tally->kind[i].key == key) {
			tally->kind[i].launches++;
			return;
		}
	}
	if (tally->kinds < COST_KINDS) {
		tally->kind[tally->kinds].key = key;
		tally->kind[tally->kinds++].launches = 1;
	}
}

static void set(struct costs *costs, uint64_t key, uint64_t ns)
{
	struct cost *cost = find(costs, key);

	if (!cost) { /* the oldest of its ways goes */
		struct cost *way = &costs->entry[first_way(key)];

		for (int i = COST_WAYS - 1; i > 0; i--)
			way[i] = way[i - 1];
		cost = way;
	}
	*cost = (struct cost){key, ns < LEAST_NS ? LEAST_NS : ns};
}

void cost_learn(struct costs *costs, const struct tally *tally, uint64_t busy_ns)
{
	uint64_t expected = tally->ns;

	if (!busy_ns || !tally->launches)
		return;
	if (tally->kinds == 1 && tally->kind[0].launches == tally->launches) {
		uint64_t before = cost_of(costs, tally->kind[0].key);
		uint64_t now = busy_ns / tally->launches;

		set(costs, tally->kind[0].key, before ? (3 * before + now) / 4 : now);
		return;
	}
	/* Who of several was wrong is not known: all are, in proportion and a little at a time. */
	if (!expected)
		return;
	if (busy_ns > 4 * expected)
		busy_ns = 4 * expected;
	for (uint32_t i = 0; i < tally->kinds; i++) {
		uint64_t before = cost_of(costs, tally->kind[i].key);

		if (before)
			set(costs, tally->kind[i].key,
			    (uint64_t)(((unsigned __int128)before * (3 * expected + busy_ns)) /
			               (4 * expected)));
	}
}
