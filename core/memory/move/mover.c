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
#include "core/base/lock.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/arena/arena.h"
#include "core/memory/move/closure.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/uses/graph_memory.h"
#include "core/memory/uses/measured.h"
#include "core/budget/growth.h"
#include "core/budget/terms.h"
#include "core/budget/wanted.h"
#include "core/memory/heat/heat.h"
#include "core/memory/arena/mixed.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/move/plan.h"
#include "core/memory/uses/pool.h"
#include "core/memory/alloc/reclaim.h"
#include "core/memory/arena/spare.h"
#include "core/cuda/capture.h"

#define MS 1000000ull

/* Promotions are not worth more than a natural moment for so long. */
#define PROMOTE_DEADLINE      (500 * MS)
#define LOOK_AGAIN            (500 * MS) /* where nothing is wanted */
#define LOOK_SOON             (50 * MS)  /* where something may become possible */
#define ROOM_IS_FOR_ITS_ASKER (1000 * MS)
#define STOP_PATIENCE         (100 * MS) /* who exits is kept waiting so long */
/*
 * So many times as long as an exchange nothing is exchanged again: a program that uses in turns
 * more than fits would have its memory moved all the time, and gain nothing.
 */
enum { REST_AFTER_EXCHANGE = 40 };

/* The mover keeps this of a device. */
static struct tended {
	uint64_t no_promotion_until; /* CLOCK_MONOTONIC */
	uint64_t no_exchange_until;
	uint64_t next_look;
} tended[DEVICE_MAX];

static struct plan plan;

/* Returns the device's arena, or NULL: without one nothing of the device moves. */
static struct arena *arena_on(const struct device *device)
{
	struct arena_range *range = &arena_ranges[device->id.ordinal];

	return atomic_load_explicit(&range->base, memory_order_acquire) ? range->arena : NULL;
}

/* --- what is wanted --- */

static void look_again_in(struct device *device, uint64_t ns)
{
	uint64_t *next = &tended[device->id.ordinal].next_look, then = clock_now() + ns;

	if (then < *next)
		*next = then;
}

static bool is_over_limit(struct device *device)
{
	return device_charged(device, SEGMENT_ON_DEVICE) > device_limit_of_movable(device);
}

static bool is_within_limit(struct device *device)
{
	return !is_over_limit(device);
}

/* Demotes the coldest. Returns MOVE_NONE once something was moved, else why nothing was. */
static enum move_pending demote(struct device *device, uint64_t bytes, const struct choice *choice,
                                bool is_urgent, bool (*is_wanted)(struct device *device))
{
	struct terms terms = terms_of(device);
	enum move_pending why;

	plan = (struct plan){.generation = terms.generation,
	                     .to = SEGMENT_ON_HOST,
	                     .spares_go = is_urgent,
	                     .is_wanted = is_wanted};
	why = plan_fill(&plan, device, choice, bytes, closure_bytes(device));
	if (!plan.count) {
		/*
		 * What the program has freed since the spares were let go is among them: it goes
		 * next time.
		 */
		bool has_spares = is_urgent && device_spare(device, SEGMENT_ON_DEVICE);

		if (why == MOVE_NONE)
			why = has_spares ? MOVE_SOON : MOVE_PINNED;
		device_note_blocker(device, plan.generation, why);
		return why;
	}
	/* Why memory stayed before is no reason of this; for the rest it is found out again. */
	if (is_urgent)
		device_note_blocker(device, plan.generation, MOVE_SOON);
	return closure_carry_out(&plan, device,
	                         is_urgent ? terms.settings.demote_deadline : PROMOTE_DEADLINE);
}

/* Returns as demote(); MOVE_SOON also where nothing of the choice fits. */
static enum move_pending promote(struct device *device, uint64_t bytes, const struct choice *choice)
{
	enum move_pending why;

	plan = (struct plan){.generation = device_generation(device),
	                     .to = SEGMENT_ON_DEVICE,
	                     .is_wanted = is_within_limit};
	why = plan_fill(&plan, device, choice, bytes, closure_bytes(device));
	if (plan.count)
		return closure_carry_out(&plan, device, PROMOTE_DEADLINE);
	if (why == MOVE_NONE)
		return MOVE_SOON;
	device_note_blocker(device, plan.generation, why);
	return why;
}

/*
 * Returns as demote(). *done: so many bytes more have left, of a plan that failed in its midst,
 * too.
 */
static enum move_pending shrink(struct device *device, uint64_t bytes,
                                bool (*is_wanted)(struct device *device), uint64_t *done)
{
	struct choice choice;
	enum move_pending why;

	plan_choose(device, SEGMENT_ON_DEVICE, &choice);
	why = demote(device, bytes, &choice, true, is_wanted);
	*done += plan.moved;
	return why;
}

/*
 * Returns whether the hottest on the host is hotter than the coldest on the device by more than a
 * chance.
 */
