/* SPDX-License-Identifier: MIT */
/* A process's ledger, written by a test. */
#ifndef SPILLWAY_TEST_LEDGER_H
#define SPILLWAY_TEST_LEDGER_H

#include "core/budget/claims.h"

static inline void ledger_says(struct segment *segment, const struct facts *facts)
{
	publish_value(&segment_ledger(segment, 0)->facts, facts);
}

/* Says a limit to the job, as a process does that had no settings before. */
static inline void claim_limit(struct segment *segment, int device, uint64_t limit)
{
	segment_claim(segment, device, &(const struct claim){.limit = limit, .settings = limit});
}

#endif
