/* SPDX-License-Identifier: MIT */
/*
 * Making room. Rules: runs inside the user's process, within its calls or on the mover's thread;
 * with no lock held.
 */
#include "core/memory/alloc/reclaim.h"

#include <errno.h>
#include <pthread.h>

#include "core/budget/shortage.h"
#include "core/budget/wanted.h"
#include "core/budget/device.h"
#include "core/cuda/capture.h"
#include "core/cuda/idle.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/small.h"
#include "core/memory/arena/spare.h"
#include "core/memory/uses/graph_memory.h"
#include "core/memory/uses/pool.h"

/* The wait of a request that would be refused otherwise, although it does not expect to wait. */
#define LAST_PATIENCE_NS 1000000000ull

enum { FREED_LOOK_NS = 50000, DRAIN_LOOK_NS = 10000000, DEMOTIONS_MAX = 3 };

struct deadline reclaim_deadline(const struct terms *terms, bool for_good)
{
	uint64_t freed_ns = terms->settings.demote_deadline;
	uint64_t least_ns = SEGMENT_DRAIN_NS + (for_good ? WANTED_ANSWER_NS : 0);

	return DEADLINE_IN(freed_ns > UINT64_MAX - least_ns ? UINT64_MAX : least_ns + freed_ns);
}

/* --- unused memory --- */

static bool give_spares(struct reclaim *r, const struct lack *lack)
{
	bool came = lack->tier == SEGMENT_ON_DEVICE && elastic_trim(r->device);

	came |= lack->tier == SEGMENT_ON_DEVICE && small_trim(r->device);
	return spare_trim(r->device, lack->tier, true) || came;
}

static bool give_pools(struct reclaim *r, const struct lack *lack)
{
	bool pools = pools_make_room(r->device);

	(void)lack;
	return graph_memory_make_room(r->device) || pools;
}

/* --- memory that the program has freed --- */

