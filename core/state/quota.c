/* SPDX-License-Identifier: MIT */
/*
 * Quota: job-wide bytes per device and tier, charged under the segment's lock.
 *
 * Runs inside the user's process, on its allocation path: no system call inside the lock, waits
 * have an end. A process slot has its process's charges. The total is only their sum kept at hand,
 * so a process killed between the two leaves nothing that a recount does not set right.
 *
 * open  a process that has no limit, and is alone on a device, charges without the lock: its own
 *       word is then the total, and the total's place names the slot. Its own limit, or another
 *       process's first charge there, closes it. The bit that allows this is taken out of its word,
 *       and the value of the word is the total from then on. The peak of all is that of the one
 *       meanwhile; a reader of a peak takes the highest of the job's and of all slots'
 */
#include <errno.h>

#include "core/base/log.h"
#include "core/state/layout.h"

static bool quota_is_valid(const struct segment *segment, int device, enum segment_tier tier)
{
	return device >= 0 && device < devices_of(&segment->file->header) &&
	       (unsigned)tier < SEGMENT_TIERS;
}

/* --- a ledger's charges --- */

/* Raises a peak. A thread that charged before the charges were closed may still be at it. */
static void ledger_raise_peak(_Atomic uint64_t *word, uint64_t now)
{
	uint64_t peak = quota_get(word);

	while (now > peak && !atomic_compare_exchange_weak(word, &peak, now))
		;
}

/*
 * Charges bytes, or gives them back, without the lock. Returns false, and nothing is done, where
 * the charges are not open, or are fewer than the bytes to give back.
 */
static bool ledger_change_open(struct ledger *ledger, int tier, int64_t bytes)
{
	uint64_t was = quota_get(&ledger->charged[tier]), now;

	do {
		now = was + (uint64_t)bytes;
		if (!(was & now & LEDGER_OPEN))
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
	    &ledger->charged[tier], &was, now, memory_order_relaxed, memory_order_relaxed));
	if (bytes > 0)
		ledger_raise_peak(&ledger->peak[tier], now & ~LEDGER_OPEN);
	return true;
}

/*
 * Charges bytes, or gives them back; the caller holds the lock under which all charges of the job
 * change, and they are closed.
 */
static void ledger_charge(struct ledger *ledger, int tier, uint64_t bytes)
{
	uint64_t now = quota_get(&ledger->charged[tier]) + bytes;

	quota_set(&ledger->charged[tier], now);
	ledger_raise_peak(&ledger->peak[tier], now);
}

/*
 * Counts bytes, part of the charges, that the driver took for itself; negative: that it gave back.
 */
static void ledger_note_driver(struct ledger *ledger, int64_t change)
{
	uint64_t before = atomic_fetch_add(&ledger->driver_used, (uint64_t)change);

	ledger_raise_peak(&ledger->driver_peak, before + (uint64_t)change);
}

/* --- open charges --- */

/* Lets the process charge without the lock from here on, if it may; under the lock. */
static void open_if_alone(struct segment *segment, int device)
{
	_Atomic uint64_t *total = &segment->file->header.charged[device][SEGMENT_ON_DEVICE];
	struct ledger *own = &own_books(segment, device)->ledger;

	if (segment->limit[device].bytes != UINT64_MAX ||
	    quota_get(total) != ledger_charged(own, SEGMENT_ON_DEVICE))
		return;
	quota_set(total, LEDGER_OPEN | (uint64_t)segment->number);
	atomic_fetch_or(&own->charged[SEGMENT_ON_DEVICE], LEDGER_OPEN);
}

/* --- under the lock --- */

/* Gives back bytes of the process; under the lock. Returns how many of them it did not hold. */
static uint64_t quota_give_back(struct segment *segment, int device, enum segment_tier tier,
                                uint64_t bytes)
{
	_Atomic uint64_t *total = &segment->file->header.charged[device][tier];
	uint64_t excess;

	quota_close(segment->file, device);
	excess = ledger_give_back(&own_books(segment, device)->ledger, tier, bytes);
	quota_set(total, quota_get(total) - (bytes - excess));
	return excess;
}

