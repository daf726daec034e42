/* SPDX-License-Identifier: MIT */
/*
 * How a process's memory is placed on a device, and what that is worth: one word, so that whoever
 * looks has all of it, or 0. It stands beside the ledger; the mover alone writes it.
 */
#ifndef SPILLWAY_PLACED_H
#define SPILLWAY_PLACED_H

#include <stdint.h>

#include "core/ledger/codes.h"

struct placed {
	enum placement_code placement;
	enum shrink_code shrink;
	/*
	 * The time of the program's kernels, in percent of what they take with nothing on the host,
	 * as a survey found it, and as it said it would be with memory where it is best; 0: none
	 * was made. At most PLACED_MOST.
	 */
	uint32_t before, best;
};

#define PLACED_MOST ((UINT32_C(1) << 24) - 1)

static inline uint64_t placed_pack(const struct placed *placed)
{
	return (uint64_t)placed->placement | (uint64_t)placed->shrink << 8 |
	       (uint64_t)placed->before << 16 | (uint64_t)placed->best << 40;
}

static inline struct placed placed_unpack(uint64_t word)
{
	return (struct placed){.placement = (enum placement_code)(word & 0xff),
	                       .shrink = (enum shrink_code)(word >> 8 & 0xff),
	                       .before = word >> 16 & PLACED_MOST,
	                       .best = word >> 40 & PLACED_MOST};
}

#endif
