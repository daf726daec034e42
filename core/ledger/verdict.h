/* SPDX-License-Identifier: MIT */
/*
 * Verdicts: the conclusions from the ledgers of a job's processes on one device: which limit is in
 * force, whether it is held, and why not. Computed at each question, by one function without a
 * state; stored nowhere, so no verdict can be older than its facts.
 */
#ifndef SPILLWAY_VERDICT_H
#define SPILLWAY_VERDICT_H

#include "core/ledger/ledger.h"

/* The facts of a job that are judged by, beyond the ledgers. */
struct standing {
	uint64_t charged;    /* on the device, to the whole job, ended processes included */
	uint64_t orphaned;   /* of it: exported, and its owner is gone */
	uint64_t generation; /* of settings that some process of the job is known to have; else 0 */
};

struct verdict {
	uint64_t generation; /* the newest; 0: no process has met the device */
	uint64_t limit, grown, share, evicted,
	    elastic;         /* as in struct facts, by the newest settings */
	uint64_t limit_held; /* the limit that could be reached: the charges where they are more */
	uint64_t beyond;     /* bytes on the device beyond the limit, or of an evicted job */
	enum held_reason held;
	enum move_pending pending; /* why a move waits */
};

/* Judges the ledgers of the live processes of a job, or of one of them alone. */
struct verdict verdict_of(const struct ledger_copy *ledger, int count,
                          const struct standing *standing);

#endif