static bool swap_is_worth(const struct choice *cold, const struct choice *hot)
{
	return cold->count && hot->count &&
	       movable_heat(cold->of[0].rank) < movable_heat(hot->of[0].rank) &&
	       movable_heat(hot->of[0].rank) == HEAT_HOT;
}

/*
 * Swaps cold chunks of the device for the hot ones of the host; what they leave the next look
 * promotes into.
 */
static bool swap(struct device *device, struct choice *hot)
{
	struct tended *t = &tended[device->id.ordinal];
	uint64_t bytes = 0;
	struct choice cold;
	size_t pairs = 0;
	bool moved;

	if (clock_now() < t->no_exchange_until)
		return false;
	plan_choose(device, SEGMENT_ON_DEVICE, &cold);
	if (!swap_is_worth(&cold, hot))
		return false;
	while (pairs < cold.count && pairs < hot->count &&
	       movable_heat(cold.of[pairs].rank) < movable_heat(hot->of[pairs].rank) &&
	       bytes < closure_bytes(device))
		bytes += cold.of[pairs++].size;
	cold.count = pairs;
	moved = demote(device, bytes, &cold, false, is_within_limit) == MOVE_NONE;
	t->no_exchange_until = clock_now() + REST_AFTER_EXCHANGE * plan.closed_ns;
	return moved;
}

static bool one_fits(const struct choice *choice, uint64_t room)
{
	for (size_t i = 0; i < choice->count; i++) {
		if (choice->of[i].size <= room)
			return true;
	}
	return false;
}

/* Brings back what fits, or what is needed more than what is there. Whether anything was moved. */
static bool fill_device(struct device *device, const struct terms *terms, uint64_t charged)
{
	struct tended *t = &tended[device->id.ordinal];
	struct choice hot;
	uint64_t room = terms->limit > charged ? terms->limit - charged : 0;

	if (clock_now() < t->no_promotion_until) {
		look_again_in(device, LOOK_SOON);
		return false;
	}
	plan_choose(device, SEGMENT_ON_HOST, &hot);
	if (!hot.count)
		return false;
	if (one_fits(&hot, room)) {
		enum move_pending why = promote(device, room, &hot);

		if (why == MOVE_NONE)
			return true;
		/* The device is full although the limit is not, or the moment was bad. */
		if (why == MOVE_DEVICE_FULL)
			t->no_promotion_until = clock_now() + ROOM_IS_FOR_ITS_ASKER;
	} else {
		device_note_blocker(device, terms->generation, MOVE_NONE);
	}
	return swap(device, &hot);
}

/*
 * Makes a few chunks ahead of the kind that was missing. What the host has left is asked of the
 * kernel, so only then.
 */
static void prefill(struct device *device, uint64_t limit)
{
	unsigned int on_device = spare_missing(device, SEGMENT_ON_DEVICE);
	unsigned int on_host = spare_missing(device, SEGMENT_ON_HOST);
	const struct terms terms = terms_of(device);

	if (on_device)
		spare_prefill(device, SEGMENT_ON_DEVICE, on_device, limit);
	if (on_host && arena_on(device)->on_host)
		spare_prefill(device, SEGMENT_ON_HOST, on_host, terms_host_limit(&terms, device));
}

/* Has memory leave that is beyond the limit. Returns whether any has left. */
static bool tend_beyond_limit(struct device *device, const struct terms *terms, uint64_t bytes)
{
	enum move_pending why = MOVE_CAPTURE;
	uint64_t done = 0;

	if (capture_is_active())
		device_note_blocker(device, terms->generation, why);
	else
		why = shrink(device, bytes, is_over_limit, &done);
	/* Memory that must stay is not asked for so often. */
	if (why != MOVE_PINNED)
		look_again_in(device, LOOK_SOON);
	return why == MOVE_NONE;
}

