/* SPDX-License-Identifier: MIT */
/* Growth of a limit. Rules: runs inside the user's process, on the mover's thread. */
#include "core/budget/growth.h"

#include "core/base/clock.h"
#include "core/budget/applied.h"
#include "core/budget/device.h"
#include "core/budget/in_use.h"
#include "core/budget/terms.h"
#include "core/cuda/capture.h"

/*
 * The rest of the device that is left alone, and how far a limit rises at once: two of the largest
 * chunks at least.
 */
enum { MARGIN_OF_MEMORY = 32, STEP_OF_MEMORY = 16 };
#define STEP_LEAST ((uint64_t)64 << 20)

static uint64_t growth_least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Adds; UINT64_MAX stands for everything beyond. */
static uint64_t plus(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* Returns the limit that is to be in force: from the setting memory to memory_max. */
static uint64_t growth_limit(const struct growth *g)
{
	/* The most that the job may hold without harm to another. */
	uint64_t most = minus(plus(g->used, g->free), g->owed);
	uint64_t part = g->memory / MARGIN_OF_MEMORY, margin = part > g->margin ? part : g->margin;
	uint64_t step = g->memory / STEP_OF_MEMORY, wanted;

	if (g->limit_max <= g->limit)
		return g->limit;
	if (g->now > most || g->now > g->limit_max)
		return growth_least(most > g->limit ? most : g->limit, g->limit_max);
	if (g->now < g->limit)
		return g->limit;
	/* No more than lies on the host, and in steps: earlier growth is filled first. */
	wanted = growth_least(g->spilled, step > STEP_LEAST ? step : STEP_LEAST);
	wanted = growth_least(plus(g->used, wanted), minus(most, margin));
	wanted = growth_least(wanted, g->limit_max);
	return wanted > g->now ? wanted : g->now;
}

static bool growth_look(struct device *device, const struct terms *terms, struct growth *g)
{
	g->memory = device->id.memory;
	g->limit = terms->settings.memory;
	g->limit_max = terms->settings.memory_max;
	g->now = terms->limit;
	g->used = device_charged(device, SEGMENT_ON_DEVICE);
	/* A higher limit would not bring back memory that other jobs have claimed. */
	g->spilled =
	    terms->yields_above == UINT64_MAX ? device_charged(device, SEGMENT_ON_HOST) : 0;
	g->margin = yield_margin(device);
	return g->limit_max > g->limit && (g->spilled || g->now > g->limit);
}

/* The steps that this process has seen on a device. */
static struct stepping {
	_Atomic uint64_t ended_ns, woken_ns;
	_Atomic bool is_new; /* one has ended since growth was judged */
} stepping[DEVICE_MAX];

bool growth_step_ended(struct device *device, uint64_t now_ns)
{
	struct stepping *s = &stepping[device->id.ordinal];
	const struct terms terms = terms_of(device);

	if (terms.settings.memory_max <= terms.settings.memory)
		return false;
	atomic_store(&s->ended_ns, now_ns);
	atomic_store(&s->is_new, true);
	if (now_ns - atomic_load(&s->woken_ns) < GROWTH_INTERVAL_NS)
		return false;
	atomic_store(&s->woken_ns, now_ns);
	return true;
}

/* Returns whether no step is waited for; each step's end is good for one yes. */
static bool growth_is_due(struct device *device, uint64_t now_ns)
{
	struct stepping *s = &stepping[device->id.ordinal];
	uint64_t ended_ns = atomic_load(&s->ended_ns);

	return !ended_ns || (now_ns > ended_ns && now_ns - ended_ns >= GROWTH_STEPLESS_NS) ||
	       atomic_exchange(&s->is_new, false);
}

/* Returns whether this process is the one of the job that judges growth now. */
static bool growth_is_ours(const struct device *device)
{
	return device->is_in_books &&
	       segment_judges_growth(device->segment, device->index, GROWTH_INTERVAL_NS);
}

/*
 * Lets the limit of the whole job rise by so much, at most to memory_max. limit: the one it was
 * judged for.
 */
static void growth_set(struct device *device, uint64_t limit, uint64_t bytes)
{
	lock_acquire(&device->lock);
	segment_set_grown(device->segment, device->index, limit, bytes);
	lock_release(&device->lock);
}

bool growth_tick(struct device *device)
{
	const struct terms terms = terms_of(device);
	struct growth g = {0};

	if (terms.settings.evict || !growth_look(device, &terms, &g))
		return false;
	if (!capture_is_active() && growth_is_due(device, clock_now()) && growth_is_ours(device)) {
		if (device->is_in_books && !yield_is_on_call(device))
			g.owed = plus(segment_owed(device->segment, device->index),
			              yield_beside_owed[device->id.ordinal]);
		if (in_use_free(device, &g.free))
			growth_set(device, g.limit, growth_limit(&g) - g.limit);
	}
	device_note_limit(device);
	return true;
}
