/*
 * forge_card UUID PRIORITY: a card that lies. Until it is killed it claims all of the device since
 * the beginning of time, and asks one job after the other there to give everything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/cards/cards.h"
#include "core/config/config.h"
#include "core/state/directory.h"

enum { LIE_US = 20000 };

int main(int argc, char **argv)
{
	static char node[DIRECTORY_MAX + 1], state[DIRECTORY_MAX + 1];
	static struct card_own own = {.now = {.job = 1}};
	static struct cards others;
	char message[512];

	if (argc != 3) {
		fprintf(stderr, "forge_card UUID PRIORITY\n");
		return 2;
	}
	directory_of_node(node, sizeof node);
	directory_path(state, sizeof state);
	if (card_make(&own, node, argv[1], message, sizeof message) != 0) {
		fprintf(stderr, "forge_card: %s\n", message);
		return 1;
	}
	cards_start(&others, node, state, own.uuid, own.place.token);
	for (unsigned i = 0;; i++) {
		struct card *card;
		int count;

		count = cards_look(&others, clock_now());
		card = card_edit(&own);
		card->priority = (uint8_t)strtoul(argv[2], NULL, 10);
		card->tells_memory = 1;
		card->limit = card->claim = card->on_host = UINT64_MAX;
		card->claim_since_ns = 1 + i / 50;
		card->asks_down_to = 0;
		if (count) {
			card->asks_job = others.other[i % (unsigned)count].card.job;
			card->asks_owner = others.other[i % (unsigned)count].owner;
		}
		card_publish(&own, clock_now());
		cards_ring(&others);
		usleep(LIE_US);
	}
}