static uint64_t quota_do_settle(struct segment *segment, int device, enum segment_tier tier)
{
	_Atomic uint64_t *owed = &segment->owed[device][tier];
	return quota_get(owed) ? quota_give_back(segment, device, tier, atomic_exchange(owed, 0))
	                       : 0;
}

void quota_settle(struct segment *segment)
{
	for (int d = 0; d < devices_of(&segment->file->header); d++)
		for (int s = 0; s < SEGMENT_TIERS; s++)
			quota_do_settle(segment, d, s);
}

static bool quota_fits(const struct segment *segment, int device, enum segment_tier tier,
                       uint64_t bytes, uint64_t limit)
{
	uint64_t total = quota_get(&segment->file->header.charged[device][tier]);
	uint64_t most = limit < LEDGER_OPEN ? limit : LEDGER_OPEN - 1;
	return bytes <= most && total <= most - bytes;
}

/* Returns the limit in force; under the lock. */
static uint64_t limit_in_force(const struct segment *segment, int device, bool is_moved)
{
	const struct segment_limit *limit = &segment->limit[device];
	uint64_t grown = quota_get(&segment->file->header.applied[device].grown);

	return is_moved && limit->evict ? 0 : segment_limit_with(limit, grown);
}

/* The bounds of a charge: so many bytes, and for some charges the limit in force. */
enum within { WITHIN_MOST, WITHIN_LIMIT, WITHIN_LIMIT_OF_MOVABLE };

static uint64_t quota_most_of(const struct segment *segment, int device, enum within within,
                              uint64_t most)
{
	uint64_t limit = within == WITHIN_MOST
	                     ? most
	                     : limit_in_force(segment, device, within == WITHIN_LIMIT_OF_MOVABLE);

	return limit < most ? limit : most;
}

uint64_t quota_of_earlier_runs(const struct segment_file *file, int device, enum segment_tier tier)
{
	uint64_t bytes = 0;

	for (int n = -1; (n = slots_next(&file->header, n, SLOTS_DRAINING)) >= 0;)
		if (slot_is_of_earlier_run(file, n))
			bytes += ledger_charged(&books_of(file, n, device)->ledger, tier);
	return bytes;
}

uint64_t quota_driver_of_earlier_runs(const struct segment_file *file, int device)
{
	uint64_t bytes = 0;

	for (int n = -1; (n = slots_next(&file->header, n, SLOTS_DRAINING)) >= 0;)
		if (slot_is_of_earlier_run(file, n))
			bytes += quota_get(&books_of(file, n, device)->ledger.driver_used);
	return bytes;
}

/* Raises the run's peak to a total; under the lock. */
static void quota_raise_peak(const struct segment *segment, int device, enum segment_tier tier,
                             uint64_t total)
{
	uint64_t *peak = &segment->file->header.peak[device][tier];

	if (total <= *peak)
		return;
	total -= quota_of_earlier_runs(segment->file, device, tier);
	if (total > *peak)
		*peak = total;
}

static int quota_reserve(struct segment *segment, int device, enum segment_tier tier,
                         uint64_t bytes, enum within within, uint64_t most)
{
	if (!quota_is_valid(segment, device, tier))
		return -EINVAL;
	struct segment_header *header = &segment->file->header;
	int error = segment_lock(segment->file);
	if (error) {
		log_once(LOG_ERROR, "another process of the job holds its segment for a second and "
		                    "longer; memory is refused until it lets go or goes on");
		return error;
	}

	quota_close(segment->file, device);
	quota_do_settle(segment, device, tier);
	/* Here and not before: it may have changed while room was made. */
	uint64_t limit = quota_most_of(segment, device, within, most);
	if (!quota_fits(segment, device, tier, bytes, limit))
		slots_probe(segment->file);
	if (quota_fits(segment, device, tier, bytes, limit)) {
		uint64_t total = quota_get(&header->charged[device][tier]) + bytes;
		ledger_charge(&own_books(segment, device)->ledger, tier, bytes);
		quota_set(&header->charged[device][tier], total);
		quota_raise_peak(segment, device, tier, total);
		open_if_alone(segment, device);
	} else {
		error = -ENOSPC;
	}
	segment_unlock(segment->file);
	return error;
}

