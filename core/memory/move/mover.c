/* SPDX-License-Identifier: MIT */
/*
 * The mover. Rules: one thread of ours inside the user's process. It blocks every signal, makes no
 * driver call while a capture is active, and closes the gate only for times that have an end.
 *
 * plan     which chunks go where, with the memory they go to; made while the program works
 * closure  the gate is held and seized, nothing runs: the plan is carried out
 *
 * It makes room as the front of allocations does (alloc/reclaim.h), without waiting and without
 * demotion.
 */
#include "core/memory/move/mover.h"

#include <pthread.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/budget/growth.h"
#include "core/budget/terms.h"
#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/idle.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/alloc/reclaim.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/host_probe.h"
#include "core/memory/arena/spare.h"
#include "core/memory/heat/heat.h"
#include "core/memory/move/balance.h"
#include "core/memory/move/closure.h"
#include "core/memory/move/lull.h"
#include "core/memory/move/moving.h"
#include "core/memory/move/placement.h"
#include "core/memory/move/plan.h"
#include "core/memory/uses/measured.h"

/*
 * Answers: what calls of the program ask the mover for, and wait for. By the mover alone.
 */

/* Returns the bytes that must leave so that so much more is below the limit. */
static uint64_t missing(struct device *device, const struct terms *terms, uint64_t room)
{
	uint64_t wanted = device_charged(device, SEGMENT_ON_DEVICE) + room;

	return wanted > terms->limit ? wanted - terms->limit : 0;
}

/* The program may be at work just then: tried again, so that its call does not fail for that. */
enum { ROOM_TRIES = 3 };

static CUresult answer_room(const struct wanted_request *r)
{
	const struct terms terms = terms_of(r->device);
	struct deadline until = moving_deadline(&terms);
	uint64_t done = 0, bytes;
	int tries = ROOM_TRIES;
	bool has_room;

	balance_rest(r->device);
	has_room = reclaim_unused(r->device);
	for (;;) {
		bytes = missing(r->device, &terms, r->room);
		/* The device may be full of others' memory, whatever the limit. */
		if (done < r->room && bytes < r->room - done)
			bytes = r->room - done;
		if (!bytes || !tries)
			break;
		if (moving_make_room(r->device, &terms, bytes, 0, &until, &done) != MOVE_NONE)
			tries--;
	}
	return has_room || done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* In a row without anything having moved; then the asker is told that it is not ready. */
enum { PIN_TRIES = 64 };

/*
 * Goes one closure on towards pinning it. Returns why nothing has moved, or MOVE_NONE. *demoted: as
 * of moving_make_room().
 */
static enum move_pending move_to_pin(const struct wanted_request *r, const struct terms *terms,
                                     const struct choice *choice, struct deadline *until,
                                     uint64_t *demoted)
{
	bool lacks = false;
	enum move_pending why = moving_pin(r->device, terms, choice, r->is_exportable, &lacks);

	if (!lacks)
		return why;
	/* Memory that nobody uses goes before memory that somebody does. */
	if (reclaim_unused(r->device))
		return MOVE_NONE;
	/* What makes room for it is other memory. */
	return moving_make_room(r->device, terms, choice->of[0].size, choice->of[0].run, until,
	                        demoted);
}

/* Says what it lacks that others have: the device is full, and the limit is not. */
static CUresult lacks_room(struct wanted_request *r, const struct terms *terms,
                           const struct choice *choice)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < choice->count; i++)
		bytes += choice->of[i].size;
	if (!missing(r->device, terms, bytes))
		r->room = bytes;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult answer_pin(struct wanted_request *r)
{
	const struct movable_kind *kind = plan_kind_at(r->pin);
	const struct terms terms = terms_of(r->device);
	struct deadline until = moving_deadline(&terms);
	enum move_pending why = MOVE_NONE;
	uint64_t demoted = 0;
	struct choice choice;

	if (!kind) /* it has gone meanwhile */
		return CUDA_SUCCESS;
	for (int left = PIN_TRIES; left;) {
		choice.count = 0;
		kind->acquire(r->device);
		kind->choose_at(r->device, r->pin, r->is_exportable, &choice);
		if (!choice.count)
			kind->pin(r->device, r->pin);
		kind->release(r->device);
		if (!choice.count)
			return CUDA_SUCCESS;
		/* Others take what it makes free. */
		if (demoted > terms.limit)
			break;
		why = move_to_pin(r, &terms, &choice, &until, &demoted);
		if (why != MOVE_NONE && why != MOVE_WORK && why != MOVE_INSIDE)
			break;
		left = why == MOVE_NONE ? PIN_TRIES : left - 1;
	}
	switch (why) {
	case MOVE_WORK:
	case MOVE_INSIDE:
	case MOVE_CAPTURE:
		return CUDA_ERROR_NOT_READY;
	case MOVE_FAILED:
		return CUDA_ERROR_MAP_FAILED;
	default:
		return lacks_room(r, &terms, &choice);
	}
}

