/* SPDX-License-Identifier: MIT */
/*
 * Seats: who is in the job, who has died, and when the dead are let go.
 *
 * Runs inside the user's process, under the segment's lock: nothing that waits.
 */
#include <string.h>

#include "core/base/clock.h"
#include "core/state/layout.h"

/* So many of the living are asked for by their thread ids each time. */
enum { SEATS_ASKED = 8 };

void seats_tended(struct segment_header *header)
{
	atomic_store(&header->seen_ns, clock_of_day());
	atomic_store(&header->tended_ns, clock_now());
}

static void clear(struct segment_file *file, int number)
{
	struct segment_seat *seat = seat_of(file, number);
	struct lane *lane = &file->lanes.lane[number];

	/* all but the mutex; its counters may be looked at, so word by word and not by memset */
	for (int d = 0; d < devices_of(&file->header); d++) {
		struct segment_books *books = books_of(file, number, d);
		_Atomic uint64_t *word = (_Atomic uint64_t *)&books->counters;

		ledger_clear(&books->ledger);
		statistics_set(&books->placed, 0);
		for (size_t i = 0; i < sizeof books->counters / sizeof *word; i++)
			statistics_set(&word[i], 0);
	}
	for (int i = 0; i < SEGMENT_EXPORTS / 64; i++)
		atomic_store(&seat->importing[i], 0);
	atomic_store(&lane->seen_ns, 0);
	atomic_store(&lane->devices, 0);
	atomic_store(&lane->flying, 0);
	atomic_store(&lane->stuck, 0);
	seat->pid = 0;
	seat->pid_space = 0;
	seat->started_ns = seat->drained_ns = 0;
	atomic_store(&seat->exiting_ns, 0);
	atomic_store(&seat->override_hash, 0);
	atomic_store(&seat->threads, 0);
	atomic_store(&seat->contexts, 0);
	memset(seat->command, 0, sizeof seat->command);
	memset(seat->complaint, 0, sizeof seat->complaint);
}

bool seats_finish_retiring(struct segment_file *file)
{
	struct segment_header *header = &file->header;
	uint32_t retiring = atomic_load(&header->retiring);
	if (retiring == 0 || retiring > (uint32_t)rows_of(header) * SEGMENT_ROW)
		return false;
	int number = (int)retiring - 1;
	memcpy(header->ended, header->ended_next, sizeof header->ended);
	bool has_owned = exports_forget_seat(file, retiring - 1);
	seats_free(file, number);
	clear(file, number);
	atomic_exchange(&header->retiring, 0);
	return has_owned;
}

void seats_retire(struct segment_file *file, int number)
{
	struct segment_header *header = &file->header;
	uint64_t charged[SEGMENT_DEVICES][SEGMENT_SIDES];
	int devices = devices_of(header);

	segment_change_begin(header);
	memcpy(header->ended_next, header->ended, sizeof header->ended_next);
	for (int d = 0; d < devices; d++) {
		const struct segment_books *books = books_of(file, number, d);

		quota_close(file, d);
		totals_add_ended(&header->ended_next[d], books);
		for (int s = 0; s < SEGMENT_SIDES; s++) {
			charged[d][s] = ledger_charged(&books->ledger, s);
			header->peak[d][s] = quota_peak(header->peak[d][s], &books->ledger, s);
		}
		header->driver_peak[d] = quota_driver_peak(header->driver_peak[d], &books->ledger);
	}
	/* an exchange: neither the compiler nor the processor moves a store across it */
	atomic_exchange(&header->retiring, (uint32_t)number + 1);
	if (seats_finish_retiring(file))
		quota_recount(file);
	else
		for (int d = 0; d < devices; d++)
			for (int s = 0; s < SEGMENT_SIDES; s++)
				atomic_fetch_sub(&header->charged[d][s], charged[d][s]);
	segment_change_end(header);
}

/* Lets the seat drain if its owner has died. Returns whether it has. */
static bool drains_now(struct segment_file *file, int number)
{
	struct segment_seat *seat = seat_of(file, number);
	uint64_t now = clock_now();

	if (!seat_owner_is_dead(seat))
		return false;
	seat->drained_ns = now + seat_drain_left(&file->header, seat, now);
	seats_drain(file, number);
	return true;
}

static void retire_drained(struct segment_file *file)
{
	uint64_t now = clock_now();

	for (int n = -1; (n = seats_next(&file->header, n, SEATS_DRAINING)) >= 0;)
		if (seat_is_drained(seat_of(file, n), now))
			seats_retire(file, n);
}

void seats_probe(struct segment_file *file)
{
	struct segment_header *header = &file->header;
	int row = (int)(header->probed % SEGMENT_ROWS), looked_at = 0;

	for (int rows = rows_of(header); rows > 0 && looked_at < SEGMENT_ROW; rows--) {
		row = (row + 1) % rows_of(header);
		for (uint64_t bits = seats_of_row(header, row, SEATS_LIVE); bits;
		     bits &= bits - 1, looked_at++)
			drains_now(file, row * SEGMENT_ROW + __builtin_ctzll(bits));
	}
	header->probed = (uint32_t)row;
	retire_drained(file);
}

void seats_look_for_gone(struct segment *segment)
{
	const struct segment_header *header = &segment->file->header;

	for (int i = 0; i < SEATS_ASKED; i++) {
		segment->asked = seats_next(header, segment->asked, SEATS_LIVE);
		if (segment->asked < 0)
			return;
		if (segment->asked != segment->number)
			seat_mark_if_gone(seat_of(segment->file, segment->asked));
	}
}

bool seats_any_lives(struct segment_file *file)
{
	int number = -1;

	while ((number = seats_next(&file->header, number, SEATS_LIVE)) >= 0) {
		seat_mark_if_gone(seat_of(file, number));
		if (!drains_now(file, number))
			break;
	}
	retire_drained(file);
	return number >= 0;
}

int seats_take(struct segment_file *file)
{
	const struct segment_header *header = &file->header;

	for (int row = 0; row < rows_of(header); row++)
		for (uint64_t bits = ~seats_of_row(header, row, SEATS_ALL); bits;
		     bits &= bits - 1) {
			int number = row * SEGMENT_ROW + __builtin_ctzll(bits);
			struct segment_seat *seat = seat_of(file, number);

			if (!seat->has_life && segment_mutex_init(&seat->life) != 0)
				return -1;
			seat->has_life = 1;
			if (!seat_try(seat))
				continue; /* of one who has left just now */
			clear(file, number);
			return number;
		}
	return -1;
}
