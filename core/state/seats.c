/*
 * Seats: who is in the job, who has died, and when the dead are let go.
 *
 * Runs inside the user's process, under the segment's lock: no system call, nothing that waits.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/state/layout.h"

uint64_t segment_drain_ns = SEGMENT_DRAIN_NS;

/* Tries to take the seat's mutex. Returns whether the calling thread holds it now. */
static bool try_life(struct segment_seat *seat)
{
	int error = lock_robust_try(&seat->life.mutex); /* held for life */
	if (error == EOWNERDEAD)
		error = lock_robust_mend(&seat->life.mutex);
	return error == 0;
}

static bool owner_is_dead(struct segment_seat *seat)
{
	if (!try_life(seat))
		return false;
	lock_robust_release(&seat->life.mutex);
	return true;
}

/* What trylock would find, read from the bytes: the kernel's robust futex word is the holder's
 * thread id, and the kernel itself marks it when the holder dies. glibc keeps the word first. */
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the futex word comes first");

bool seat_owner_lives(const struct segment_seat *seat)
{
	uint32_t word;
	memcpy(&word, &seat->life, sizeof word);
	return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
}

bool seat_is_drained(const struct segment_seat *seat, uint64_t now)
{
	/* farther away than it can have been set: another clock, so it was long ago */
	return now >= seat->drained_ns || seat->drained_ns - now > segment_drain_ns;
}

void seats_tended(struct segment_header *header)
{
	atomic_store(&header->seen_ns, clock_of_day());
	atomic_store(&header->tended_ns, clock_now());
}

/* Returns how long the memory may still be held. The whole drain begins when the death is noticed:
 * the driver gives memory back after a death, and neither when exit() began nor when a death came
 * that nobody saw says when that was. Where nobody was there to notice it, it came while the job
 * was last heard of, at the latest. */
uint64_t seat_drain_left(const struct segment_header *header, const struct segment_seat *seat,
                         uint64_t now)
{
	uint64_t most = atomic_load(&seat->exiting_ns) ? SEGMENT_EXIT_DRAIN_NS : segment_drain_ns;
	uint64_t tended = atomic_load(&header->tended_ns);
	uint64_t silent = now > tended ? now - tended : 0;

	if (silent <= SEGMENT_SILENT_NS)
		return most;
	return silent - SEGMENT_SILENT_NS < most ? most - (silent - SEGMENT_SILENT_NS) : 0;
}

static void clear(struct segment_file *file, struct segment_seat *seat)
{
	struct lane *lane = &file->lanes.lane[seat - file->seat];

	/* all but the mutex; its counters may be looked at, so word by word and not by memset */
	for (int d = 0; d < SEGMENT_DEVICES; d++) {
		ledger_clear(&seat->ledger[d]);
#define X(name, how, unit, meaning) statistics_set(&seat->counters[d].name, 0);
		COUNTERS(X)
#undef X
		for (int i = 0; i < COUNTERS_PLACES; i++) {
			statistics_set(&seat->counters[d].place[i].launches, 0);
			statistics_set(&seat->counters[d].place[i].graph_launches, 0);
		}
	}
	atomic_store(&lane->seen_ns, 0);
	atomic_store(&lane->devices, 0);
	atomic_store(&lane->flying, 0);
	atomic_store(&lane->stuck, 0);
	seat->pid = 0;
	seat->started_ns = seat->drained_ns = 0;
	atomic_store(&seat->exiting_ns, 0);
	atomic_store(&seat->override_hash, 0);
	atomic_store(&seat->threads, 0);
	atomic_store(&seat->contexts, 0);
	memset(seat->command, 0, sizeof seat->command);
	memset(seat->complaint, 0, sizeof seat->complaint);
}

void seats_finish_retiring(struct segment_file *file)
{
	struct segment_header *header = &file->header;
	uint32_t retiring = atomic_load(&header->retiring);
	if (retiring == 0 || retiring > SEGMENT_SEATS)
		return;
	struct segment_seat *seat = &file->seat[retiring - 1];
	memcpy(header->ended, header->ended_next, sizeof header->ended);
	exports_forget_seat(file, retiring - 1);
	atomic_store(&seat->state, SEAT_FREE);
	clear(file, seat);
	atomic_exchange(&header->retiring, 0);
}

void seats_retire(struct segment_file *file, struct segment_seat *seat)
{
	struct segment_header *header = &file->header;

	segment_change_begin(header);
	memcpy(header->ended_next, header->ended, sizeof header->ended_next);
	for (int d = 0; d < SEGMENT_DEVICES; d++) {
		totals_add_ended(&header->ended_next[d], seat, d);
		for (int s = 0; s < SEGMENT_SIDES; s++)
			header->peak[d][s] = quota_peak(header->peak[d][s], seat, d, s);
	}
	/* an exchange: neither the compiler nor the processor moves a store across it */
	atomic_exchange(&header->retiring, (uint32_t)(seat - file->seat) + 1);
	seats_finish_retiring(file);
	segment_change_end(header);
	quota_recount(file);
}

int seats_probe(struct segment_file *file)
{
	uint64_t now = clock_now();
	int live = 0;

	for (int i = 0; i < SEGMENT_SEATS; i++) {
		struct segment_seat *seat = &file->seat[i];
		uint32_t state = atomic_load(&seat->state);
		if (state == SEAT_LIVE && owner_is_dead(seat)) {
			seat->drained_ns = now + seat_drain_left(&file->header, seat, now);
			state = SEAT_DRAINING;
			atomic_store(&seat->state, state);
		}
		if (state == SEAT_DRAINING && seat_is_drained(seat, now))
			seats_retire(file, seat);
		live += state == SEAT_LIVE;
	}
	return live;
}

struct segment_seat *seats_take(struct segment_file *file)
{
	for (int i = 0; i < SEGMENT_SEATS; i++) {
		struct segment_seat *seat = &file->seat[i];
		if (atomic_load(&seat->state) != SEAT_FREE || !try_life(seat))
			continue;
		clear(file, seat);
		return seat;
	}
	return NULL;
}
