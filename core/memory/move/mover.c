/* SPDX-License-Identifier: MIT */
/*
 * The mover. Rules: one thread of ours inside the user's process. It blocks every signal, makes no
 * driver call while a capture is active, and closes the gate only for times that have an end.
 *
 * plan     which chunks go where, with the memory they go to; made while the program works
 * window   the gate is held and seized, nothing runs: the plan is carried out
 *
 * It makes room as the front of allocations does (alloc/reclaim.h), without waiting and without
 * demotion.
 */
#include "core/memory/move/mover.h"

#include <pthread.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/late.h"
#include "core/budget/growth.h"
#include "core/budget/shortage.h"
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
#include "core/memory/arena/heat.h"
#include "core/memory/move/copy_window.h"
#include "core/memory/move/idle_point.h"
#include "core/memory/move/plan.h"
#include "core/memory/uses/measured.h"

/*
 * One move at a time: memory is chosen, a plan is made of it, and copy windows carry the plan out.
 * Each says why nothing has moved, or MOVE_NONE where something has.
 */

static struct plan moving_plan;

/* How long a swap waits for an idle point: it is not worth more. */
#define IDLE_POINT_PATIENCE_NS 500000000ull

/*
 * Returns whether the plan may go on, which may take long: it makes way for a call's request, and
 * for other settings than it was made under.
 */
static bool moving_goes_on(const struct terms *now)
{
	return now->generation == moving_plan.terms->generation && !wanted_is_asked();
}

static bool moving_is_beyond_limit(struct device *device)
{
	const struct terms now = terms_of(device);

	return device_charged(device, SEGMENT_ON_DEVICE) > terms_limit_of_movable(&now) &&
	       moving_goes_on(&now);
}

static bool moving_is_within_limit(struct device *device)
{
	const struct terms now = terms_of(device);

	return device_charged(device, SEGMENT_ON_DEVICE) <= terms_limit_of_movable(&now) &&
	       moving_goes_on(&now);
}

/*
 * Returns the same; a plan that waits for a good moment while more room comes is made anew for all
 * of it.
 */
static bool moving_has_all_room(struct device *device)
{
	return moving_is_within_limit(device) && (moving_plan.moved || !wanted_has_fill(device));
}

static bool moving_is_gentle(const struct terms *terms)
{
	return terms->settings.shrink == SHRINK_GENTLE;
}

/* Returns how long a good moment is waited for: once, however many plans a move takes. */
static struct deadline moving_deadline(const struct terms *terms)
{
	return DEADLINE_IN(terms->settings.demote_deadline);
}

/*
 * Returns the same for memory that is to leave: an opportunistic job, which gives way to all other
 * jobs, keeps none of them waiting.
 */
static struct deadline moving_shrink_deadline(const struct terms *terms)
{
	bool gives_way = terms->settings.priority == PRIORITY_OPPORTUNISTIC &&
	                 terms->yields_above < terms->limit;

	return gives_way ? DEADLINE_IN(0) : moving_deadline(terms);
}

/* Returns for how long the gate was closed by the last of them. */
static uint64_t moving_closed_ns(void)
{
	return moving_plan.closed_ns;
}

/*
 * Has so much of the choice leave. Returns MOVE_NONE once something was moved, else why nothing
 * was.
 */
static enum move_pending moving_leave(struct device *device, uint64_t bytes,
                                      const struct choice *choice, struct deadline *until)
{
	enum move_pending why;

	moving_plan.to = SEGMENT_ON_HOST;
	plan_fill(&moving_plan, device, choice, bytes);
	if (!moving_plan.count) {
		/*
		 * Memory that the program has freed since the spares were let go is among them: it
		 * goes next time.
		 */
		bool has_spares = moving_plan.spares_go && device_spare(device, SEGMENT_ON_DEVICE);

		why = has_spares ? MOVE_SOON : MOVE_PINNED;
		device_note_blocker(device, moving_plan.terms->generation, why);
		return why;
	}
	/* Why memory stayed before is no reason of this; for the rest it is found out again. */
	if (moving_plan.spares_go)
		device_note_blocker(device, moving_plan.terms->generation, MOVE_SOON);
	return copy_window_carry_out(&moving_plan, device, until);
}