/* Answers all that is asked for now (budget/wanted.h). */
static void answer_all(void)
{
	struct wanted_request *r;

	while ((r = wanted_take()) != NULL)
		wanted_answer(r, capture_is_active() ? CUDA_ERROR_NOT_READY
		                 : r->pin            ? answer_pin(r)
		                                     : answer_room(r));
}

#define MS 1000000ull

#define LOOK_AGAIN    (500 * MS)  /* where nothing is wanted */
#define LOOK_SOON     (50 * MS)   /* where something may become possible */
#define LOOK_RESTING  (1000 * MS) /* where the program does nothing, and nothing happens to it */
#define RESTS_AFTER   (2000 * MS)
#define STOP_PATIENCE (100 * MS) /* who exits is kept waiting so long */
#define LULL_NS       (10 * MS)  /* so long a lull is waited for at a time */

/* The mover keeps this of a device. */
static struct tended {
	uint64_t next_look; /* CLOCK_MONOTONIC; 0: none is due */
	bool is_shrinking;
	struct deadline shrink; /* one for all plans of it */
} tended[DEVICE_MAX];

/* --- what is wanted --- */

static void look_again_in(struct device *device, uint64_t ns)
{
	uint64_t *next = &tended[device->id.ordinal].next_look, then = clock_now() + ns;

	if (then < *next)
		*next = then;
}

/* Returns whether nothing has been launched or charged, and no memory moved, for a while. What
 * becomes possible for such a program is not urgent. */
static bool rests(struct device *device, const struct arena *arena, const struct terms *terms)
{
	static struct {
		uint64_t launches, graphs, charged, on_host, generation, since_ns;
	} known[DEVICE_MAX], *k;
	uint64_t launches = counters_get(device->statistics, launches);
	uint64_t graphs = counters_get(device->statistics, graph_launches);
	uint64_t charged = device_charged(device, SEGMENT_ON_DEVICE);

	k = &known[device->id.ordinal];
	if (k->launches != launches || k->graphs != graphs || k->charged != charged ||
	    k->on_host != arena->on_host || k->generation != terms->generation) {
		k->launches = launches;
		k->graphs = graphs;
		k->charged = charged;
		k->on_host = arena->on_host;
		k->generation = terms->generation;
		k->since_ns = clock_now();
	}
	return clock_now() - k->since_ns > RESTS_AFTER;
}

/*
 * Makes a few chunks ahead of the kind that was missing. What the host has left is asked of the
 * kernel, so only then.
 */
static void prefill(struct device *device, const struct terms *terms)
{
	unsigned int on_device = spare_missing(device, SEGMENT_ON_DEVICE);
	unsigned int on_host = spare_missing(device, SEGMENT_ON_HOST);

	if (on_device)
		spare_prefill(device, terms, SEGMENT_ON_DEVICE, on_device);
	if (on_host && arena_made(device)->on_host)
		spare_prefill(device, terms, SEGMENT_ON_HOST, on_host);
}

/*
 * Returns whether memory can be released: where the driver may wait for what runs then, and have
 * the program's calls wait for that, in a lull alone. That is now, or when the program comes back
 * from a wait, which then waits for lull_take().
 */
static bool is_lull(const struct device *device)
{
	if (host_probe_unmap(device) == CUDA_SUCCESS || idle_is_seen())
		return true;
	lull_wait(LULL_NS);
	return idle_is_seen();
}

/*
 * Releases what nobody uses where more is charged than the limit. Returns so much of it as has to
 * wait for a lull.
 */
static uint64_t release_unused(struct device *device)
{
	uint64_t waits = 0;

	if (capture_is_active())
		return 0;
	if (is_lull(device))
		reclaim_unused(device);
	else
		waits = device_spare(device, SEGMENT_ON_DEVICE);
	lull_take();
	return waits;
}

/* Has memory leave that is beyond the limit. Returns whether any has left. */
static bool tend_beyond_limit(struct device *device, const struct terms *terms, uint64_t bytes)
{
	struct tended *t = &tended[device->id.ordinal];
	enum move_pending why = MOVE_CAPTURE;

	if (!t->is_shrinking)
		t->shrink = moving_shrink_deadline(terms);
	t->is_shrinking = true;
	if (capture_is_active())
		device_note_blocker(device, terms->generation, why);
	else
		why = moving_shrink(device, terms, bytes, &t->shrink);
	/* Memory that must stay is not asked for so often. */
	if (why != MOVE_PINNED)
		look_again_in(device, LOOK_SOON);
	return why == MOVE_NONE;
}

/* Releases spares that nobody took. A program that does nothing else meanwhile has time. */
static void trim_spares(struct device *device, bool is_resting)
{
	if (!spare_is_due(device))
		return;
	if (is_lull(device)) {
		spare_trim(device, SEGMENT_ON_DEVICE, false);
		spare_trim(device, SEGMENT_ON_HOST, false);
	} else if (!is_resting) {
		look_again_in(device, LOOK_SOON);
	}
	lull_take();
}

