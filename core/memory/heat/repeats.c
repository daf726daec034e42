/* SPDX-License-Identifier: MIT */
/*
 * Repeats. A launch that was met before suggests the period: the distance to when it was. While
 * each launch is the one that came a period earlier that holds; the first that is not suggests
 * another.
 */
#include "core/memory/heat/repeats.h"

#include <stdlib.h>

enum { KEPT = 2 * REPEATS_LONGEST, SLOT_BITS = 15 };

struct repeats {
	uint64_t count;        /* launches so far */
	uint64_t launch[KEPT]; /* the newest of them, each at its number modulo KEPT */
	uint64_t
	    met[1 << SLOT_BITS]; /* by what was launched: the number it had last, and 1; 0: none */
	uint64_t period;         /* suggested; 0: none is */
	uint64_t since;          /* the number of the first launch that bears it out */
};

struct repeats *repeats_create(void)
{
	return calloc(1, sizeof(struct repeats));
}

static uint64_t launch_at(const struct repeats *r, uint64_t number)
{
	return r->launch[number % KEPT];
}

/* Returns how many launches ago the newest one was met last, or 0. */
static uint64_t distance(const struct repeats *r, uint64_t met)
{
	uint64_t number = r->count - 1;

	if (!met || number - (met - 1) > REPEATS_LONGEST ||
	    launch_at(r, met - 1) != launch_at(r, number))
		return 0;
	return number - (met - 1);
}

static bool has_period(const struct repeats *r)
{
	uint64_t before = r->since - r->period, repeated = r->count - r->since;

	return r->period && repeated >= r->period && repeated + r->period >= before;
}

bool repeats_take(struct repeats *r, uint64_t launch)
{
	uint64_t *slot = &r->met[launch * 0x9e3779b97f4a7c15u >> (64 - SLOT_BITS)];
	uint64_t met = *slot;

	r->launch[r->count % KEPT] = launch;
	*slot = ++r->count;
	if (!r->period || launch_at(r, r->count - 1 - r->period) != launch) {
		r->period = distance(r, met);
		r->since = r->count - 1;
	}
	return r->count <= REPEATS_PATIENCE || has_period(r);
}

size_t repeats_period(const struct repeats *r, uint64_t *since)
{
	*since = r->since;
	return has_period(r) ? (size_t)r->period : 0;
}
