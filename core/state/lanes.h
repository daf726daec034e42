/* SPDX-License-Identifier: MIT */
/*
 * What the processes of one job tell each other about pacing, in the job's segment: accounts, and
 * slots in common.
 *
 * lane  one process of the job, by its slot in the segment
 */
#ifndef SPILLWAY_LANES_H
#define SPILLWAY_LANES_H

#include <stdatomic.h>
#include <stdint.h>

enum { LANES_MAX = 4096, LANES_DEVICES = 16 }; /* SEGMENT_SEATS, SEGMENT_DEVICES */

struct lane {
	_Atomic uint64_t seen_ns; /* CLOCK_MONOTONIC; when it last said that it works */
	_Atomic uint32_t devices; /* a bit per device of the segment that it paces */
	_Atomic uint32_t flying;  /* likewise: on which work may be in flight */
	_Atomic uint32_t stuck;   /* and is overdue */
	uint32_t unused;
};

struct lanes {
	_Atomic uint64_t paid_until[LANES_DEVICES]; /* the job's account on each device */
	_Atomic uint64_t slot_until; /* the end of the slot that is common to all devices */
	_Atomic uint64_t reached; /* launches of the device that has most since that: see align.h */
	_Atomic uint32_t changed; /* whoever waits within a slot waits for this word */
	_Atomic uint32_t count;   /* lanes at and above this index were never used */
	struct lane lane[LANES_MAX];
};

#endif
