/* SPDX-License-Identifier: MIT */
/*
 * forge_card UUID PRIORITY: a card that lies. Until it is killed it claims all of the device since
 * the beginning of time, and asks one job after the other there to give everything.
 * forge_card UUID has: it has its whole turn since the beginning of time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/cards/cards.h"
#include "core/config/config.h"
#include "core/sharing/member.h"
#include "core/state/directory.h"

enum { LIE_US = 20000 };

static void claim_all(struct card *card, unsigned i, const struct cards *others)
{
	card->tells_memory = 1;
	card->limit = card->claim = card->on_host = UINT64_MAX;
	card->claim_since_ns = 1 + i / 50;
	card->asks_down_to = 0;
	if (others->count) {
		const struct cards_other *other = &others->other[i % (unsigned)others->count];

		card->asks_job = other->card.job;
		card->asks_owner = other->owner;
	}
}

static void claim_turn(struct card *card)
{
	struct gang_member lie = {.device = {member_device(card)},
	                          .beat_ns = clock_now(),
	                          .state = GANG_HAS,
	                          .wants = true,
	                          .ticket_ns = 1,
	                          .since_ns = 1,
	                          .length_ns = 300000000};

	card->turn = TURN_WHOLE;
	member_tell(&lie, 7, card);
}

int main(int argc, char **argv)
{
	static char node[DIRECTORY_MAX + 1], state[DIRECTORY_MAX + 1];
	static struct card_own own = {.now = {.job = 1}};
	static struct cards others;
	char message[512];

	if (argc != 3) {
		fprintf(stderr, "forge_card UUID PRIORITY | has\n");
		return 2;
	}
	/* The others act on the first writing, too: one with turn = fine is another lie. */
	own.now.turn = strcmp(argv[2], "has") == 0 ? TURN_WHOLE : TURN_FINE;
	own.now.priority = (uint8_t)strtoul(argv[2], NULL, 10);
	directory_of_node(node, sizeof node);
	directory_path(state, sizeof state);
	if (card_make(&own, node, argv[1], message, sizeof message) != 0) {
		fprintf(stderr, "forge_card: %s\n", message);
		return 1;
	}
	cards_start(&others, node, state, own.uuid, own.place.token);
	for (unsigned i = 0;; i++) {
		struct card *card;

		cards_look(&others, clock_now());
		card = card_edit(&own);
		card->priority = (uint8_t)strtoul(argv[2], NULL, 10);
		if (strcmp(argv[2], "has") == 0)
			claim_turn(card);
		else
			claim_all(card, i, &others);
		card_publish(&own, clock_now());
		cards_ring(&others);
		usleep(LIE_US);
	}
}
