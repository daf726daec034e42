/* SPDX-License-Identifier: MIT */
/*
 * What a job is to others on its GPUs, and they to it, as its processes' peer records say it
 * (core/peers/peer.h). A peer record is the job's by its user and the token of the job's books.
 */
#ifndef SPILLWAY_VIEW_SHARING_H
#define SPILLWAY_VIEW_SHARING_H

#include <stdbool.h>

#include "core/config/config.h"
#include "core/modules/sharing/grant.h"
#include "core/modules/sharing/member.h"
#include "core/state/segment.h"

struct sharing_seen {
	int peers, others; /* processes of the job, and of other jobs, on the GPU */
	enum config_priority priority;
	enum config_turn turn;
	bool tells_memory, is_idle;
	bool is_measured;                /* what follows, while others fill the job's gaps: */
	uint64_t speed_alone, speed_now; /* launches in 1,000 s */
	int32_t loss_ppm;
	uint32_t loss_error_ppm;
	uint32_t takes_ppm; /* of the gaps of others that it may have; 0: it fills none */
	uint64_t entitled, lent, borrowed, claimed; /* bytes of the whole job */
	enum claim_wait waits;
	enum gang_state turn_state;
	enum gang_why turn_why;
	int turn_of; /* a process that has an exclusive turn there, of whatever job; 0: none */
};

/* Reads what there is of one device of a job; peer records as they were 100 ms ago at the most. */
void sharing_see(const struct segment_view *view, int device, struct sharing_seen *seen);
const char *sharing_priority_word(enum config_priority priority);

#endif
