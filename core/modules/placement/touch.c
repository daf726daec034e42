/* SPDX-License-Identifier: MIT */
/*
 * Heat. Rules: runs inside the user's process, mostly within its launches; makes no call that
 * waits.
 */
#include "core/modules/placement/touch.h"

#include "core/base/clock.h"
#include "core/base/late.h"
#include "core/memory/arena/arena.h"

/* Addresses have 48 bits: so many blocks of 16 GiB. */
enum { BLOCKS = 1 << 14, BLOCK_UNITS = 1 << 13 };

struct block {
	_Atomic uint32_t touched[BLOCK_UNITS];
};

static _Atomic(void *) blocks; /* BLOCKS of them */

typedef _Atomic(void *) block_place;

static struct block *heat_block_of(uint64_t unit)
{
	block_place *place = late_of(&blocks);

	return place && unit / BLOCK_UNITS < BLOCKS ? late_of(&place[unit / BLOCK_UNITS]) : NULL;
}

/* A search for leaks does not look at late memory: so nothing of the heap hangs on it. */
static struct block *make_block(uint64_t unit)
{
	block_place *place = late_make(&blocks, BLOCKS * sizeof(*place));

	return place && unit / BLOCK_UNITS < BLOCKS
	           ? late_make(&place[unit / BLOCK_UNITS], sizeof(struct block))
	           : NULL;
}

struct touched_span touched_span = {.low = UINT64_MAX};

static void widen(CUdeviceptr low, CUdeviceptr high)
{
	CUdeviceptr was = atomic_load(&touched_span.low);

	while (low < was && !atomic_compare_exchange_weak(&touched_span.low, &was, low))
		;
	was = atomic_load(&touched_span.high);
	while (high > was && !atomic_compare_exchange_weak(&touched_span.high, &was, high))
		;
}

static bool touched_open(CUdeviceptr address, size_t size)
{
	uint64_t first = address / TOUCHED_UNIT, last = (address + size - 1) / TOUCHED_UNIT;

	for (uint64_t unit = first; unit <= last; unit++) {
		struct block *block = make_block(unit);

		if (!block)
			return false;
		atomic_store_explicit(&block->touched[unit % BLOCK_UNITS], 0, memory_order_relaxed);
	}
	widen(address, address + size);
	return true;
}

/* Returns the word for an address; NULL: it has none. */
static _Atomic uint32_t *touched_word(CUdeviceptr address)
{
	uint64_t unit = address / TOUCHED_UNIT;
	struct block *block = heat_block_of(unit);

	return block ? &block->touched[unit % BLOCK_UNITS] : NULL;
}

/* --- time --- */

/* The clock's time in the upper half when work was last seen, our time then in the lower one. */
static _Atomic uint64_t last_work;

static uint32_t heat_time_of(uint64_t last, uint32_t clock)
{
	int32_t passed = (int32_t)(clock - (uint32_t)(last >> 32));

	/* Another thread's look may be newer. */
	return (uint32_t)last + (uint32_t)(passed < 0 ? 0 : passed > HEAT_GAP ? HEAT_GAP : passed);
}

static uint32_t in_steps(uint32_t time)
{
	time &= ~(uint32_t)HEAT_USE;
	return time ? time : HEAT_USE + 1;
}

uint32_t heat_now(void)
{
	return in_steps(heat_time_of(atomic_load_explicit(&last_work, memory_order_relaxed),
	                             clock_coarse_ms()));
}

uint32_t heat_work(void)
{
	uint32_t clock = clock_coarse_ms(), time;
	uint64_t last = atomic_load_explicit(&last_work, memory_order_relaxed);

	time = heat_time_of(last, clock);
	/* A second thread within a moment has nothing to add. */
	if (time - (uint32_t)last > HEAT_USE)
		atomic_compare_exchange_strong(&last_work, &last, (uint64_t)clock << 32 | time);
	return in_steps(time);
}

/* --- the window --- */

/* Logarithms to base 2, in units of 1 / 65536. */
enum { SHORTEST = 7 << 16, LONGEST = 12 << 16, INTERVALS = 4 };

