/* SPDX-License-Identifier: MIT */
/*
 * Reclaim: the one way to make room.
 *
 * A call that finds no room reports its lack (struct lack) and keeps its memory. The request's
 * owner takes the reclaim steps for it, the same for all, and lets the call go on after each step
 * that brought memory back:
 *
 * spares   chunks that are kept for the next request, and empty slabs
 * pools    memory that the driver keeps for pools and graphs without use
 * freed    memory that the program has freed and no work uses any more. Then memory that work still
 *          uses: the work is waited for
 * dead     memory that processes have left behind, and memory of processes that are dying
 * demote   other memory goes to the host, for memory that cannot be there itself
 * claim    other jobs give memory that they borrow, or do not use, for the same
 *
 * No step is taken twice, so that a request ends: its deadline bounds all of them together.
 * Thread-safe.
 *
 * Draining memory is waited for, 2 s at most, before anything is spilled: a rerun just after a kill
 * would otherwise begin on the host.
 *
 * Memory that the program has freed and work in flight still uses is waited for before a request is
 * refused, for any time: the driver's cuMemFree would have waited, too.
 */
#ifndef SPILLWAY_RECLAIM_H
#define SPILLWAY_RECLAIM_H

#include "core/base/deadline.h"
#include "core/budget/device.h"
#include "core/budget/refusal.h"
#include "core/budget/terms.h"

/* A request on its way up. */
struct reclaim {
	struct device *device;
	const struct terms *terms;
	struct deadline
	    *until;      /* the one for everything it waits for; NULL: it waits for nothing */
	bool may_demote; /* the wanted memory cannot be on the host; not in the gate */
	bool moves;      /* for memory that is there, on its other tier */
	unsigned int step[2], demotions; /* how far it has come, by enum segment_tier */
};

/*
 * Returns how long a request may be kept waiting: for draining and for freed memory; for_good: for
 * the mover, too, because it cannot be served on the host.
 */
struct deadline reclaim_deadline(const struct terms *terms, bool for_good);
/*
 * Takes steps until one has brought memory back. Returns whether one has, so that the refused call
 * is worth another try.
 */
bool reclaim(struct reclaim *request, const struct lack *lack);
/*
 * Waits, before the program is refused, for memory that it has freed, as if each free had waited.
 * It waits for any time: that is the driver's wait for the program's own work, and our deadline
 * does not bound it. in_order: the program allocates in stream order and does not expect to wait.
 * Returns whether anything came back.
 */
bool reclaim_all_freed(struct reclaim *request, uint64_t bytes, bool in_order);

/*
 * Charges bytes of a tier, with all the room that can be made. Returns 0 or a negative
 * errno as device_charge() does.
 */
int reclaim_and_charge(struct reclaim *request, enum segment_tier tier, uint64_t bytes);
/*
 * Charges as reclaim_and_charge() does, for device memory that is no allocation's and can only be
 * there. May wait for the mover; not to be called in the gate.
 */
int reclaim_for_good(struct device *device, uint64_t bytes);

#endif
