/* SPDX-License-Identifier: MIT */
/*
 * Choosing what to move: the best few of many, by a heap whose root is the worst that is kept. So
 * most candidates cost one comparison, and none has others shifted: an arena has tens of thousands
 * of chunks, which are gone through under its lock.
 */
#include "core/memory/move/movable.h"

static bool movable_goes_before(const struct choice *choice, const struct candidate *a,
                                const struct candidate *b)
{
	if (a->rank == b->rank)
		return a->order < b->order;
	return choice->hottest ? a->rank > b->rank : a->rank < b->rank;
}

/* Puts a candidate at a place of the heap, or at one below it: each goes behind those below it. */
static void movable_sift_down(struct choice *choice, size_t at, size_t count, struct candidate c)
{
	for (;;) {
		size_t below = 2 * at + 1;

		if (below + 1 < count &&
		    movable_goes_before(choice, &choice->of[below], &choice->of[below + 1]))
			below++;
		if (below >= count || movable_goes_before(choice, &choice->of[below], &c))
			break;
		choice->of[at] = choice->of[below];
		at = below;
	}
	choice->of[at] = c;
}

static void sift_up(struct choice *choice, size_t at, struct candidate c)
{
	for (size_t above; at > 0; at = above) {
		above = (at - 1) / 2;
		if (!movable_goes_before(choice, &choice->of[above], &c))
			break;
		choice->of[at] = choice->of[above];
	}
	choice->of[at] = c;
}

void movable_begin(struct choice *choice, bool hottest)
{
	choice->count = 0;
	choice->considered = 0;
	choice->hottest = hottest;
	choice->except = 0;
	choice->each = NULL;
	choice->never_waits = choice->has_missed = false;
}

void movable_consider(struct choice *choice, const struct candidate *candidate)
{
	struct candidate c = *candidate;

	if (choice->each) {
		choice->each(choice->cookie, candidate);
		return;
	}
	if (choice->except && choice->except == c.run)
		return;
	c.order = choice->considered++;
	if (choice->count < MOVES_MAX) {
		sift_up(choice, choice->count, c);
		choice->count++;
	} else if (movable_goes_before(choice, &c, &choice->of[0])) {
		movable_sift_down(choice, 0, choice->count, c);
	}
}

void movable_end(struct choice *choice)
{
	for (size_t left = choice->count; left-- > 1;) {
		struct candidate last = choice->of[left];

		choice->of[left] = choice->of[0];
		movable_sift_down(choice, 0, left, last);
	}
}
