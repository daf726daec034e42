/* SPDX-License-Identifier: MIT */
/* Placement. Rules: by the mover thread, inside the user's process. */
#include "core/memory/move/placement.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/budget/terms.h"
#include "core/ledger/placed.h"
#include "core/memory/arena/host_probe.h"
#include "core/memory/heat/heat.h"
#include "core/memory/heat/survey.h"
#include "core/memory/move/weighed.h"

#define SECOND 1000000000ull
/* What is known is found out anew so much later; what was not to be found, at first and at last. */
#define AGAIN      (600 * SECOND)
#define SOON       (10 * SECOND)
#define LATER_MOST AGAIN
/* Another part of the memory has to be on the host than was decided for: so much is a change. */
enum { CHANGED = 16 };
/* With `auto` memory moves for a gain of so much of what the host costs, and of a step. */
#define GAIN_OF_LOSS 0.05
#define GAIN_OF_STEP 0.01
/* With `balanced` for any gain, but not for a rounding. */
#define GAIN_AT_ALL 0.001
/* Decided places go back if kernels take more than so many times as long as before. */
#define WORSE 1.01
/* Decided moves hurry for so long; then they wait as all others do. */
#define HURRIES (60 * SECOND)

/* What is known of a device. */
static struct placement {
	struct weighed weighed; /* what was decided */
	uint64_t spill;         /* bytes of the pieces that have to be on the host now */
	uint64_t decided_for;   /* so many then */
	uint32_t since;         /* heat's time when the survey was begun */
	bool is_surveyed;       /* the survey under way is this device's */
	bool is_measured;       /* by it, now: what was measured shall be true of where memory is */
	bool acts;              /* what is on the wrong side is exchanged */
	bool is_tried;      /* so it does, and whether that was worth it is still to be measured */
	bool is_even;       /* all that is to be exchanged has been */
	bool has_gone_back; /* it was not worth it: memory goes back, and stays */
	bool is_awaited;    /* the first survey has not ended, and may say something */
	bool was_surveyed;  /* a survey has ended */
	bool is_full;       /* what is on the host has found no room since any was there */
	uint32_t before;    /* as of struct placed, */
	uint32_t best;      /* and this */
	uint64_t not_before, again, pause, decided_ns;
} placements[DEVICE_MAX];

static struct placement *placement_of(const struct device *device)
{
	return &placements[device->id.ordinal];
}

/* --- ranks --- */

static uint64_t in(enum heat heat, uint32_t order)
{
	return (uint64_t)heat << 32 | order;
}

uint64_t placement_rank(const struct device *device, CUdeviceptr address, uint32_t touched,
                        uint32_t now)
{
	const struct placement *p = placement_of(device);
	const struct ranked *ranked = weighed_find(&p->weighed, address);
	enum heat heat = p->is_measured ? HEAT_HOT : heat_of(touched, now);

	if (ranked)
		return in(p->acts && !p->is_measured && ranked->before < p->spill ? HEAT_COLD
		                                                                  : HEAT_HOT,
		          ranked->order);
	/* What the survey did not meet is used less than what it met, unless it is new. */
	if (p->weighed.pieces && !p->is_measured && heat >= HEAT_MILD &&
	    heat_age(touched, now) >= heat_age(p->since, now))
		heat = HEAT_WARM;
	return in(heat, touched);
}

bool placement_is_awaited(const struct device *device)
{
	return placement_of(device)->is_awaited;
}

bool placement_has_decided(const struct device *device, CUdeviceptr address)
{
	return placement_is_settled(device) &&
	       weighed_find(&placement_of(device)->weighed, address);
}

bool placement_is_settled(const struct device *device)
{
	const struct placement *p = placement_of(device);

	return p->weighed.pieces && !p->is_surveyed;
}

void placement_note_full(const struct device *device)
{
	placement_of(device)->is_full = true;
}

bool placement_is_full(const struct device *device)
{
	return placement_of(device)->is_full;
}

void placement_note_even(const struct device *device)
{
	struct placement *p = placement_of(device);

	if (p->acts && !p->is_surveyed)
		p->is_even = true;
}