/* Has so much of the choice leave, at an idle point, while the device is within its limit. */
static enum move_pending moving_demote(struct device *device, const struct terms *terms,
                                       uint64_t bytes, const struct choice *choice)
{
	moving_plan =
	    (struct plan){.terms = terms, .is_gentle = true, .is_wanted = moving_is_within_limit};
	return moving_leave(device, bytes, choice, &DEADLINE_IN(IDLE_POINT_PATIENCE_NS));
}

/*
 * Does the same where it is decided that it leaves, as gently as a shrink. insists: the gate is
 * held where there was no idle point. Else nothing is begun without one.
 */
static enum move_pending moving_demote_decided(struct device *device, const struct terms *terms,
                                               uint64_t bytes, const struct choice *choice,
                                               bool insists)
{
	moving_plan = (struct plan){.terms = terms,
	                            .is_gentle = moving_is_gentle(terms),
	                            .is_patient = !insists,
	                            .has_time = true,
	                            .is_wanted = moving_is_within_limit};
	return moving_leave(device, bytes, choice, &DEADLINE_IN(IDLE_POINT_PATIENCE_NS));
}

/* Has the coldest memory leave. After a failure a moment is waited for anew. */
static enum move_pending moving_demote_coldest(struct device *device, uint64_t bytes,
                                               CUdeviceptr except, struct deadline *until)
{
	struct choice choice;
	enum move_pending why;

	plan_choose(device, SEGMENT_ON_DEVICE, except, &choice);
	why = moving_leave(device, bytes, &choice, until);
	if (why != MOVE_NONE)
		*until = moving_deadline(moving_plan.terms);
	return why;
}

/*
 * Has so much of the coldest memory leave, while the device is beyond its limit, and insists on it
 * once the deadline has passed. A failure begins a new one, as of all that follow.
 */
static enum move_pending moving_shrink(struct device *device, const struct terms *terms,
                                       uint64_t bytes, struct deadline *until)
{
	moving_plan = (struct plan){.terms = terms,
	                            .spares_go = true,
	                            .is_gentle = moving_is_gentle(terms),
	                            .is_wanted = moving_is_beyond_limit};
	return moving_demote_coldest(device, bytes, 0, until);
}

/*
 * Does the same for a call that waits, with any limit, with all except this run (0: with all).
 * *done: so many bytes more have left.
 */
static enum move_pending moving_make_room(struct device *device, const struct terms *terms,
                                          uint64_t bytes, CUdeviceptr except,
                                          struct deadline *until, uint64_t *done)
{
	enum move_pending why;

	moving_plan = (struct plan){.terms = terms, .spares_go = true};
	why = moving_demote_coldest(device, bytes, except, until);
	*done += moving_plan.moved;
	return why;
}

/* Brings so much of the choice to the device. Returns MOVE_SOON also where nothing of it fits. */
static enum move_pending moving_promote(struct device *device, const struct terms *terms,
                                        uint64_t bytes, const struct choice *choice,
                                        struct deadline *until)
{
	enum move_pending why;

	moving_plan = (struct plan){.terms = terms,
	                            .to = SEGMENT_ON_DEVICE,
	                            .is_gentle = moving_is_gentle(terms),
	                            .is_wanted = moving_has_all_room};
	plan_fill(&moving_plan, device, choice, bytes);
	if (!moving_plan.count)
		return MOVE_SOON;
	why = copy_window_carry_out(&moving_plan, device, until);
	if (why != MOVE_NONE && !wanted_has_fill(device))
		*until = moving_deadline(moving_plan.terms);
	return why;
}

