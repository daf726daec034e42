/* SPDX-License-Identifier: MIT */
/* A process's ledger, written by a test. */
#ifndef SPILLWAY_TEST_LEDGER_H
#define SPILLWAY_TEST_LEDGER_H

#include "core/budget/applied.h"

static inline void ledger_says(struct segment *segment, const struct facts *facts)
{
	publish_value(&segment_own(segment, 0).ledger->facts, facts);
}

/* Says a limit to the job, as a process does that had no settings before. */
static inline void apply_limit(struct segment *segment, int device, uint64_t limit)
{
	segment_apply_limit(segment, device,
	                    &(const struct applied_limit){.limit = limit, .settings = limit});
}

#endif