/* Looks until so many bytes came back, perhaps as spares, or nothing more can. */
static bool look_for_freed(struct reclaim *r, const struct lack *lack, struct deadline *until)
{
	uint64_t before = freed_came_back();
	int cancel;

	/* The caller may hold addresses that no other thread knows yet. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	while (freed_give_back(r->device) && freed_came_back() - before < lack->bytes &&
	       !capture_is_active() && deadline_nap(until, FREED_LOOK_NS))
		;
	pthread_setcancelstate(cancel, NULL);
	return give_spares(r, lack) || freed_came_back() != before;
}

static bool give_freed(struct reclaim *r, const struct lack *lack)
{
	return look_for_freed(r, lack, &DEADLINE_IN(0));
}

static bool wait_for_freed(struct reclaim *r, const struct lack *lack)
{
	struct deadline until = deadline_within(r->until, r->terms->settings.demote_deadline);

	return look_for_freed(r, lack, &until);
}

bool reclaim_all_freed(struct reclaim *r, uint64_t bytes, bool in_order)
{
	const struct lack lack = {.tier = SEGMENT_ON_DEVICE, .bytes = bytes};
	uint64_t before = freed_came_back();
	struct deadline last;
	bool came = false;

	if (!in_order) {
		came = freed_wait();
		if (freed_give_back(r->device) && !capture_is_active())
			idle_wait(NULL);
		came |= freed_came_back() != before;
	}
	last = deadline_within(r->until, in_order ? LAST_PATIENCE_NS : 0);
	came |= look_for_freed(r, &lack, &last);
	return spare_trim(r->device, SEGMENT_ON_HOST, true) || came;
}

/* --- memory of dead processes --- */

static bool give_orphans(struct reclaim *r, const struct lack *lack)
{
	(void)lack;
	return segment_judge_exports(r->device->segment);
}

static uint64_t limit_on(const struct reclaim *r, enum segment_tier tier)
{
	if (tier == SEGMENT_ON_DEVICE)
		return r->terms->limit;
	return r->moves ? terms_host_limit_of_moves(r->terms, r->device)
	                : terms_host_limit(r->terms, r->device);
}

static bool reclaim_fits(const struct reclaim *r, enum segment_tier tier, uint64_t bytes)
{
	uint64_t limit = limit_on(r, tier);

	return bytes <= limit && device_charged(r->device, tier) <= limit - bytes;
}

/*
 * Returns whether memory of dead processes is in the way of so much, and memory of live ones is
 * not.
 */
static bool is_drained_for(const struct reclaim *r, enum segment_tier tier, uint64_t bytes)
{
	const struct device *device = r->device;
	/* The order matters: a process that is let go meanwhile is not taken for a live one. */
	uint64_t draining = segment_draining(device->segment, device->index, tier);
	uint64_t charged = segment_charged(device->segment, device->index, tier);
	uint64_t limit = limit_on(r, tier);
	uint64_t living = charged > draining ? charged - draining : 0;

	return draining && bytes <= limit && living <= limit - bytes;
}

/*
 * Waits until all fits, or nothing drains for the least of it: a rerun finds its dead predecessor's
 * memory still charged.
 */
static bool wait_for_drained(struct reclaim *r, const struct lack *lack)
{
	enum segment_tier tier = lack->tier;
	bool has_waited = false;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	while (!reclaim_fits(r, tier, lack->bytes) && is_drained_for(r, tier, lack->least) &&
	       deadline_nap(r->until, DRAIN_LOOK_NS))
		has_waited = true;
	pthread_setcancelstate(cancel, NULL);
	return has_waited && reclaim_fits(r, tier, lack->least);
}

/* --- memory in use by other jobs --- */

static bool reclaim_demote(struct reclaim *r, const struct lack *lack)
{
	return r->may_demote && lack->bytes <= r->terms->limit &&
	       wanted_room(r->device, lack->bytes, r->until);
}

static bool claim(struct reclaim *r, const struct lack *lack)
{
	return r->may_demote && lack->why == SPILL_DEVICE_FULL &&
	       shortage_claim(r->device, lack->bytes, false, r->until);
}

/* --- the reclaim steps --- */

struct reclaim_step {
	bool (*climb)(struct reclaim *r, const struct lack *lack);
	bool takes_long; /* it waits, or asks the kernel for much */
};
static const struct reclaim_step on_device[] = {
    {give_spares, false},   {give_pools, false},      {give_freed, false},    {give_orphans, true},
    {wait_for_freed, true}, {wait_for_drained, true}, {reclaim_demote, true}, {claim, true},
};
static const struct reclaim_step on_host[] = {
    {give_spares, false},
    {give_freed, false},
    {wait_for_freed, true},
    {wait_for_drained, true},
};

bool reclaim(struct reclaim *r, const struct lack *lack)
{
	bool is_host = lack->tier == SEGMENT_ON_HOST;
	const struct reclaim_step *steps = is_host ? on_host : on_device;
	unsigned int count =
	    is_host ? sizeof(on_host) / sizeof(*on_host) : sizeof(on_device) / sizeof(*on_device);
	unsigned int *at = &r->step[lack->tier];

	while (lack->bytes && *at < count) {
		const struct reclaim_step *step = &steps[*at];
		bool came = (r->until || !step->takes_long) && step->climb(r, lack);

		/*
		 * The limit may fall, or other requests take the new room: demotion is tried again.
		 */
		if (!came || step->climb != reclaim_demote || ++r->demotions == DEMOTIONS_MAX)
			++*at;
		if (came)
			return true;
	}
	return false;
}

/* --- charging with room made --- */

int reclaim_and_charge(struct reclaim *r, enum segment_tier tier, uint64_t bytes)
{
	const struct lack lack = {.tier = tier, .bytes = bytes, .least = bytes};
	int error;

	do
		error = tier == SEGMENT_ON_DEVICE
		            ? device_charge(r->device, bytes)
		            : device_charge_host(r->device, bytes, limit_on(r, tier));
	while (error == -ENOSPC && reclaim(r, &lack));
	return error;
}

int reclaim_for_good(struct device *device, uint64_t bytes)
{
	const struct terms terms = terms_of(device);
	struct deadline until = reclaim_deadline(&terms, true);
	struct reclaim r = {.device = device, .terms = &terms, .until = &until, .may_demote = true};

	return reclaim_and_charge(&r, SEGMENT_ON_DEVICE, bytes);
}