/*
 * Brings the choice to the device at once, to stay there. *lacks: there is no memory to move it to.
 */
static enum move_pending moving_pin(struct device *device, const struct terms *terms,
                                    const struct choice *choice, bool is_exportable, bool *lacks)
{
	enum move_pending why;

	moving_plan = (struct plan){.terms = terms,
	                            .to = SEGMENT_ON_DEVICE,
	                            .is_exportable = is_exportable,
	                            .pins = true,
	                            .spares_go = true};
	plan_fill(&moving_plan, device, choice, UINT64_MAX);
	if (!moving_plan.count)
		return MOVE_PINNED;
	why = copy_window_carry_out(&moving_plan, device, &DEADLINE_IN(0));
	*lacks = !moving_plan.moved && moving_plan.lacks != MOVE_NONE;
	return why;
}

/*
 * The balance: what is needed more than what is on the device comes there. By the mover alone.
 */

#define ROOM_IS_FOR_ITS_ASKER 1000000000ull
/*
 * So many times as long as an exchange nothing is exchanged again. As long as what has left does
 * not come back a step gains by each exchange, and the rest is short. A program that uses in turns
 * more than fits would have its memory moved all the time, and gain nothing. So each exchange of
 * memory that has left lately doubles the rest after it, and each exchange of other memory halves
 * it. Where it is decided what is to be where, exchanges have an end.
 */
enum { REST_LEAST = 4, REST_MOST = 40, REST_WHERE_DECIDED = 4 };
/* So long it is lately, and of so many it is known. */
enum { LATELY_MS = 20000, LEFT_MAX = 4096 };
/*
 * What is decided waits for an idle point, without the gate, for so long; then the gate is held,
 * once, and the next wait is twice as long.
 */
#define IDLE_POINTS_FIRST_NS 10000000000ull

/* On CLOCK_MONOTONIC. */
static struct balance_rests {
	uint64_t no_promotion_until, no_exchange_until;
	uint64_t times; /* as long as an exchange the rest is; 0: there was none yet */
	uint64_t insists_at, idle_points_ns; /* 0: nothing that is decided waits to be exchanged */
	bool is_filling;
	struct deadline fill; /* one for all plans of it */
} balance_rests[DEVICE_MAX];

