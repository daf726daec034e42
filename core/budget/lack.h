/* SPDX-License-Identifier: MIT */
/*
 * Lack: the room that is missing to a call which answers "no room". It keeps what it has, and goes
 * on where it is called again after room was made (memory/alloc/reclaim.h).
 */
#ifndef SPILLWAY_LACK_H
#define SPILLWAY_LACK_H

#include <stdint.h>

#include "core/ledger/codes.h"
#include "core/state/segment.h"

struct lack {
	enum segment_side side;
	uint64_t bytes;        /* in all; 0: it is not room that is lacking */
	uint64_t least;        /* of them of use alone */
	enum spill_reason why; /* SPILL_NONE on the host: it is the process that has no memory */
};

#endif