bool placement_hurries(const struct device *device)
{
	const struct placement *p = placement_of(device);

	return p->acts && !p->is_even && !p->is_surveyed && clock_now() - p->decided_ns < HURRIES;
}

/* --- deciding --- */

/*
 * Returns the bytes that have to be on the host, of all that can move: what is beyond the limit,
 * and on a full device whatever is there.
 */
static uint64_t must_leave(const struct placement *p, const struct terms *terms, uint64_t charged,
                           uint64_t spare, uint64_t on_host)
{
	uint64_t movable = on_host + charged, limit = terms_limit_of_movable(terms);
	uint64_t beyond = movable > limit ? movable - limit : 0;
	uint64_t stays = p->is_full && on_host > spare ? on_host - spare : 0;

	return beyond > stays ? beyond : stays;
}

static bool is_worth(const struct weighed *w, uint64_t placement)
{
	double gain = w->now - w->then, loss = w->now - w->least;

	if (placement == PLACEMENT_BALANCED)
		return gain > GAIN_AT_ALL * w->now;
	return gain >= GAIN_OF_LOSS * loss && gain >= GAIN_OF_STEP * w->now && gain > 0;
}

static void forget(struct placement *p)
{
	weighed_free(&p->weighed);
	p->before = p->best = 0;
	p->acts = p->is_tried = p->is_even = p->has_gone_back = false;
}

/* Returns a time of all kernels in percent of what they take with nothing on the host. */
static uint32_t percent(const struct weighed *w, double time)
{
	double percent = w->least > 0 ? 100 * time / w->least : 0;

	return percent < PLACED_MOST ? (uint32_t)percent : PLACED_MOST;
}

/* Publishes what is in force, for those who look. */
static void show(const struct device *device, const struct placement *p, const struct terms *terms,
                 uint64_t on_host)
{
	bool is_balanced = p->acts && !p->has_gone_back;
	struct placed placed = {
	    .placement = !on_host            ? PLACED_NOWHERE
	                 : p->weighed.pieces ? is_balanced ? PLACED_BALANCED : PLACED_KEPT
	                 : p->is_surveyed    ? PLACED_SURVEYED
	                                     : PLACED_BY_HEAT,
	    .shrink = terms->settings.shrink == SHRINK_GENTLE ? SHRINKS_GENTLY : SHRINKS_FAST,
	    .before = p->before,
	    .best = p->best};

	atomic_store_explicit(device->placed, placed_pack(&placed), memory_order_relaxed);
}

static void say(const struct device *device, const struct weighed *w, bool acts)
{
	log_info(
	    "device %d: measured over two steps: kernels take %.2f times as long as with no memory "
	    "on the host, with the best placement %.2f times: %s",
	    device->index, w->now / w->least, w->then / w->least, acts ? "it moves" : "it stays");
}

static bool differs(uint64_t a, uint64_t b, uint64_t of)
{
	return (a > b ? a - b : b - a) > of / CHANGED;
}

/* Returns whether another part of the memory has to be on the host than was decided for. */
static bool has_changed(const struct placement *p)
{
	return differs(p->spill, p->decided_for, p->weighed.bytes);
}

/* Returns whether the same kernels use the same memory as when it was decided. */
static bool is_same(const struct placement *p, const struct weighed *now)
{
	const struct weighed *then = &p->weighed;
	uint64_t all = then->bytes + then->unknown;

	return !has_changed(p) && !differs(now->bytes + now->unknown, all, all) &&
	       now->kernels == then->kernels;
}

/* Has memory go back where it was if kernels took less time then, whatever was reckoned. */
static void judge(const struct device *device, struct placement *p, const struct weighed *now,
                  uint64_t leaves)
{
	double times = now->took / p->weighed.took;

	p->is_tried = false;
	/* Beside other jobs that says what they do. */
	if (times <= WORSE || yield_is_on_call(device))
		return;
	log_info("device %d: kernels take %.2f times as long as before memory moved: it goes back",
	         device->index, times);
	p->has_gone_back = true;
	p->is_even = false;
	p->decided_ns = clock_now();
	weighed_take_back(&p->weighed);
	p->spill = p->decided_for = leaves;
}

