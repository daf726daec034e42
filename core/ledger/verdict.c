/* SPDX-License-Identifier: MIT */
/* Verdicts. A pure function: it reads its arguments alone. */
#include "core/ledger/verdict.h"

static uint64_t higher(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns why the mover did not move, under the settings that are in force. */
static enum move_pending blocker_of(const struct ledger_copy *ledger)
{
	return ledger->facts.blocker_generation == ledger->facts.generation
	           ? (enum move_pending)ledger->facts.blocker
	           : MOVE_NONE;
}

/* Returns why memory of the process stays on the device that is to leave it. */
static enum held_reason verdict_why_it_stays(const struct ledger_copy *ledger,
                                             const struct standing *standing)
{
	if (ledger->facts.elastic != ELASTIC_YES)
		return HELD_FOREIGN;
	switch (blocker_of(ledger)) {
	case MOVE_HOST_LIMIT:
		return HELD_HOST_FULL;
	case MOVE_PINNED:
		return ledger->pinned || standing->orphaned ? HELD_PINNED : HELD_FOREIGN;
	default:
		return HELD_PENDING;
	}
}

/* Returns the gravest reason of the processes that hold memory there. */
static enum held_reason why_held(const struct ledger_copy *ledger, int count,
                                 const struct standing *standing)
{
	enum held_reason why = HELD_NONE;

	for (int i = 0; i < count; i++)
		if (ledger[i].charged[0])
			why = (enum held_reason)higher(why,
			                               verdict_why_it_stays(&ledger[i], standing));
	/* No live process: it is memory of dead ones. */
	if (why == HELD_NONE)
		why = standing->orphaned ? HELD_PINNED : HELD_FOREIGN;
	return why;
}

static void add_newest(struct verdict *verdict, const struct facts *facts)
{
	if (facts->limit >= verdict->limit)
		verdict->grown = facts->grown;
	verdict->limit = higher(verdict->limit, facts->limit);
	verdict->share = higher(verdict->share, facts->share);
	verdict->evicted = higher(verdict->evicted, facts->evicted);
}

struct verdict verdict_of(const struct ledger_copy *ledger, int count,
                          const struct standing *standing)
{
	struct verdict verdict = {.generation = standing->generation};
	bool is_changing = false, is_behind = false;
	uint64_t newest = 0;

	for (int i = 0; i < count; i++)
		newest = higher(newest, ledger[i].facts.generation);
	verdict.generation = higher(verdict.generation, newest);
	for (int i = 0; i < count; i++) {
		const struct facts *facts = &ledger[i].facts;

		is_changing |= !ledger[i].is_whole;
		verdict.elastic = higher(verdict.elastic, facts->elastic);
		verdict.pending =
		    (enum move_pending)higher(verdict.pending, blocker_of(&ledger[i]));
		is_behind |= facts->generation && facts->generation < verdict.generation;
		if (facts->generation == newest)
			add_newest(&verdict, facts);
	}
	verdict.limit_held = higher(verdict.limit, newest ? standing->charged : 0);
	if (newest && standing->charged > (verdict.evicted ? 0 : verdict.limit))
		verdict.beyond = standing->charged - (verdict.evicted ? 0 : verdict.limit);
	if (is_changing)
		verdict.held = HELD_CHANGING;
	else if (is_behind)
		verdict.held = HELD_PENDING;
	else if (verdict.beyond)
		verdict.held = why_held(ledger, count, standing);
	return verdict;
}
