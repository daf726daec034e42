/* What the cards say of a job. */
#include "tools/view/sharing.h"

#include <stdlib.h>

#include "core/base/clock.h"
#include "core/cards/cards.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "tools/view/tool.h"

static bool is_of(const struct segment_view *view, const struct card *card)
{
	for (int i = 0; i < view->process_count; i++)
		if (view->process[i].state == SEAT_LIVE && view->process[i].pid == card->pid)
			return true;
	return false;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Adds a card of the job. A number from elsewhere that has no meaning here is the first. */
static void add(struct sharing_seen *seen, const struct card *card)
{
	seen->priority = card->priority <= PRIORITY_GUARANTEED ? card->priority : PRIORITY_NORMAL;
	seen->turn = card->turn == TURN_WHOLE ? TURN_WHOLE : TURN_FINE;
	seen->is_idle = (!seen->cards || seen->is_idle) && card->idle_since_ns;
	seen->tells_memory |= card->tells_memory != 0;
	seen->entitled = larger(seen->entitled, card->entitled);
	seen->borrowed = larger(seen->borrowed, card->borrowed);
	seen->lent += card->yielded;
	seen->claimed += card->claim;
	if (card->waits < CLAIM_WAITS && card->waits > seen->waits)
		seen->waits = card->waits;
	if (card->turn_state < GANG_STATES)
		seen->turn_state = card->turn_state;
	if (card->turn_why < GANG_WHYS)
		seen->turn_why = card->turn_why;
	seen->cards++;
}

void sharing_see(const struct segment_view *view, int device, struct sharing_seen *seen)
{
	char node[DIRECTORY_MAX + 1], state[DIRECTORY_MAX + 1];
	struct cards *cards = malloc(sizeof *cards);

	*seen = (struct sharing_seen){.priority = PRIORITY_NORMAL};
	if (!cards)
		fail("out of memory");
	cards_start(cards, directory_of_node(node, sizeof node),
	            directory_path(state, sizeof state), view->device[device].uuid, 0);
	cards_look(cards, clock_now());
	for (int i = 0; i < cards->count; i++) {
		const struct card *card = &cards->other[i].card;

		if (is_of(view, card))
			add(seen, card);
		else
			seen->others++;
		if (card->turn == TURN_WHOLE && card->turn_state == GANG_HAS)
			seen->turn_of = card->pid;
	}
	cards_end(cards);
	free(cards);
}