/* Leaves room that was made for a call to the call, for a second. */
static void balance_rest(const struct device *device)
{
	balance_rests[device->id.ordinal].no_promotion_until = clock_now() + ROOM_IS_FOR_ITS_ASKER;
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

/* Carries out what is decided. Returns whether anything has moved. */
static bool demote_decided(struct device *device, const struct terms *terms, uint64_t bytes,
                           const struct choice *cold)
{
	struct balance_rests *rest = &balance_rests[device->id.ordinal];
	bool moved, insists;

	if (!rest->insists_at) {
		rest->idle_points_ns = IDLE_POINTS_FIRST_NS;
		rest->insists_at = clock_now() + rest->idle_points_ns;
	}
	insists = clock_now() >= rest->insists_at;
	moved = moving_demote_decided(device, terms, bytes, cold, insists) == MOVE_NONE;
	if (moved) {
		rest->insists_at = 0;
	} else if (insists) {
		rest->idle_points_ns *= 2;
		rest->insists_at = clock_now() + rest->idle_points_ns;
	}
	return moved;
}

/* Chunks that an exchange had leave, by their addresses; one may take another's place. */
struct left {
	CUdeviceptr address;
	uint32_t at_ms;
};
static _Atomic(void *) lately_left; /* LEFT_MAX of them; without memory nothing has left */

static struct left *left_at(CUdeviceptr address)
{
	static struct left none;
	struct left *all = late_make(&lately_left, LEFT_MAX * sizeof(*all));

	return all ? &all[address / ARENA_UNIT % LEFT_MAX] : &none;
}

static uint32_t now_ms(void)
{
	return (uint32_t)(clock_now() / 1000000);
}

/* Returns whether most of the first so many have left lately. */
static bool come_back(const struct choice *hot, size_t count)
{
	size_t back = 0;

	for (size_t i = 0; i < count; i++) {
		const struct left *l = left_at(hot->of[i].address);

		back += l->address == hot->of[i].address && now_ms() - l->at_ms < LATELY_MS;
	}
	return back * 2 > count;
}

/* Notes what has left for what, and says how long the rest is. */
static void mover_note_exchange(struct balance_rests *rest, const struct choice *cold,
                                const struct choice *hot)
{
	size_t pairs = cold->count < hot->count ? cold->count : hot->count;
	uint64_t times = come_back(hot, pairs) ? rest->times * 2 : rest->times / 2;

	rest->times = times < REST_LEAST ? REST_LEAST : times > REST_MOST ? REST_MOST : times;
	for (size_t i = 0; i < cold->count; i++)
		*left_at(cold->of[i].address) = (struct left){cold->of[i].address, now_ms()};
}

/*
 * Returns whether so much more is exchanged at once. On a full device there is no other room than
 * what has left, and what is not kept is anybody's.
 */
static bool goes_along(struct device *device, const struct terms *terms, bool is_decided,
                       uint64_t bytes, uint64_t more)
{
	return (is_decided || bytes < copy_window_bytes(device, SEGMENT_ON_HOST)) &&
	       (!placement_ask(false, is_full, device) ||
	        bytes + more <= spare_keeps(device, terms));
}

/*
 * Leaves out the hottest for which there would be no room if all went that is colder: what went
 * for them would come back at once, and go again.
 */
static void leave_out_too_large(const struct choice *cold, struct choice *hot, uint64_t room)
{
	size_t large = 0;

	for (; large < hot->count; large++) {
		const struct candidate *h = &hot->of[large];
		uint64_t bytes = room;

		for (size_t i = 0; i < cold->count && bytes < h->size &&
		                   movable_heat(cold->of[i].rank) < movable_heat(h->rank);
		     i++)
			bytes += cold->of[i].size;
		if (bytes >= h->size)
			break;
	}
	hot->count -= large;
	memmove(hot->of, hot->of + large, hot->count * sizeof(*hot->of));
}

/*
 * Swaps cold chunks of the device for the hot ones of the host; what they leave the next look
 * promotes into. room: bytes that there are besides.
 */
static bool swap(struct device *device, const struct terms *terms, uint64_t room,
                 struct choice *hot)
{
	struct balance_rests *rest = &balance_rests[device->id.ordinal];
	bool is_decided = placement_ask(false, has_decided, device, hot->of[0].address), moved;
	uint64_t bytes = 0;
	struct choice cold;
	size_t pairs = 0;

	if (placement_ask(false, is_awaited, device) || clock_now() < rest->no_exchange_until)
		return false;
	plan_choose(device, SEGMENT_ON_DEVICE, 0, &cold);
	leave_out_too_large(&cold, hot, room);
	if (!swap_is_worth(&cold, hot)) {
		placement_tell(note_even, device);
		rest->insists_at = 0;
		return false;
	}
	while (pairs < cold.count && pairs < hot->count &&
	       movable_heat(cold.of[pairs].rank) < movable_heat(hot->of[pairs].rank) &&
	       (!pairs || goes_along(device, terms, is_decided, bytes, cold.of[pairs].size)))
		bytes += cold.of[pairs++].size;
	/* The hottest may be larger than the first that go for it. */
	while (bytes + room < hot->of[0].size)
		bytes += cold.of[pairs++].size;
	cold.count = pairs;
	moved = is_decided ? demote_decided(device, terms, bytes, &cold)
	                   : moving_demote(device, terms, bytes, &cold) == MOVE_NONE;
	if (moved && !is_decided)
		mover_note_exchange(rest, &cold, hot);
	if (moved)
		rest->no_promotion_until = 0;
	rest->no_exchange_until =
	    clock_now() + moving_closed_ns() * (is_decided ? REST_WHERE_DECIDED
	                                        : moved    ? rest->times
	                                                   : REST_MOST);
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

/* Returns the bytes of what is charged that are kept ready on the device. */
static uint64_t spare_within(const struct device *device, uint64_t charged)
{
	uint64_t spare = device_spare(device, SEGMENT_ON_DEVICE);

	return spare < charged ? spare : charged;
}

/* Says that there is nothing to bring back: when there is again, a good moment is waited for. */
static void balance_is_even(const struct device *device)
{
	balance_rests[device->id.ordinal].is_filling = false;
}

/*
 * Brings back what fits, or what is needed more than what is there. charged: what the device holds.
 * Returns whether anything was moved.
 */
static bool balance_fill(struct device *device, const struct terms *terms, uint64_t charged)
{
	struct balance_rests *rest = &balance_rests[device->id.ordinal];
	struct choice hot;
	/* Memory that is kept ready is what comes back goes to: a move that failed has left it. */
	uint64_t used = charged - spare_within(device, charged);
	uint64_t limit = terms_limit_of_movable(terms);
	uint64_t room = limit > used ? limit - used : 0;

	if (wanted_takes_fill(device))
		rest->no_promotion_until = 0;
	if (clock_now() < rest->no_promotion_until)
		return false;
	plan_choose(device, SEGMENT_ON_HOST, 0, &hot);
	if (!hot.count)
		return false;
	if (one_fits(&hot, room)) {
		uint64_t kept = device_spare(device, SEGMENT_ON_DEVICE);
		enum move_pending why;

		if (!rest->is_filling)
			rest->fill = moving_deadline(terms);
		rest->is_filling = true;
		why = moving_promote(device, terms, room, &hot, &rest->fill);
		if (why == MOVE_NONE)
			return true;
		/* A bad moment for this is one for an exchange. */
		if (why == MOVE_WORK || why == MOVE_INSIDE || why == MOVE_CAPTURE)
			return false;
		/* Chunks of another size may be kept ready. This try's own are no room. */
		if (why == MOVE_DEVICE_FULL && spare_trim(device, SEGMENT_ON_DEVICE, true) && kept)
			return true;
		/* The device is full although the limit is not. */
		if (why == MOVE_DEVICE_FULL) {
			placement_tell(note_full, device);
			balance_rest(device);
			shortage_say(device);
		}
		room = 0;
	} else {
		balance_is_even(device);
		device_note_blocker(device, terms->generation, MOVE_NONE);
	}
	return swap(device, terms, room, &hot);
}

/*
 * Answers: what calls of the program ask the mover for, and wait for. By the mover alone.
 */

/* Returns the bytes that must leave so that so much more is below the limit. */
static uint64_t mover_missing(struct device *device, const struct terms *terms, uint64_t room)
{
	uint64_t wanted = device_charged(device, SEGMENT_ON_DEVICE) + room;

	return wanted > terms->limit ? wanted - terms->limit : 0;
}

/* The program may be at work just then: tried again, so that its call does not fail for that. */
enum { ROOM_TRIES = 3 };

/* Gives back unused memory of a device, for the mover. Returns whether there was any. */
static bool reclaim_unused(struct device *device)
{
	const struct lack all = {.tier = SEGMENT_ON_DEVICE, .bytes = UINT64_MAX};
	struct reclaim r = {.device = device};
	bool came = false;

	while (reclaim(&r, &all))
		came = true;
	return came;
}

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
		bytes = mover_missing(r->device, &terms, r->room);
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
 * Goes one copy window on towards pinning it. Returns why nothing has moved, or MOVE_NONE.
 * *demoted: as of moving_make_room().
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
	if (!mover_missing(r->device, terms, bytes))
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
#define IDLE_POINT_NS (10 * MS)  /* so long an idle point is waited for at a time */

/* The mover keeps this of a device. */
static struct polled {
	uint64_t next_look; /* CLOCK_MONOTONIC; 0: none is due */
	bool is_shrinking;
	struct deadline shrink; /* one for all plans of it */
} polled[DEVICE_MAX];

/* --- what is wanted --- */

static void look_again_in(struct device *device, uint64_t ns)
{
	uint64_t *next = &polled[device->id.ordinal].next_look, then = clock_now() + ns;

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
 * the program's calls wait for that, in an idle point alone. That is now, or when the program comes
 * back from a wait, which then waits for idle_point_take().
 */
static bool is_idle_point(const struct device *device)
{
	if (host_probe_unmap(device) == CUDA_SUCCESS || idle_is_seen())
		return true;
	idle_point_wait(IDLE_POINT_NS);
	return idle_is_seen();
}

/*
 * Releases what nobody uses where more is charged than the limit. Returns so much of it as has to
 * wait for an idle point.
 */
static uint64_t release_unused(struct device *device)
{
	uint64_t waits = 0;

	if (capture_is_active())
		return 0;
	if (is_idle_point(device))
		reclaim_unused(device);
	else
		waits = device_spare(device, SEGMENT_ON_DEVICE);
	idle_point_take();
	return waits;
}

/* Has memory leave that is beyond the limit. Returns whether any has left. */
static bool poll_beyond_limit(struct device *device, const struct terms *terms, uint64_t bytes)
{
	struct polled *t = &polled[device->id.ordinal];
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
	if (is_idle_point(device)) {
		spare_trim(device, SEGMENT_ON_DEVICE, false);
		spare_trim(device, SEGMENT_ON_HOST, false);
	} else if (!is_resting) {
		look_again_in(device, LOOK_SOON);
	}
	idle_point_take();
}

/* Looks after the spares, where nothing is to be moved. */
static void poll_spares(struct device *device, const struct terms *terms, bool is_resting)
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
static bool mover_poll_device(struct device *device, bool grows)
{
	const struct arena *arena = arena_made(device);
	struct polled *t = &polled[device->id.ordinal];
	struct terms terms = terms_of(device);
	uint64_t limit = terms_limit_of_movable(&terms);
	uint64_t charged = device_charged(device, SEGMENT_ON_DEVICE), spare;
	bool is_resting = rests(device, arena, &terms) && !placement_ask(false, hurries, device);

	grows &= !is_resting;
	t->next_look = clock_now() + (grows        ? GROWTH_INTERVAL_NS
	                              : is_resting ? LOOK_RESTING
	                                           : LOOK_AGAIN);
	catch_up(device);
	spare = device_spare(device, SEGMENT_ON_DEVICE);
	placement_tell(poll, device, &terms, charged > spare ? charged - spare : 0, spare,
	               arena->on_host);
	if (charged > limit) {
		uint64_t waits = release_unused(device);

		charged = device_charged(device, SEGMENT_ON_DEVICE);
		if (charged > limit && charged - limit > waits)
			return poll_beyond_limit(device, &terms, charged - limit - waits);
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
	poll_spares(device, &terms, is_resting);
	return false;
}

/* Lets the limit grow, and then looks after the device under the limit that there is now. */
static bool look_after(struct device *device)
{
	return mover_poll_device(device, growth_tick(device));
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
			settled &=
			    !is_spilled || placement_ask(false, is_settled, range->arena->device);
		}
	}
	heat_sample(!spilled ? HEAT_THINLY : settled ? HEAT_SELDOM : HEAT_CLOSELY);
}

static void sleep_until_wanted(void)
{
	uint64_t then = clock_now() + LOOK_RESTING;

	for (int i = 0; i < DEVICE_MAX; i++) {
		if (polled[i].next_look && polled[i].next_look < then)
			then = polled[i].next_look;
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
	while (copy_window_is_under_way() && deadline_nap(&until, 1 * MS))
		;
}
