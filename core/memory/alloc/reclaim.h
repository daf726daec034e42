/* SPDX-License-Identifier: MIT */
/*
 * Reclaim: the one way to make room.
 *
 * A call that finds no room says what it lacks (struct lack) and keeps what it has. Who began the
 * request takes the reclaim steps for it, the same for all, and lets the call go on after each from
 * which something has come back:
 *
 * spares   chunks that are kept for the next who wants one, and slabs that hold nothing
 * pools    what the driver keeps for pools and graphs and nobody uses
 * freed    what the program has freed and no work uses any more; then what work still uses, which
 *          is waited for
 * dead     what processes have left behind, and what those that are dying still hold
 * demote   others' memory goes to the host, for memory that cannot be there itself
 * claim    other jobs give what they borrow, or do not use, for the same
 *
 * Nobody goes down it again, so that a request ends: what it takes in all is its deadline.
 * Thread-safe.
 *
 * What drains is waited for, 2 s at most, before anything is spilled: a rerun right after a kill
 * would otherwise begin on the host.
 *
 * What the program has freed and work in flight still uses is waited for before it is refused,
 * however long that takes: the driver's cuMemFree would have.
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
	bool may_demote; /* what is wanted cannot be on the host; not in the gate */
	bool moves;      /* for memory that is there, on its other tier */
	unsigned int step[2], demotions; /* how far it has come, by enum segment_tier */
};

/*
 * Returns how long a request may be kept waiting: for what drains and for what was freed; for_good:
 * for the mover, too, because it cannot be served on the host.
 */
struct deadline reclaim_deadline(const struct terms *terms, bool for_good);
/*
 * Goes up until something has come back. Returns whether it has, so that what was refused is worth
 * another try.
 */
bool reclaim(struct reclaim *request, const struct lack *lack);
/*
 * Waits, before the program is refused, for what it has freed, however long that takes, as if each
 * free had waited; that is the driver's wait for the program's own work, no patience of ours, and
 * so not within the deadline. in_order: the program allocates in stream order and does not expect
 * to wait. Returns whether anything came back.
 */
bool reclaim_all_freed(struct reclaim *request, uint64_t bytes, bool in_order);
/* Gives back what nobody uses on a device, for the mover. Returns whether there was any. */
bool reclaim_unused(struct device *device);

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
