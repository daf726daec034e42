/* SPDX-License-Identifier: MIT */
/*
 * forge_record UUID PRIORITY: a peer record that lies. Until it is killed it claims all of the
 * device since the beginning of time. It asks one job after the other there to give all memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/peers/peers.h"
#include "core/state/directory.h"

enum { LIE_US = 20000 };

static void claim_all(struct peer_record *record, unsigned i, const struct peers *others)
{
	record->tells_memory = 1;
	record->limit = record->claim = record->on_host = UINT64_MAX;
	record->claim_since_ns = 1 + i / 50;
	record->asks_down_to = 0;
	if (others->count) {
		const struct peers_other *other = &others->other[i % (unsigned)others->count];

		record->asks_job = other->record.job;
		record->asks_owner = other->owner;
	}
}

int main(int argc, char **argv)
{
	static char node[DIRECTORY_MAX + 1], state[DIRECTORY_MAX + 1];
	static struct peer_own own = {.now = {.job = 1}};
	static struct peers others;
	char message[512];

	if (argc != 3) {
		fprintf(stderr, "forge_record UUID PRIORITY\n");
		return 2;
	}
	own.now.priority = (uint8_t)strtoul(argv[2], NULL, 10);
	directory_of_node(node, sizeof node);
	directory_path(state, sizeof state);
	if (peer_make(&own, node, argv[1], message, sizeof message) != 0) {
		fprintf(stderr, "forge_record: %s\n", message);
		return 1;
	}
	peers_start(&others, node, state, own.uuid, own.place.token);
	for (unsigned i = 0;; i++) {
		struct peer_record *record;

		peers_look(&others, clock_now());
		record = peer_edit(&own);
		record->priority = (uint8_t)strtoul(argv[2], NULL, 10);
		claim_all(record, i, &others);
		peer_publish(&own, clock_now());
		peers_ring(&others);
		usleep(LIE_US);
	}
}
