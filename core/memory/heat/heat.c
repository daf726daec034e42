/*
 * Heat. Rules: runs inside the user's process, mostly within its launches; makes no call that
 * waits.
 */
#include "core/memory/heat/heat.h"

#include "core/base/clock.h"
#include "core/memory/arena/arena.h"
#include "core/memory/heat/touched.h"

_Atomic uint32_t heat_sampling;
__thread struct heat_countdown heat_countdown __attribute__((tls_model("initial-exec")));

/* --- time --- */

/* The clock's time in the upper half when work was last seen, our time then in the lower one. */
static _Atomic uint64_t last_work;

static uint32_t time_of(uint64_t last, uint32_t clock)
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
	return in_steps(
	    time_of(atomic_load_explicit(&last_work, memory_order_relaxed), clock_coarse_ms()));
}

uint32_t heat_work(void)
{
	uint32_t clock = clock_coarse_ms(), time;
	uint64_t last = atomic_load_explicit(&last_work, memory_order_relaxed);

	time = time_of(last, clock);
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
static void learn(uint32_t interval)
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
		return HEAT_HOT;
	if ((touched & HEAT_USE) != HEAT_LAUNCHED || (blind && heat_age(blind, now) <= within))
		return HEAT_WARM;
	return HEAT_COLD;
}

/* --- sampling --- */

/* A thread keeps this besides; it is apart, because only a sampled thread needs it. */
static __thread struct {
	uint64_t at;    /* CLOCK_MONOTONIC at the last sample, ns */
	uint64_t saved; /* time that was not spent on samples, ns */
	uint32_t mean;  /* of the interval to the next one, launches */
	uint32_t random;
} thread __attribute__((tls_model("initial-exec")));

/* A look of some 0.15 us is counted as so long; so much of it may be saved up. */
enum { LOOK_NS = 100000, MANY = 8, SAVED_MAX = 64 };

static uint32_t draw(void)
{
	uint32_t x = thread.random;

	if (!x)
		x = (uint32_t)(uintptr_t)&thread | 1;
	x ^= x << 13;
	x ^= x >> 17;
	x ^= x << 5;
	thread.random = x;
	return x;
}

static uint64_t passed_since_last(void)
{
	uint64_t now = clock_now(), passed = now - thread.at;

	thread.at = now;
	return passed < SAVED_MAX * (uint64_t)LOOK_NS ? passed : SAVED_MAX * (uint64_t)LOOK_NS;
}

/*
 * Intervals are random, because a fixed one would meet the same launches of each step. Their mean
 * follows the time between launches, so that looks take a thousandth or two of it; after a pause
 * each launch is looked at for a while.
 */
void heat_sampled(void)
{
	uint32_t most = atomic_load_explicit(&heat_sampling, memory_order_relaxed);
	uint64_t saved = thread.saved + passed_since_last();
	uint32_t mean = thread.mean;

	if (saved >= MANY * LOOK_NS)
		mean = 1;
	else if (saved >= LOOK_NS)
		mean /= 2;
	else
		mean *= 2;
	mean = mean > most ? most : mean;
	mean = mean < 1 ? 1 : mean;
	saved = saved > LOOK_NS ? saved - LOOK_NS : 0;
	thread.saved =
	    saved < SAVED_MAX * (uint64_t)LOOK_NS ? saved : SAVED_MAX * (uint64_t)LOOK_NS;
	thread.mean = mean;
	heat_countdown.left = (int32_t)(1 + draw() % (2 * mean - 1));
}

/* --- touching --- */

/*
 * Finds the word that says when the memory at the address was touched, and in *run where the memory
 * begins that shares it. Returns NULL where there is none. Whoever changes a unit holds a lock;
 * here a value of before or after does equally.
 */
__attribute__((no_sanitize_thread)) static _Atomic uint32_t *find_word(CUdeviceptr address,
                                                                       CUdeviceptr *run)
{
	const struct arena *arena = arena_at(address);
	const struct unit *unit;
	uint32_t first;

	if (!arena) {
		*run = address - address % TOUCHED_UNIT;
		return touched_word(address);
	}
	unit = arena_unit(arena, address);
	if (unit->kind == UNIT_FREE)
		return NULL;
	/* The unit may change hands meanwhile: then somebody is hot who is not, for a while. */
	first = atomic_load_explicit(&unit->run, memory_order_relaxed);
	*run = arena->base + first * ARENA_UNIT;
	return &arena->units[first].touched;
}

CUdeviceptr heat_touch(CUdeviceptr address, enum heat_use use, uint32_t now)
{
	CUdeviceptr run;
	_Atomic uint32_t *touched = find_word(address, &run);
	uint32_t before;

	if (!touched)
		return 0;
	before = atomic_load_explicit(touched, memory_order_relaxed);
	if (before && heat_age(before, now) > 0)
		learn(heat_age(before, now));
	if (before != (now | use | (before & HEAT_USE)))
		atomic_store_explicit(touched, now | use | (before & HEAT_USE),
		                      memory_order_relaxed);
	return run;
}

void heat_launched_blindly(void)
{
	atomic_store_explicit(&blind_at, heat_work(), memory_order_relaxed);
}