/* Looks after the spares, where nothing is to be moved. */
static void tend_spares(struct device *device, uint64_t limit)
{
	bool has_spares =
	    device_spare(device, SEGMENT_ON_DEVICE) || device_spare(device, SEGMENT_ON_HOST);

	spare_trim(device, SEGMENT_ON_DEVICE, false);
	spare_trim(device, SEGMENT_ON_HOST, false);
	if (limit && context_of_device(device, &(struct context){0}))
		prefill(device, limit);
	if (has_spares)
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
static bool tend(struct device *device)
{
	const struct arena *arena = arena_on(device);
	struct tended *t = &tended[device->id.ordinal];
	bool grows = growth_tick(device);
	struct terms terms = terms_of(device);
	uint64_t limit = terms_limit_of_movable(&terms);
	uint64_t charged = device_charged(device, SEGMENT_ON_DEVICE);

	t->next_look = clock_now() + (grows ? GROWTH_INTERVAL_NS : LOOK_AGAIN);
	catch_up(device);
	if (charged > limit && !capture_is_active() && reclaim_unused(device))
		charged = device_charged(device, SEGMENT_ON_DEVICE);
	if (charged > limit && mixed_is_unknown(device) && !capture_is_active())
		mixed_find_out(device);
	if (charged > limit)
		return tend_beyond_limit(device, &terms, charged - limit);
	if (arena->on_host && limit)
		look_again_in(device, LOOK_SOON);
	if (capture_is_active())
		return false;
	if (arena->on_host && limit && fill_device(device, &terms, charged))
		return true;
	if (!arena->on_host)
		device_note_blocker(device, terms.generation, MOVE_NONE);
	tend_spares(device, limit);
	return false;
}

/* --- requests --- */

/* Returns the bytes that must leave so that so much more is below the limit. */
static uint64_t missing(struct device *device, uint64_t room)
{
	uint64_t wanted = device_charged(device, SEGMENT_ON_DEVICE) + room;
	uint64_t limit = device_limit(device);

	return wanted > limit ? wanted - limit : 0;
}

/* The program may be at work just then: tried again, so that its call does not fail for that. */
enum { ROOM_TRIES = 3 };

static CUresult answer_room(const struct wanted_request *r)
{
	uint64_t done = 0, bytes;
	int tries = ROOM_TRIES;
	bool has_room;

	tended[r->device->id.ordinal].no_promotion_until = clock_now() + ROOM_IS_FOR_ITS_ASKER;
	has_room = reclaim_unused(r->device);
	for (;;) {
		bytes = missing(r->device, r->room);
		/* The device may be full of others' memory, whatever the limit. */
		if (done < r->room && bytes < r->room - done)
			bytes = r->room - done;
		if (!bytes || !tries)
			break;
		if (shrink(r->device, bytes, NULL, &done) != MOVE_NONE)
			tries--;
	}
	return has_room || done ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* In a row without anything having moved; then the asker is told that it is not ready. */
enum { PIN_TRIES = 64 };

/*
 * Goes one closure on towards pinning it. Returns why nothing has moved, or MOVE_NONE. *demoted: as
 * of shrink().
 */
static enum move_pending move_to_pin(const struct wanted_request *r, const struct choice *choice,
                                     uint64_t *demoted)
{
	struct terms terms = terms_of(r->device);
	enum move_pending why;

	plan = (struct plan){.generation = terms.generation,
	                     .to = SEGMENT_ON_DEVICE,
	                     .is_exportable = r->is_exportable,
	                     .pins = true,
	                     .spares_go = true};
	why = plan_fill(&plan, r->device, choice, UINT64_MAX, closure_bytes(r->device));
	if (plan.count)
		return closure_carry_out(&plan, r->device, 0);
	if (why == MOVE_NONE)
		return MOVE_PINNED;
	/* Memory that nobody uses goes before memory that somebody does. */
	if (reclaim_unused(r->device))
		return MOVE_NONE;
	return shrink(r->device, choice->of[0].size, NULL, demoted);
}

static CUresult answer_pin(const struct wanted_request *r)
{
	const struct movable_kind *kind = plan_kind_at(r->pin);
	enum move_pending why = MOVE_NONE;
	uint64_t demoted = 0;

	if (!kind) /* it has gone meanwhile */
		return CUDA_SUCCESS;
	/* What makes room for it shall be other memory. */
	heat_touch(r->pin, HEAT_LAUNCHED, heat_now());
	for (int left = PIN_TRIES; left;) {
		struct choice choice;

		choice.count = 0;
		kind->acquire(r->device);
		kind->choose_at(r->device, r->pin, r->is_exportable, &choice);
		if (!choice.count)
			kind->pin(r->device, r->pin);
		kind->release(r->device);
		if (!choice.count)
			return CUDA_SUCCESS;
		/* All else has left by then: it would make room for itself. */
		if (demoted > device_limit(r->device))
			break;
		why = move_to_pin(r, &choice, &demoted);
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
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
}

static void answer_requests(void)
{
	struct wanted_request *r;

	while ((r = wanted_take()) != NULL)
		wanted_answer(r, capture_is_active() ? CUDA_ERROR_NOT_READY
		                 : r->pin            ? answer_pin(r)
		                                     : answer_room(r));
}

/* --- the thread --- */

static void set_sampling(void)
{
	bool spilled = false;

	for (int i = 0; i < DEVICE_MAX; i++) {
		struct arena_range *range = &arena_ranges[i];

		if (atomic_load_explicit(&range->base, memory_order_acquire))
			spilled |= range->arena->on_host != 0;
	}
	heat_sample(spilled ? HEAT_CLOSELY : HEAT_THINLY);
}

static void sleep_until_wanted(void)
{
	uint64_t then = clock_now() + 2 * LOOK_AGAIN;

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
			answer_requests();
			freed_poll();
			for (int i = 0; i < DEVICE_MAX && !wanted_is_closed(); i++) {
				struct arena_range *range = &arena_ranges[i];

				if (atomic_load_explicit(&range->base, memory_order_acquire))
					moved |= tend(range->arena->device);
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