/* Charges bytes, or gives them back, where that needs no lock. Returns whether it was done. */
static bool change_open(struct segment *segment, int device, enum segment_tier tier, uint64_t bytes,
                        bool is_given_back)
{
	return quota_is_valid(segment, device, tier) && tier == SEGMENT_ON_DEVICE &&
	       bytes < LEDGER_OPEN &&
	       ledger_change_open(&own_books(segment, device)->ledger, tier,
	                          is_given_back ? -(int64_t)bytes : (int64_t)bytes);
}

int segment_reserve(struct segment *segment, int device, enum segment_tier tier, uint64_t bytes,
                    uint64_t limit)
{
	if (limit == UINT64_MAX && change_open(segment, device, tier, bytes, false))
		return 0;
	return quota_reserve(segment, device, tier, bytes, WITHIN_MOST, limit);
}

int segment_charge(struct segment *segment, int device, uint64_t bytes, uint64_t most,
                   bool is_moved)
{
	if (most == UINT64_MAX && !is_moved &&
	    change_open(segment, device, SEGMENT_ON_DEVICE, bytes, false))
		return 0;
	return quota_reserve(segment, device, SEGMENT_ON_DEVICE, bytes,
	                     is_moved ? WITHIN_LIMIT_OF_MOVABLE : WITHIN_LIMIT, most);
}

void segment_set_limit(struct segment *segment, int device, const struct segment_limit *limit)
{
	if (!quota_is_valid(segment, device, SEGMENT_ON_DEVICE))
		return;
	/* Without it, another process stands still with it, and no thread of this one charges. */
	bool is_locked = segment_lock(segment->file) == 0;
	segment->limit[device] = *limit;
	ledger_close(&own_books(segment, device)->ledger, SEGMENT_ON_DEVICE);
	if (is_locked) {
		quota_close(segment->file, device);
		quota_note_limit(segment->file, device, limit->bytes);
		segment_unlock(segment->file);
	}
}

void segment_unreserve(struct segment *segment, int device, enum segment_tier tier, uint64_t bytes)
{
	if (change_open(segment, device, tier, bytes, true) ||
	    !quota_is_valid(segment, device, tier))
		return;
	if (segment_lock(segment->file) != 0) {
		atomic_fetch_add(&segment->owed[device][tier], bytes);
		return;
	}
	uint64_t excess = quota_do_settle(segment, device, tier);
	excess += quota_give_back(segment, device, tier, bytes);
	segment_unlock(segment->file);
	if (excess)
		log_once(LOG_ERROR, "%llu bytes given back that were never reserved, device %d",
		         (unsigned long long)excess, device);
}

uint64_t segment_charged(struct segment *segment, int device, enum segment_tier tier)
{
	return quota_is_valid(segment, device, tier) ? quota_charged(segment->file, device, tier)
	                                             : 0;
}

uint64_t segment_draining(struct segment *segment, int device, enum segment_tier tier)
{
	uint64_t bytes = 0;

	if (!quota_is_valid(segment, device, tier) || segment_lock(segment->file) != 0)
		return 0;
	slots_probe(segment->file);
	for (int n = -1; (n = slots_next(&segment->file->header, n, SLOTS_DRAINING)) >= 0;)
		bytes += ledger_charged(&books_of(segment->file, n, device)->ledger, tier);
	segment_unlock(segment->file);
	return bytes;
}

/* Returns the driver's own memory, of all processes. */
static uint64_t driver_of_all(const struct segment_file *file, int device)
{
	uint64_t bytes = 0;

	for (int n = -1; (n = slots_next(&file->header, n, SLOTS_ALL)) >= 0;)
		bytes += quota_get(&books_of(file, n, device)->ledger.driver_used);
	return bytes;
}

void segment_note_driver(struct segment *segment, int device, int64_t change)
{
	uint64_t *peak, now;

	if (!quota_is_valid(segment, device, SEGMENT_ON_DEVICE))
		return;
	peak = &segment->file->header.driver_peak[device];
	ledger_note_driver(&own_books(segment, device)->ledger, change);
	/* Where another process stands still with the lock the peak in the own ledger tells. */
	if (change <= 0 || segment_lock(segment->file) != 0)
		return;
	now = driver_of_all(segment->file, device) -
	      quota_driver_of_earlier_runs(segment->file, device);
	if (now > *peak)
		*peak = now;
	segment_unlock(segment->file);
}
