/* SPDX-License-Identifier: MIT */
/* The balance. Rules: by the mover thread alone, inside the user's process. */
#include "core/base/late.h"
#include "core/memory/move/balance.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/budget/shortage.h"
#include "core/budget/wanted.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/spare.h"
#include "core/memory/heat/heat.h"
#include "core/memory/move/closure.h"
#include "core/memory/move/moving.h"
#include "core/memory/move/placement.h"
#include "core/memory/move/plan.h"

#define ROOM_IS_FOR_ITS_ASKER 1000000000ull
/*
 * So many times as long as an exchange nothing is exchanged again. As long as what has left does
 * not come back a step gains by each exchange, and the rest is short. A program that uses in turns
 * more than fits would have its memory moved all the time, and gain nothing: with each exchange of
 * what has left lately the rest is twice as long, and half as long with each of what has not.
 * Where it is decided what is to be where, exchanges have an end.
 */
enum { REST_LEAST = 4, REST_MOST = 40, REST_WHERE_DECIDED = 4 };
/* So long it is lately, and of so many it is known. */
enum { LATELY_MS = 20000, LEFT_MAX = 4096 };
/*
 * What is decided waits for a lull, without the gate, for so long; then the gate is held, once, and
 * the next wait is twice as long.
 */
#define LULLS_FIRST_NS 10000000000ull

/* On CLOCK_MONOTONIC. */
static struct rests {
	uint64_t no_promotion_until, no_exchange_until;
	uint64_t times; /* as long as an exchange the rest is; 0: there was none yet */
	uint64_t insists_at, lulls_ns; /* 0: nothing that is decided waits to be exchanged */
	bool is_filling;
	struct deadline fill; /* one for all plans of it */
} rests[DEVICE_MAX];

void balance_rest(const struct device *device)
{
	rests[device->id.ordinal].no_promotion_until = clock_now() + ROOM_IS_FOR_ITS_ASKER;
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
	struct rests *rest = &rests[device->id.ordinal];
	bool moved, insists;

	if (!rest->insists_at) {
		rest->lulls_ns = LULLS_FIRST_NS;
		rest->insists_at = clock_now() + rest->lulls_ns;
	}
	insists = clock_now() >= rest->insists_at;
	moved = moving_demote_decided(device, terms, bytes, cold, insists) == MOVE_NONE;
	if (moved) {
		rest->insists_at = 0;
	} else if (insists) {
		rest->lulls_ns *= 2;
		rest->insists_at = clock_now() + rest->lulls_ns;
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
static void note_exchange(struct rests *rest, const struct choice *cold, const struct choice *hot)
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
	return (is_decided || bytes < closure_bytes(device, SEGMENT_ON_HOST)) &&
	       (!placement_is_full(device) || bytes + more <= spare_keeps(device, terms));
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
	struct rests *rest = &rests[device->id.ordinal];
	bool is_decided = placement_has_decided(device, hot->of[0].address), moved;
	uint64_t bytes = 0;
	struct choice cold;
	size_t pairs = 0;

	if (placement_is_awaited(device) || clock_now() < rest->no_exchange_until)
		return false;
	plan_choose(device, SEGMENT_ON_DEVICE, 0, &cold);
	leave_out_too_large(&cold, hot, room);
	if (!swap_is_worth(&cold, hot)) {
		placement_note_even(device);
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
		note_exchange(rest, &cold, hot);
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

void balance_is_even(const struct device *device)
{
	rests[device->id.ordinal].is_filling = false;
}

bool balance_fill(struct device *device, const struct terms *terms, uint64_t charged)
{
	struct rests *rest = &rests[device->id.ordinal];
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
			placement_note_full(device);
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
