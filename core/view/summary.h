/* SPDX-License-Identifier: MIT */
/*
 * Summaries: what is shown of a job, from a copy of its segment that was read and checked (view.c).
 * Private.
 */
#ifndef SPILLWAY_SUMMARY_H
#define SPILLWAY_SUMMARY_H

#include "core/state/layout.h"

/* A copy that was read of a job. Seats that are not in use, and devices that were not met, are
 * neither read nor looked at. */
struct job_copy {
	struct segment_file file;
	uid_t owner;
	uint16_t changing[SEGMENT_SEATS]; /* a bit per device whose facts could not be had whole */
	enum segment_seat_state state[SEGMENT_SEATS]; /* now */
	struct ledger_copy ledger[SEGMENT_SEATS];     /* of the live ones, of the device at hand */
};

/* Shows it. Returns 0, or -ENOMEM. */
int summary_of(struct job_copy *job, struct segment_view *view);

#endif
