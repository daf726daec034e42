/*
 * Slots: who is in the job, who has died, and when the dead are let go.
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

/* Tries to take the slot's mutex. Returns whether the calling thread holds it now. */
static bool try_life(struct segment_slot *slot)
{
	int error = lock_robust_try(&slot->life.mutex); /* held for life */
	if (error == EOWNERDEAD)
		error = lock_robust_mend(&slot->life.mutex);
	return error == 0;
}

static bool owner_is_dead(struct segment_slot *slot)
{
	if (!try_life(slot))
		return false;
	lock_robust_release(&slot->life.mutex);
	return true;
}

/* What trylock would find, read from the bytes: the kernel's robust futex word is the holder's
 * thread id, and the kernel itself marks it when the holder dies. glibc keeps the word first. */
static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the futex word comes first");

bool slot_owner_lives(const struct segment_slot *slot)
{
	uint32_t word;
	memcpy(&word, &slot->life, sizeof word);
	return (word & FUTEX_TID_MASK) != 0 && (word & FUTEX_OWNER_DIED) == 0;
}

bool slot_is_drained(const struct segment_slot *slot, uint64_t now)
{
	/* farther away than it can have been set: another clock, so it was long ago */
	return now >= slot->drained_ns || slot->drained_ns - now > segment_drain_ns;
}

void slots_tended(struct segment_header *header)
{
	atomic_store(&header->seen_ns, clock_of_day());
	atomic_store(&header->tended_ns, clock_now());
}

/* Returns how long the memory may still be held. The whole drain begins when the death is noticed:
 * the driver gives memory back after a death, and neither when exit() began nor when a death came
 * that nobody saw says when that was. Where nobody was there to notice it, it came while the job
 * was last heard of, at the latest. */
uint64_t slot_drain_left(const struct segment_header *header, const struct segment_slot *slot,
                         uint64_t now)
{
	uint64_t most = atomic_load(&slot->exiting_ns) ? SEGMENT_EXIT_DRAIN_NS : segment_drain_ns;
	uint64_t tended = atomic_load(&header->tended_ns);
	uint64_t silent = now > tended ? now - tended : 0;

	if (silent <= SEGMENT_SILENT_NS)
		return most;
	return silent - SEGMENT_SILENT_NS < most ? most - (silent - SEGMENT_SILENT_NS) : 0;
}

static void clear(struct segment_file *file, struct segment_slot *slot)
{
	struct lane *lane = &file->lanes.lane[slot - file->slot];

	/* all but the mutex; its counters may be looked at, so word by word and not by memset */
	for (int d = 0; d < SEGMENT_DEVICES; d++) {
		ledger_clear(&slot->ledger[d]);
#define X(name, how, unit, meaning) statistics_set(&slot->counters[d].name, 0);
		COUNTERS(X)
#undef X
	}
	atomic_store(&lane->seen_ns, 0);
	atomic_store(&lane->devices, 0);
	atomic_store(&lane->flying, 0);
	atomic_store(&lane->stuck, 0);
	slot->pid = 0;
	slot->started_ns = slot->drained_ns = 0;
	atomic_store(&slot->exiting_ns, 0);
	atomic_store(&slot->override_hash, 0);
	atomic_store(&slot->threads, 0);
	atomic_store(&slot->contexts, 0);
	memset(slot->command, 0, sizeof slot->command);
	memset(slot->complaint, 0, sizeof slot->complaint);
}

void slots_finish_retiring(struct segment_file *file)
{
	struct segment_header *header = &file->header;
	uint32_t retiring = atomic_load(&header->retiring);
	if (retiring == 0 || retiring > SEGMENT_SLOTS)
		return;
	struct segment_slot *slot = &file->slot[retiring - 1];
	memcpy(header->ended, header->ended_next, sizeof header->ended);
	exports_forget_slot(file, retiring - 1);
	atomic_store(&slot->state, SLOT_FREE);
	clear(file, slot);
	atomic_exchange(&header->retiring, 0);
}

void slots_retire(struct segment_file *file, struct segment_slot *slot)
{
	struct segment_header *header = &file->header;

	segment_change_begin(header);
	memcpy(header->ended_next, header->ended, sizeof header->ended_next);
	for (int d = 0; d < SEGMENT_DEVICES; d++)
		totals_add_ended(&header->ended_next[d], slot, d);
	/* an exchange: neither the compiler nor the processor moves a store across it */
	atomic_exchange(&header->retiring, (uint32_t)(slot - file->slot) + 1);
	slots_finish_retiring(file);
	segment_change_end(header);
	quota_recount(file);
}

int slots_probe(struct segment_file *file)
{
	uint64_t now = clock_now();
	int live = 0;

	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		struct segment_slot *slot = &file->slot[i];
		uint32_t state = atomic_load(&slot->state);
		if (state == SLOT_LIVE && owner_is_dead(slot)) {
			slot->drained_ns = now + slot_drain_left(&file->header, slot, now);
			state = SLOT_DRAINING;
			atomic_store(&slot->state, state);
		}
		if (state == SLOT_DRAINING && slot_is_drained(slot, now))
			slots_retire(file, slot);
		live += state == SLOT_LIVE;
	}
	return live;
}

struct segment_slot *slots_take(struct segment_file *file)
{
	for (int i = 0; i < SEGMENT_SLOTS; i++) {
		struct segment_slot *slot = &file->slot[i];
		if (atomic_load(&slot->state) != SLOT_FREE || !try_life(slot))
			continue;
		clear(file, slot);
		return slot;
	}
	return NULL;
}