static _Atomic uint32_t typical = SHORTEST; /* interval in which a run is met again */
static _Atomic uint32_t blind_at;           /* 0: never */

static uint32_t logarithm(uint32_t ms)
{
	unsigned int whole;

	if (ms <= 1U << (SHORTEST >> 16))
		return SHORTEST;
	if (ms >= 1U << (LONGEST >> 16))
		return LONGEST;
	whole = 31 - (unsigned int)__builtin_clz(ms);
	return (whole << 16) + ((ms << 16 >> whole) & 0xffff);
}

static uint32_t window(void)
{
	uint32_t log = atomic_load_explicit(&typical, memory_order_relaxed);

	return (uint32_t)((0x10000 + (uint64_t)(log & 0xffff)) << (log >> 16) >> 16) << INTERVALS;
}

/*
 * Learns an interval: moves the typical one a little towards it. It is the mean of the logarithm,
 * because intervals within a step and between steps differ by orders of magnitude. Updates lost to
 * another thread do not matter.
 */
static void heat_learn(uint32_t interval)
{
	uint32_t log = atomic_load_explicit(&typical, memory_order_relaxed);
	int32_t change = ((int32_t)logarithm(interval) - (int32_t)log) / 64;

	atomic_store_explicit(&typical, (uint32_t)((int32_t)log + change), memory_order_relaxed);
}

enum heat heat_of(uint32_t touched, uint32_t now)
{
	uint32_t blind = atomic_load_explicit(&blind_at, memory_order_relaxed);
	uint32_t within = window();

	if (!touched)
		return HEAT_WARM;
	if (heat_age(touched, now) <= within)
		return touched & HEAT_USE ? HEAT_HOT : HEAT_MILD;
	if ((touched & HEAT_USE) != HEAT_LAUNCHED || (blind && heat_age(blind, now) <= within))
		return HEAT_WARM;
	return HEAT_COLD;
}

static bool heat_is_hotter(uint32_t a, uint32_t b, uint32_t now)
{
	enum heat of_a = heat_of(a, now), of_b = heat_of(b, now);

	return of_a == of_b ? a > b : of_a > of_b;
}

static uint32_t touched_within(CUdeviceptr address, size_t size, uint32_t now)
{
	uint32_t hottest = 0;

	for (uint64_t at = 0; at < size; at += TOUCHED_UNIT) {
		const _Atomic uint32_t *word = touched_word(address + at);
		uint32_t touched = word ? atomic_load_explicit(word, memory_order_relaxed) : 0;

		if (touched && (!hottest || heat_is_hotter(touched, hottest, now)))
			hottest = touched;
	}
	return hottest;
}

/* --- touching --- */

/* Runs of no more are known as a whole. */
enum { WHOLE_UNITS = 128 };
/* A use is of so many parts at most, 4 GiB: a sampled launch is to be short. */
enum { PARTS_MOST = 64 };

/*
 * A thread that changes a unit holds a lock; here, and below, a value of before or after does
 * equally.
 */
__attribute__((no_sanitize_thread)) static bool is_of_run(const struct arena *arena, uint32_t unit,
                                                          uint32_t first)
{
	return unit < arena->size / ARENA_UNIT && arena->units[unit].kind != UNIT_FREE &&
	       atomic_load_explicit(&arena->units[unit].run, memory_order_relaxed) == first;
}

static bool is_by_parts(const struct arena *arena, uint32_t first)
{
	return atomic_load_explicit(&arena->units[first].parts, memory_order_relaxed) > 1;
}

static bool is_named(const struct arena *arena, uint32_t part)
{
	return atomic_load_explicit(&arena->units[part].is_named, memory_order_relaxed);
}

static uint32_t part_of(uint32_t unit, uint32_t first)
{
	return unit - (unit - first) % ARENA_PART_UNITS;
}

