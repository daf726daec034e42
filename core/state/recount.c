/* SPDX-License-Identifier: MIT */
/* Totals: where they stand, and how they are made anew from seats and records, whoever was killed
 * while he changed them. Runs inside the user's process, under the segment's lock: no system call.
 */
#include <string.h>

#include "core/state/layout.h"

static uint64_t get(const _Atomic uint64_t *charge)
{
	return atomic_load_explicit(charge, memory_order_relaxed);
}

static void set(_Atomic uint64_t *charge, uint64_t bytes)
{
	atomic_store_explicit(charge, bytes, memory_order_relaxed);
}

/* Returns the ledger whose charge is the total where that says so; NULL: it is the total itself. */
static struct ledger *open_ledger(const struct segment_file *file, int device, uint64_t total)
{
	uint64_t seat = total & ~LEDGER_OPEN;

	return total & LEDGER_OPEN && seat < (uint64_t)rows_of(&file->header) * SEGMENT_ROW
	           ? &books_of(file, (int)seat, device)->ledger
	           : NULL;
}

uint64_t quota_charged(const struct segment_file *file, int device, enum segment_side side)
{
	uint64_t total = get(&file->header.charged[device][side]);
	const struct ledger *open =
	    side == SEGMENT_ON_DEVICE ? open_ledger(file, device, total) : NULL;

	return open ? ledger_charged(open, side) : total & ~LEDGER_OPEN;
}

void quota_close(struct segment_file *file, int device)
{
	_Atomic uint64_t *total = &file->header.charged[device][SEGMENT_ON_DEVICE];
	struct ledger *open = open_ledger(file, device, get(total));

	if (!open)
		return;
	ledger_close(open, SEGMENT_ON_DEVICE);
	set(total, ledger_charged(open, SEGMENT_ON_DEVICE));
}

bool export_is_orphan(const struct segment_export *e)
{
	return atomic_load(&e->bytes) && !atomic_load(&e->owner) && e->device < SEGMENT_DEVICES;
}

/* Counts the bytes of exports that nobody owns. */
static void exports_recount(const struct segment_file *file, uint64_t orphaned[SEGMENT_DEVICES])
{
	memset(orphaned, 0, SEGMENT_DEVICES * sizeof *orphaned);
	for (int i = 0; i < SEGMENT_EXPORTS; i++)
		if (export_is_orphan(&file->export[i]))
			orphaned[file->export[i].device] += atomic_load(&file->export[i].bytes);
}

bool exports_forget_seat(struct segment_file *file, uint32_t seat)
{
	bool any = false;

	for (int i = 0; i < SEGMENT_EXPORTS; i++)
		if (atomic_load(&file->export[i].owner) == seat + 1) {
			atomic_store(&file->export[i].owner, 0);
			any = true;
		}
	return any;
}

void exports_forget_orphans(struct segment_file *file)
{
	for (int i = 0; i < SEGMENT_EXPORTS; i++)
		if (export_is_orphan(&file->export[i]))
			atomic_store(&file->export[i].bytes, 0);
}

void quota_recount(struct segment_file *file)
{
	uint64_t total[SEGMENT_DEVICES][SEGMENT_SIDES] = {0}, orphaned[SEGMENT_DEVICES];

	for (int d = 0; d < SEGMENT_DEVICES; d++)
		quota_close(file, d);
	exports_recount(file, orphaned);
	for (int n = -1; (n = seats_next(&file->header, n, SEATS_ALL)) >= 0;)
		for (int d = 0; d < devices_of(&file->header); d++)
			for (int s = 0; s < SEGMENT_SIDES; s++)
				total[d][s] += ledger_charged(&books_of(file, n, d)->ledger, s);
	for (int d = 0; d < SEGMENT_DEVICES; d++) {
		set(&file->header.orphaned[d], orphaned[d]);
		total[d][SEGMENT_ON_DEVICE] += orphaned[d];
		for (int s = 0; s < SEGMENT_SIDES; s++)
			set(&file->header.charged[d][s], total[d][s]);
	}
}
