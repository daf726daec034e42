/*
 * What a job is to others on its GPUs, and they to it, as its processes' cards say it
 * (core/cards/card.h). Cards are found by the processes of the job's view.
 */
#ifndef SPILLWAY_VIEW_SHARING_H
#define SPILLWAY_VIEW_SHARING_H

#include <stdbool.h>

#include "core/config/config.h"
#include "core/sharing/claim_wait.h"
#include "core/sharing/member.h"
#include "core/state/segment.h"

struct sharing_seen {
	int cards, others; /* processes of the job, and of other jobs, on the GPU */
	enum config_priority priority;
	enum config_turn turn;
	bool tells_memory, is_idle;
	uint64_t entitled, lent, borrowed, claimed; /* bytes of the whole job */
	enum claim_wait waits;
	enum gang_state turn_state;
	enum gang_why turn_why;
	int turn_of; /* a process that has a whole turn there, of whatever job; 0: none */
};

/* Reads what there is of one device of a job. */
void sharing_see(const struct segment_view *view, int device, struct sharing_seen *seen);

#endif