/* Looks after the spares, where nothing is to be moved. */
static void tend_spares(struct device *device, const struct terms *terms, bool is_resting)
{
	bool has_spares =
	    device_spare(device, SEGMENT_ON_DEVICE) || device_spare(device, SEGMENT_ON_HOST);

	trim_spares(device, is_resting);
	if (terms_limit_of_movable(terms) && context_of_device(device, &(struct context){0}))
		prefill(device, terms);
	if (has_spares && !is_resting)
		look_again_in(device, LOOK_AGAIN);
}

/* Charges what look-ups of functions took, as soon as that may be measured. */
static void catch_up(struct device *device)
{
	uint64_t rest_ns = measured_rest_ns(device);

	if (rest_ns)
		look_again_in(device, rest_ns < LOOK_AGAIN ? rest_ns : LOOK_AGAIN);
	else
		measured_catch_up(device);
}

/* Looks at a device once. Returns whether anything has moved, so that it is to be looked at again.
 */
static bool tend(struct device *device, bool grows)
{
	const struct arena *arena = arena_made(device);
	struct tended *t = &tended[device->id.ordinal];
	struct terms terms = terms_of(device);
	uint64_t limit = terms_limit_of_movable(&terms);
	uint64_t charged = device_charged(device, SEGMENT_ON_DEVICE), spare;
	bool is_resting = rests(device, arena, &terms) && !placement_hurries(device);

	grows &= !is_resting;
	t->next_look = clock_now() + (grows        ? GROWTH_INTERVAL_NS
	                              : is_resting ? LOOK_RESTING
	                                           : LOOK_AGAIN);
	catch_up(device);
	spare = device_spare(device, SEGMENT_ON_DEVICE);
	placement_tend(device, &terms, charged > spare ? charged - spare : 0, spare,
	               arena->on_host);
	if (charged > limit) {
		uint64_t waits = release_unused(device);

		charged = device_charged(device, SEGMENT_ON_DEVICE);
		if (charged > limit && charged - limit > waits)
			return tend_beyond_limit(device, &terms, charged - limit - waits);
		look_again_in(device, LOOK_SOON);
	}
	t->is_shrinking = false;
	if (arena->on_host && limit && !is_resting)
		look_again_in(device, LOOK_SOON);
	if (capture_is_active())
		return false;
	if (arena->on_host && limit && balance_fill(device, &terms, charged))
		return true;
	if (!arena->on_host) {
		balance_is_even(device);
		device_note_blocker(device, terms.generation, MOVE_NONE);
	}
	tend_spares(device, &terms, is_resting);
	return false;
}

/* Lets the limit grow, and then looks after the device under the limit that there is now. */
static bool look_after(struct device *device)
{
	return tend(device, growth_tick(device));
}

/* --- the thread --- */

static void set_sampling(void)
{
	bool spilled = false, settled = true;

	for (int i = 0; i < DEVICE_MAX; i++) {
		struct arena_range *range = &arena_ranges[i];

		if (atomic_load_explicit(&range->base, memory_order_acquire)) {
			bool is_spilled = range->arena->on_host != 0;

			spilled |= is_spilled;
			settled &= !is_spilled || placement_is_settled(range->arena->device);
		}
	}
	heat_sample(!spilled ? HEAT_THINLY : settled ? HEAT_SELDOM : HEAT_CLOSELY);
}

static void sleep_until_wanted(void)
{
	uint64_t then = clock_now() + LOOK_RESTING;

	for (int i = 0; i < DEVICE_MAX; i++) {
		if (tended[i].next_look && tended[i].next_look < then)
			then = tended[i].next_look;
	}
	wanted_sleep(then);
}

static void *move_on(void *cookie)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway-move");
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	while (!wanted_is_closed()) {
		bool moved;

		do {
			moved = false;
			answer_all();
			freed_poll();
			for (int i = 0; i < DEVICE_MAX && !wanted_is_closed(); i++) {
				struct arena_range *range = &arena_ranges[i];

				if (atomic_load_explicit(&range->base, memory_order_acquire))
					moved |= look_after(range->arena->device);
			}
		} while (moved && !wanted_is_closed());
		set_sampling();
		sleep_until_wanted();
	}
	return NULL;
}

/* Looks at heat thinly, so that the first shrink knows it. */
static void look_thinly(void)
{
	heat_sample(HEAT_THINLY);
}

void mover_begin(const struct movable_kind *const *kinds)
{
	plan_kinds(kinds);
	wanted_serve(move_on, look_thinly);
}

void mover_stop(void)
{
	struct deadline until = DEADLINE_IN(STOP_PATIENCE);

	wanted_close();
	while (closure_is_under_way() && deadline_nap(&until, 1 * MS))
		;
}
