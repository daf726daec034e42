/* SPDX-License-Identifier: MIT */
/*
 * Slots in common. Rules: other processes write the table, and may die at any time: no word binds
 * for long.
 */
#include "core/pace/align.h"

#include <stddef.h>

#include "core/base/clock.h"

#define LOAD(word) atomic_load_explicit(&(word), memory_order_acquire)

static struct lane *own(const struct align *align)
{
	return &align->lanes->lane[align->lane];
}

static uint32_t bit(const struct align *align)
{
	return 1u << align->device;
}

static void align_add_device(struct align *align)
{
	uint32_t count = LOAD(align->lanes->count);

	atomic_fetch_or(&own(align)->devices, bit(align));
	while (
	    count <= (uint32_t)align->lane &&
	    !atomic_compare_exchange_weak(&align->lanes->count, &count, (uint32_t)align->lane + 1))
		;
}

void align_fly(struct align *align, uint64_t now_ns)
{
	if (!align->lanes)
		return;
	atomic_store_explicit(&own(align)->seen_ns, now_ns, memory_order_release);
	if (!(LOAD(own(align)->devices) & bit(align)))
		align_add_device(align);
	if (!(LOAD(own(align)->flying) & bit(align)))
		atomic_fetch_or(&own(align)->flying, bit(align));
}

void align_stuck(struct align *align, uint64_t now_ns)
{
	if (!align->lanes)
		return;
	atomic_store_explicit(&own(align)->seen_ns, now_ns, memory_order_release);
	if (LOAD(own(align)->stuck) & bit(align))
		return;
	atomic_fetch_or(&own(align)->stuck, bit(align));
	clock_in_use->wake(&align->lanes->changed);
}

void align_land(struct align *align)
{
	if (!align->lanes || !(LOAD(own(align)->flying) & bit(align)))
		return;
	atomic_fetch_and(&own(align)->flying, ~bit(align));
	atomic_fetch_and(&own(align)->stuck, ~bit(align));
	clock_in_use->wake(&align->lanes->changed);
}

/* Returns whether an active process has a bit of another device set in this word of its lane. */
static bool any_other(const struct align *align, uint64_t now, size_t word)
{
	uint32_t count = align->lanes ? LOAD(align->lanes->count) : 0;

	for (uint32_t i = 0; i < count && i < LANES_MAX; i++) {
		const struct lane *lane = &align->lanes->lane[i];
		const _Atomic uint32_t *bits =
		    (const _Atomic uint32_t *)((const char *)lane + word);

		if ((LOAD(*bits) & ~bit(align)) && LOAD(lane->seen_ns) + ALIGN_ACTIVE_NS > now)
			return true;
	}
	return false;
}

bool align_has_others(const struct align *align, uint64_t now_ns)
{
	return any_other(align, now_ns, offsetof(struct lane, devices));
}

static uint32_t newest_window(const struct align *align)
{
	return (uint32_t)(LOAD(align->lanes->slot_until) / 1000);
}

/* Raises the most launches of any device in a window, which stand in one word with it. */
void align_count(struct align *align, uint64_t cost_ns, bool to_get_level)
{
	uint64_t most, ours;

	if (!align->lanes || align->helps) {
		align->helps = false;
		return;
	}
	if (to_get_level)
		align->level_ns += cost_ns;
	ours = (uint64_t)align->window << 32 | ++align->launches;
	most = LOAD(align->lanes->reached);
	while ((most >> 32 != align->window || most < ours) &&
	       !atomic_compare_exchange_weak(&align->lanes->reached, &most, ours))
		;
}

bool align_is_behind(const struct align *align, uint64_t now_ns)
{
	uint64_t most = align->lanes ? LOAD(align->lanes->reached) : 0;

	return most >> 32 == align->window && align->launches < (uint32_t)most &&
	       align->level_ns < ALIGN_LEVEL_NS &&
	       any_other(align, now_ns, offsetof(struct lane, flying));
}

uint64_t align_slot(struct align *align, uint64_t now_ns, uint64_t until_ns)
{
	uint64_t until, most = now_ns + ALIGN_SLOT_NS;

	if (!align->lanes)
		return now_ns;
	if (until_ns > most)
		until_ns = most;
	until = LOAD(align->lanes->slot_until);
	while (until_ns > now_ns && (until < until_ns || until > most) &&
	       !atomic_compare_exchange_weak(&align->lanes->slot_until, &until, until_ns))
		;
	until = LOAD(align->lanes->slot_until);
	return until > most ? now_ns : until;
}

bool align_helps(struct align *align, uint64_t now_ns)
{
	align->helps = any_other(align, now_ns, offsetof(struct lane, stuck));
	return align->helps;
}

void align_go(struct align *align)
{
	if (!align->lanes || align->window == newest_window(align))
		return;
	align->window = newest_window(align);
	align->launches = 0;
	align->level_ns = 0;
}
