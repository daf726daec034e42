/* SPDX-License-Identifier: MIT */
/* What the cards say of a job. */
#include "tools/view/sharing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/cards/cards.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "tools/view/tool.h"

/* Cards are read anew after so long. */
#define FRESH_NS 100000000ull

/*
 * Returns whether a process of the job made it. Everybody may know the job's token, and only its
 * user can have files of his own; a pid proves nothing.
 */
static bool is_of(const struct segment_view *view, const struct cards_other *other)
{
	return other->owner == view->owner && other->card.segment &&
	       other->card.segment == view->token;
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

/* Adds what a job bears by others, and what it takes of theirs. */
static void add_speed(struct sharing_seen *seen, const struct card *card)
{
	if (card->loss_number) {
		seen->is_measured = true;
		seen->speed_alone += card->speed_alone;
		seen->speed_now += card->speed_now;
		seen->loss_ppm = card->loss_ppm;
		seen->loss_error_ppm = card->loss_error_ppm;
	}
	if (card->asked_ns > clock_now() && card->takes_ppm > seen->takes_ppm)
		seen->takes_ppm = card->takes_ppm;
}

/* Returns the cards of a device. Those of several devices are kept, as jobs are gone through. */
static const struct cards *read_cards(const char *uuid)
{
	static struct {
		char uuid[64], node[DIRECTORY_MAX + 1], state[DIRECTORY_MAX + 1];
		struct cards cards;
	} * kept[SEGMENT_DEVICES];
	static unsigned next;
	char state[DIRECTORY_MAX + 1];
	unsigned i = 0;

	directory_path(state, sizeof state);
	while (i < SEGMENT_DEVICES && kept[i] &&
	       (strcmp(kept[i]->uuid, uuid) != 0 || strcmp(kept[i]->state, state) != 0))
		i++;
	if (i == SEGMENT_DEVICES) {
		i = next++ % SEGMENT_DEVICES;
		cards_end(&kept[i]->cards);
		free(kept[i]);
		kept[i] = NULL;
	}
	if (!kept[i]) {
		kept[i] = calloc(1, sizeof *kept[i]);
		if (!kept[i])
			fail("out of memory");
		snprintf(kept[i]->uuid, sizeof kept[i]->uuid, "%s", uuid);
		memcpy(kept[i]->state, state, sizeof state);
		cards_start(&kept[i]->cards, directory_of_node(kept[i]->node, sizeof kept[i]->node),
		            kept[i]->state, kept[i]->uuid, 0);
	}
	if (clock_now() - kept[i]->cards.looked_ns > FRESH_NS)
		cards_look(&kept[i]->cards, clock_now());
	return &kept[i]->cards;
}

void sharing_see(const struct segment_view *view, int device, struct sharing_seen *seen)
{
	const struct cards *cards = read_cards(view->device[device].uuid);

	*seen = (struct sharing_seen){.priority = PRIORITY_NORMAL};
	for (int i = 0; i < cards->count; i++) {
		const struct card *card = &cards->other[i].card;
		bool is_own = is_of(view, &cards->other[i]);

		if (is_own) {
			add(seen, card);
			add_speed(seen, card);
		} else {
			seen->others++;
		}
		if (card->turn == TURN_WHOLE && card->turn_state == GANG_HAS &&
		    (is_own || !seen->turn_of))
			seen->turn_of = card->pid;
	}
}

const char *sharing_priority_word(enum config_priority priority)
{
	return priority == PRIORITY_OPPORTUNISTIC ? "opportunistic"
	       : priority == PRIORITY_GUARANTEED  ? "guaranteed"
	                                          : "normal";
}
