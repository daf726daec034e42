/* Totals: where they stand, and how they are made anew from seats and records, whoever was killed
 * while he changed them. Runs inside the user's process, under the segment's lock: no system call. */
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

	return total & LEDGER_OPEN && seat < SEGMENT_SEATS
	           ? (struct ledger *)&file->seat[seat].ledger[device]
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

void exports_forget_seat(struct segment_file *file, uint32_t seat)
{
	for (int i = 0; i < SEGMENT_EXPORTS; i++) {
		struct segment_export *e = &file->export[i];

		atomic_fetch_and(&e->importers[seat / 64], ~((uint64_t)1 << seat % 64));
		if (atomic_load(&e->owner) == seat + 1)
			atomic_store(&e->owner, 0);
	}
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
	for (int i = 0; i < SEGMENT_SEATS; i++) {
		const struct segment_seat *seat = &file->seat[i];
		if (atomic_load(&seat->state) == SEAT_FREE)
			continue;
		for (int d = 0; d < SEGMENT_DEVICES; d++)
			for (int s = 0; s < SEGMENT_SIDES; s++)
				total[d][s] += ledger_charged(&seat->ledger[d], s);
	}
	for (int d = 0; d < SEGMENT_DEVICES; d++) {
		set(&file->header.orphaned[d], orphaned[d]);
		total[d][SEGMENT_ON_DEVICE] += orphaned[d];
		for (int s = 0; s < SEGMENT_SIDES; s++)
			set(&file->header.charged[d][s], total[d][s]);
	}
}
