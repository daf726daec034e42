/* SPDX-License-Identifier: MIT */
/* Chunks of arenas, for the mover. Rules: by the mover thread alone. */
#include "core/memory/move/movable.h"

#include "core/base/lock.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/heat.h"

static void movable_chunks_acquire(struct device *device)
{
	lock_acquire(&arena_made(device)->lock);
}

static void movable_chunks_release(struct device *device)
{
	lock_release(&arena_made(device)->lock);
}

static struct candidate movable_chunks_candidate(const struct arena *arena, uint32_t unit)
{
	uint64_t size = arena->units[unit].units * ARENA_UNIT;
	bool is_slab = arena->units[unit].kind == UNIT_OF_SLAB;
	uint32_t first = atomic_load_explicit(&arena->units[unit].run, memory_order_relaxed);

	return (struct candidate){
	    .kind = &movable_chunks,
	    .address = arena->base + unit * ARENA_UNIT,
	    .size = size,
	    .run = arena->base + placement_ask(first, unit, arena, unit) * ARENA_UNIT,
	    .whole = arena->base + first * ARENA_UNIT,
	    .read = is_slab ? arena->units[unit].owner.slab->block_size : size};
}

/* Returns whether it is an empty slab: a spare, which goes rather than moves. */
static bool is_empty_slab(const struct unit *unit)
{
	return unit->kind == UNIT_OF_SLAB && !unit->owner.slab->used;
}

/* So many units are gone through before others may have the lock: some tens of microseconds. */
enum { UNITS_AT_ONCE = 4096 };

/*
 * Considers the chunks that begin from this unit on, with the lock held. Returns where it has
 * ended.
 */
static uint32_t choose_from(const struct arena *arena, uint32_t i, enum segment_tier tier,
                            uint32_t now, struct choice *choice)
{
	uint32_t end = arena->top - i > UNITS_AT_ONCE ? i + UNITS_AT_ONCE : arena->top;

	while (i < end) {
		const struct unit *unit = &arena->units[i];

		if (unit->kind == UNIT_FREE || !unit->units) {
			i++;
			continue;
		}
		if (unit->tier == tier && !unit->pins && !is_empty_slab(unit)) {
			struct candidate c = movable_chunks_candidate(arena, i);
			uint32_t touched = atomic_load_explicit(&arena_unit(arena, c.run)->touched,
			                                        memory_order_relaxed);

			if (movable_is_ranked(choice))
				c.rank = placement_ask(MOVABLE_RANK, rank, arena->device, c.address,
				                       touched, now);
			movable_consider(choice, &c);
		}
		i += unit->units;
	}
	return i;
}

/*
 * Lets others have the lock now and then: what they change is seen or not, and what is planned is
 * looked at again.
 */
static void movable_chunks_choose(struct device *device, enum segment_tier tier,
                                  struct choice *choice)
{
	struct arena *arena = arena_made(device);
	uint32_t now = placement_ask(0, now), at = 0;
	bool is_all = !arena;

	while (!is_all && movable_acquire(choice, &arena->lock)) {
		at = choose_from(arena, at, tier, now, choice);
		is_all = at >= arena->top;
		lock_release(&arena->lock);
	}
}

static void movable_chunks_choose_at(struct device *device, CUdeviceptr address, bool is_exportable,
                                     struct choice *choice)
{
	const struct arena *arena = arena_made(device);
	uint32_t first = run_first(arena, address);

	for (uint32_t i = first; i != ADDRESS_NONE && choice->count < MOVES_MAX;
	     i = run_next(arena, first, i)) {
		const struct unit *unit = &arena->units[i];

		if (unit->tier == SEGMENT_ON_HOST || (is_exportable && !unit->is_exportable))
			choice->of[choice->count++] = movable_chunks_candidate(arena, i);
	}
}

static void choose_whole(struct device *device, CUdeviceptr address, struct choice *choice)
{
	const struct arena *arena = arena_made(device);
	uint32_t first = run_first(arena, address), i;

	for (i = first; i != ADDRESS_NONE && choice->count < MOVES_MAX;
	     i = run_next(arena, first, i))
		choice->of[choice->count++] = movable_chunks_candidate(arena, i);
	/* More than can be moved at once stays. */
	if (i != ADDRESS_NONE)
		choice->count = 0;
}

static bool movable_chunks_look(struct device *device, struct move *move, bool pinned_too)
{
	/* Of one device at a time, for as long as the moves are planned and done. */
	static CUmemAccessDesc access[DEVICE_MAX];
	const struct unit *unit = arena_unit(arena_made(device), move->address);

	if (unit->kind == UNIT_FREE || !unit->units || (unit->pins && !pinned_too) ||
	    is_empty_slab(unit))
		return false;
	move->size = unit->units * ARENA_UNIT;
	move->from = unit->handle;
	move->access = access;
	move->accesses = reach_rights(device, access);
	move->is_from_device = unit->tier == SEGMENT_ON_DEVICE;
	return true;
}

static void movable_chunks_moved(struct device *device, const struct move *move,
                                 enum segment_tier to, bool is_exportable)
{
	struct arena *arena = arena_made(device);
	struct unit *unit = arena_unit(arena, move->address);

	if (!move->is_from_device)
		arena->on_host -= move->size;
	if (to == SEGMENT_ON_HOST)
		arena->on_host += move->size;
	unit->handle = move->to;
	unit->tier = (uint8_t)to;
	unit->is_exportable = is_exportable;
}

static void movable_chunks_pin(struct device *device, CUdeviceptr address)
{
	run_pin(arena_made(device), address);
}

static bool movable_chunks_has(CUdeviceptr address)
{
	return arena_at(address) != NULL;
}

const struct movable_kind movable_chunks = {
    .has = movable_chunks_has,
    .acquire = movable_chunks_acquire,
    .release = movable_chunks_release,
    .choose = movable_chunks_choose,
    .choose_at = movable_chunks_choose_at,
    .choose_whole = choose_whole,
    .look = movable_chunks_look,
    .moved = movable_chunks_moved,
    .pin = movable_chunks_pin,
};