static void decide(struct device *device, struct placement *p, const struct survey *survey,
                   const struct terms *terms, uint64_t leaves)
{
	struct weighed_terms how = {.leaves = leaves,
	                            .is_shared = yield_is_on_call(device),
	                            .is_whole = !host_probe_may_mix(device, terms)};
	bool is_judged;
	struct weighed w;

	if (!weighed_make(device, survey, &how, &w))
		return;
	is_judged = is_same(p, &w) && p->is_tried && p->is_even;
	if (is_judged)
		judge(device, p, &w, leaves);
	if (is_judged || (p->has_gone_back && is_same(p, &w))) {
		weighed_free(&w);
		return;
	}
	forget(p);
	p->weighed = w;
	p->spill = p->decided_for = w.spill;
	p->acts = is_worth(&w, terms->settings.placement);
	p->is_tried = p->acts && w.took > 0 && !how.is_shared;
	p->decided_ns = clock_now();
	p->before = percent(&w, w.now);
	p->best = percent(&w, w.then);
	say(device, &w, p->acts);
}

/* --- surveys --- */

static void begin(const struct device *device, struct placement *p, const struct terms *terms)
{
	uint64_t now = clock_now();
	bool is_known = p->weighed.pieces && now < p->again && !has_changed(p);

	if (now < p->not_before || (is_known && !(p->is_tried && p->is_even)))
		return;
	p->since = heat_now();
	p->is_surveyed = survey_begin(device->id.ordinal, terms->settings.steps != STEPS_OFF, now);
}

/* Ends the survey under way. was_found: it told something. */
static void end(struct placement *p, bool was_found)
{
	uint64_t now = clock_now();

	survey_end();
	p->is_surveyed = p->is_measured = false;
	p->was_surveyed = true;
	p->pause = was_found || !p->pause ? SOON : p->pause < LATER_MOST ? p->pause * 2 : p->pause;
	p->not_before = now + p->pause;
	p->again = now + AGAIN;
}

static void go_on(struct device *device, struct placement *p, const struct terms *terms,
                  uint64_t leaves)
{
	uint64_t now = clock_now();
	enum survey_state state = survey_tend(now);

	p->is_measured = state == SURVEY_TAKEN || state == SURVEY_READ;
	switch (state) {
	case SURVEY_WITHOUT_STEPS:
		if (terms->settings.placement == PLACEMENT_BALANCED)
			survey_without_steps(now);
		else
			end(p, false);
		break;
	case SURVEY_DONE:
		decide(device, p, survey_found(), terms, leaves);
		end(p, true);
		break;
	case SURVEY_FAILED:
		log_info("device %d: memory is placed by heat: %s", device->index,
		         survey_failure());
		forget(p);
		end(p, false);
		break;
	default:
		break;
	}
}

/* Returns whether a survey may say anything that these settings let be done. */
static bool may_be_found(const struct terms *terms)
{
	const struct config_gpu *settings = &terms->settings;

	return settings->placement == PLACEMENT_BALANCED ||
	       (settings->placement == PLACEMENT_AUTO && settings->steps != STEPS_OFF);
}

void placement_tend(struct device *device, const struct terms *terms, uint64_t charged,
                    uint64_t spare, uint64_t on_host)
{
	struct placement *p = placement_of(device);
	bool is_wanted = may_be_found(terms) && terms_limit_of_movable(terms) && on_host;
	uint64_t leaves;

	p->is_full &= on_host != 0;
	leaves = must_leave(p, terms, charged, spare, on_host);
	p->spill = leaves > p->weighed.unknown ? leaves - p->weighed.unknown : 0;
	if (p->is_surveyed && is_wanted)
		go_on(device, p, terms, leaves);
	else if (p->is_surveyed)
		end(p, false);
	else if (is_wanted)
		begin(device, p, terms);
	p->is_awaited = is_wanted && !p->was_surveyed;
	if (!may_be_found(terms))
		forget(p);
	show(device, p, terms, on_host);
}
