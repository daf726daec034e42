/* Choosing what to move. Rules: by the mover thread alone. */
#include "core/memory/movable.h"

#include "core/memory/heat.h"

uint64_t movable_rank(uint32_t touched, uint32_t now)
{
	return (uint64_t)heat_of(touched, now) << 32 | touched;
}

static bool goes_before(const struct candidate *a, const struct candidate *b, bool hottest)
{
	return hottest ? a->rank > b->rank : a->rank < b->rank;
}

void movable_consider(struct choice *choice, const struct candidate *candidate, bool hottest)
{
	size_t at = choice->count;

	if (at < MOVES_MAX)
		choice->count++;
	else if (!goes_before(candidate, &choice->of[--at], hottest))
		return;
	for (; at > 0 && goes_before(candidate, &choice->of[at - 1], hottest); at--)
		choice->of[at] = choice->of[at - 1];
	choice->of[at] = *candidate;
}
