/* SPDX-License-Identifier: MIT */
/*
 * The ledger: the facts of one process on one device. It stands in the process's slot, or,
 * where the process has none, in its own memory. Conclusions from it are computed (verdict.h) and
 * stored nowhere.
 *
 * facts     of the settings, and the mover's results under them. They are published together
 *           (publish.h), so a process that is killed while it writes them leaves the old ones
 * words     charges and peaks, which change under the segment's lock, or the device's where there
 *           is no segment. Spares and memory that must stay are words, too, and any thread counts
 *           them. A reader of the facts first and then the words sees charges that are at least as
 *           new as the limit it compares them with
 * open      charges that their process changes without the lock, in one atomic operation each. A
 *           bit of the word itself says so. A thread that takes the bit away, under the lock or
 *           without, knows all charges before it, and none comes after (quota.c)
 */
#ifndef SPILLWAY_LEDGER_H
#define SPILLWAY_LEDGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/publish.h"
#include "core/ledger/codes.h"

enum { LEDGER_TIERS = 2 }; /* enum segment_tier */

struct facts {
	uint64_t
	    generation; /* of the job's settings on the device; 0: the process has not met it */
	uint64_t limit; /* in force, as far as it has risen; UINT64_MAX: none */
	uint64_t grown; /* of it: by how much it has risen by itself */
	uint64_t share;
	uint64_t evicted;            /* 1: all that can move is to be on the host */
	uint64_t elastic;            /* enum elastic: whether memory can move */
	uint64_t blocker;            /* enum move_pending: why the mover did not move, */
	uint64_t blocker_generation; /* and under which settings */
};

/*
 * Limits that something else enforces (core/modules/limits): one more than the hard one, 0: none;
 * the soft one; where each comes from (limit_source_pack()); the memory of the device that all jobs
 * leave free.
 */
enum { OUTSIDE_HARD, OUTSIDE_SOFT, OUTSIDE_SOURCES, OUTSIDE_RESERVE, LEDGER_OUTSIDE };

#define LEDGER_OPEN ((uint64_t)1 << 63)

struct ledger {
	PUBLISHED(struct facts) facts;
	_Atomic uint64_t charged[LEDGER_TIERS], peak[LEDGER_TIERS];
	_Atomic uint64_t spare[LEDGER_TIERS]; /* part of the charges: held ready for new chunks */
	_Atomic uint64_t pinned; /* part of the charges: memory that must stay on the device */
	_Atomic uint64_t driver_used,
	    driver_peak; /* part of the charges: memory that the driver took for itself */
	_Atomic uint64_t outside[LEDGER_OUTSIDE]; /* 0 from a process that does not know them */
	_Atomic uint64_t reserved[2];             /* 0 in version 8 of the segment */
};

/* A copy of a ledger, to be judged. */
struct ledger_copy {
	bool is_whole; /* false: its facts change too often to be copied, and are 0 here */
	struct facts facts;
	uint64_t charged[LEDGER_TIERS], peak[LEDGER_TIERS], spare[LEDGER_TIERS], pinned;
	uint64_t driver_used, driver_peak, outside[LEDGER_OUTSIDE];
};

struct ledger_copy ledger_read(const struct ledger *ledger);
/* Makes an empty one of it; a reader meanwhile finds whole facts. */
void ledger_clear(struct ledger *ledger);
/* Lets the facts be those of a process that has not met the device. */
static inline void ledger_forget_facts(struct ledger *ledger)
{
	const struct facts none = {0};

	publish_value(&ledger->facts, &none);
}
/* Sets the peaks of a dead process to 0: a later run of its job does not count them. */
void ledger_forget_peak(struct ledger *ledger);

static inline uint64_t ledger_charged(const struct ledger *ledger, int tier)
{
	return atomic_load_explicit(&ledger->charged[tier], memory_order_relaxed) & ~LEDGER_OPEN;
}

/* Ends the time in which the charges change without the lock (quota.c). */
void ledger_close(struct ledger *ledger, int tier);
/*
 * Gives charged bytes back; as in quota.c the caller holds the lock, and the charges are closed.
 * Returns how many of the bytes were not charged, and cannot be given back.
 */
uint64_t ledger_give_back(struct ledger *ledger, int tier, uint64_t bytes);

#endif
