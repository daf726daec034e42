/* SPDX-License-Identifier: MIT */
/* What the peer records say of a job. */
#include "tools/view/sharing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/peers/peers.h"
#include "core/config/config.h"
#include "core/state/directory.h"
#include "tools/view/tool.h"

/* Peer records are read anew after so long. */
#define FRESH_NS 100000000ull

/*
 * Returns whether a process of the job made it. Everybody may know the job's token, and only its
 * user can have files of his own; a pid proves nothing.
 */
static bool is_of(const struct segment_view *view, const struct peers_other *other)
{
	return other->owner == view->owner && other->record.segment &&
	       other->record.segment == view->token;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Adds a peer record of the job. A number from elsewhere that has no meaning here is the first. */
static void view_sharing_add(struct sharing_seen *seen, const struct peer_record *record)
{
	seen->priority =
	    record->priority <= PRIORITY_GUARANTEED ? record->priority : PRIORITY_NORMAL;
	seen->turn = record->turn == TURN_EXCLUSIVE ? TURN_EXCLUSIVE : TURN_FINE;
	seen->is_idle = (!seen->peers || seen->is_idle) && record->idle_since_ns;
	seen->tells_memory |= record->tells_memory != 0;
	seen->entitled = larger(seen->entitled, record->entitled);
	seen->borrowed = larger(seen->borrowed, record->borrowed);
	seen->lent += record->yielded;
	seen->claimed += record->claim;
	if (record->waits < CLAIM_WAITS && record->waits > seen->waits)
		seen->waits = record->waits;
	if (record->turn_state < GANG_STATES)
		seen->turn_state = record->turn_state;
	if (record->turn_why < GANG_WHYS)
		seen->turn_why = record->turn_why;
	seen->peers++;
}

/* Adds what a job bears by others, and what it takes of theirs. */
static void add_speed(struct sharing_seen *seen, const struct peer_record *record)
{
	if (record->loss_number) {
		seen->is_measured = true;
		seen->speed_alone += record->speed_alone;
		seen->speed_now += record->speed_now;
		seen->loss_ppm = record->loss_ppm;
		seen->loss_error_ppm = record->loss_error_ppm;
	}
	if (record->asked_ns > clock_now() && record->takes_ppm > seen->takes_ppm)
		seen->takes_ppm = record->takes_ppm;
}

/*
 * Returns the peer records of a device. Those of several devices are kept, as jobs are gone
 * through.
 */
static const struct peers *read_peers(const char *uuid)
{
	static struct {
		char uuid[64], node[DIRECTORY_MAX + 1], state[DIRECTORY_MAX + 1];
		struct peers peers;
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
		peers_end(&kept[i]->peers);
		free(kept[i]);
		kept[i] = NULL;
	}
	if (!kept[i]) {
		kept[i] = calloc(1, sizeof *kept[i]);
		if (!kept[i])
			fail("out of memory");
		snprintf(kept[i]->uuid, sizeof kept[i]->uuid, "%s", uuid);
		memcpy(kept[i]->state, state, sizeof state);
		peers_start(&kept[i]->peers, directory_of_node(kept[i]->node, sizeof kept[i]->node),
		            kept[i]->state, kept[i]->uuid, 0);
	}
	if (clock_now() - kept[i]->peers.looked_ns > FRESH_NS)
		peers_look(&kept[i]->peers, clock_now());
	return &kept[i]->peers;
}

void sharing_see(const struct segment_view *view, int device, struct sharing_seen *seen)
{
	const struct peers *peers = read_peers(view->device[device].uuid);

	*seen = (struct sharing_seen){.priority = PRIORITY_NORMAL};
	for (int i = 0; i < peers->count; i++) {
		const struct peer_record *record = &peers->other[i].record;
		bool is_own = is_of(view, &peers->other[i]);

		if (is_own) {
			view_sharing_add(seen, record);
			add_speed(seen, record);
		} else {
			seen->others++;
		}
		if (record->turn == TURN_EXCLUSIVE && record->turn_state == GANG_HAS &&
		    (is_own || !seen->turn_of))
			seen->turn_of = record->pid;
	}
}

const char *sharing_priority_word(enum config_priority priority)
{
	return priority == PRIORITY_OPPORTUNISTIC ? "opportunistic"
	       : priority == PRIORITY_GUARANTEED  ? "guaranteed"
	                                          : "normal";
}