static uint32_t heat_unit(const struct arena *arena, uint32_t unit)
{
	uint32_t first = atomic_load_explicit(&arena->units[unit].run, memory_order_relaxed);

	return is_by_parts(arena, first) ? part_of(unit, first) : first;
}

/* Notes that a kernel was given an address in this part of a large run. */
static void name(const struct arena *arena, uint32_t part, uint32_t first)
{
	struct unit *unit = &arena->units[first];

	if (is_named(arena, part))
		return;
	atomic_store_explicit(&arena->units[part].is_named, 1, memory_order_relaxed);
	if (is_by_parts(arena, first))
		return;
	/* Two threads may count one part twice. */
	if (atomic_fetch_add_explicit(&unit->parts, 1, memory_order_relaxed) &&
	    !is_named(arena, first)) /* the note is of another part */
		atomic_store_explicit(&unit->touched, 0, memory_order_relaxed);
}

/* Returns how many parts from this one on are used together: the end of the last is unknown. */
static uint32_t count_parts(const struct arena *arena, uint32_t part, uint32_t first)
{
	uint32_t count = 1, next = part + ARENA_PART_UNITS;

	for (; count < PARTS_MOST && is_of_run(arena, next, first); next += ARENA_PART_UNITS) {
		if (is_named(arena, next))
			return count;
		count++;
	}
	return count < 2 ? count : 2;
}

/* Returns how its use is known by now. */
static uint32_t touch(_Atomic uint32_t *touched, uint32_t use, uint32_t now)
{
	uint32_t before = atomic_load_explicit(touched, memory_order_relaxed);

	use |= before & HEAT_USE;
	if (before != (now | use))
		atomic_store_explicit(touched, now | use, memory_order_relaxed);
	return use;
}

/* Touches the word, and learns how often it is. */
static uint32_t heat_meet(_Atomic uint32_t *touched, enum heat_use use, uint32_t now)
{
	uint32_t before = atomic_load_explicit(touched, memory_order_relaxed);

	if (before && heat_age(before, now) > 0)
		heat_learn(heat_age(before, now));
	return touch(touched, use, now);
}

static struct heat_touched touch_outside(CUdeviceptr address, enum heat_use use, uint32_t now)
{
	_Atomic uint32_t *word = touched_word(address);

	if (!word)
		return (struct heat_touched){0};
	heat_meet(word, use, now);
	return (struct heat_touched){address - address % TOUCHED_UNIT, 1};
}

struct heat_touched heat_touch(CUdeviceptr address, enum heat_use use, uint32_t now)
{
	const struct arena *arena = arena_at(address);
	uint32_t unit, first, part, known, count = 1;

	if (!arena)
		return touch_outside(address, use, now);
	unit = (uint32_t)((address - arena->base) / ARENA_UNIT);
	/*
	 * The unit may change hands meanwhile: then a run counts as hot that is not, for a while.
	 */
	part = first = atomic_load_explicit(&arena->units[unit].run, memory_order_relaxed);
	if (!is_of_run(arena, unit, first))
		return (struct heat_touched){0};
	if (is_of_run(arena, first + WHOLE_UNITS, first)) {
		part = part_of(unit, first);
		if (use == HEAT_LAUNCHED)
			name(arena, part, first);
	}
	known = heat_meet(&arena->units[heat_unit(arena, part)].touched, use, now);
	if (!is_by_parts(arena, first) && part != first) /* it is known if that changes */
		touch(&arena->units[part].touched, use, now);
	if (is_by_parts(arena, first) && is_named(arena, part))
		count = count_parts(arena, part, first);
	for (uint32_t i = 1; i < count; i++)
		touch(&arena->units[part + i * ARENA_PART_UNITS].touched, known, now);
	return (struct heat_touched){arena->base + part * ARENA_UNIT, count};
}

void heat_launched_blindly(void)
{
	atomic_store_explicit(&blind_at, heat_work(), memory_order_relaxed);
}

void touch_add_calls(struct placement_calls *calls)
{
	calls->track = touched_open;
	calls->touched = touched_within;
	calls->now = heat_now;
	calls->unit = heat_unit;
}
