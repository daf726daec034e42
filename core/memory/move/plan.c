/* SPDX-License-Identifier: MIT */
/* Plans. Rules: by the mover thread, inside the user's process. */
#include "core/memory/move/plan.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/base/estimate.h"
#include "core/base/lock.h"
#include "core/memory/arena/host_probe.h"
#include "core/memory/alloc/reclaim.h"
#include "core/memory/arena/spare.h"

static const struct movable_kind *const *kinds; /* ended by NULL */

void plan_kinds(const struct movable_kind *const *all)
{
	kinds = all;
}

const struct movable_kind *plan_kind_at(CUdeviceptr address)
{
	const struct movable_kind *const *kind = kinds;

	while (*kind && !(*kind)->has(address))
		kind++;
	return *kind;
}

void plan_choose(struct device *device, enum segment_tier tier, CUdeviceptr except,
                 struct choice *choice)
{
	movable_begin(choice, tier == SEGMENT_ON_HOST);
	choice->except = except;
	for (size_t i = 0; kinds[i]; i++)
		kinds[i]->choose(device, tier, choice);
	movable_end(choice);
}

static void consider_each(struct device *device, enum segment_tier tier, struct choice *all)
{
	for (size_t i = 0; kinds[i]; i++)
		kinds[i]->choose(device, tier, all);
}

void plan_each(struct device *device, enum segment_tier tier,
               void (*each)(void *cookie, const struct candidate *candidate), void *cookie)
{
	struct choice all;

	movable_begin(&all, false);
	all.each = each;
	all.cookie = cookie;
	consider_each(device, tier, &all);
}

static void add_bytes(void *cookie, const struct candidate *candidate)
{
	uint64_t *bytes = cookie;

	*bytes += candidate->size;
}

bool plan_movable_now(struct device *device, enum segment_tier tier, uint64_t *bytes)
{
	struct choice all;

	*bytes = 0;
	movable_begin(&all, false);
	all.each = add_bytes;
	all.cookie = bytes;
	all.never_waits = true;
	consider_each(device, tier, &all);
	return !all.has_missed;
}

/* Charges a chunk. The mover waits for nothing; with the locks held it makes no room either. */
static int plan_charge(const struct plan *plan, struct device *device, const struct chunk *chunk,
                       bool is_locked)
{
	struct reclaim without_waiting = {.device = device, .terms = plan->terms, .moves = true};

	if (chunk->tier == SEGMENT_ON_HOST)
		return is_locked
		           ? device_charge_host(device, chunk->size, plan->host_limit)
		           : reclaim_and_charge(&without_waiting, SEGMENT_ON_HOST, chunk->size);
	/* Memory to be pinned is no less wanted while the job is evicted. */
	return plan->pins ? device_charge(device, chunk->size)
	                  : device_charge_moved(device, chunk->size, plan->terms->yields_above);
}

/* How long a byte of memory takes to be made on each tier. */
static struct estimate makings[2];

static void note_making(enum segment_tier tier, uint64_t bytes, uint64_t ns)
{
	estimate_add_cost(&makings[tier], (double)ns / (double)bytes, 0.5);
}

/* Returns MOVE_NONE, or why there is none. */
static enum move_pending get_memory(const struct plan *plan, struct device *device,
                                    struct chunk *chunk, bool is_locked)
{
	enum move_pending full =
	    chunk->tier == SEGMENT_ON_HOST ? MOVE_HOST_LIMIT : MOVE_DEVICE_FULL;
	uint64_t began;
	CUresult result;

	if (spare_take(device, chunk, &chunk->handle, 1))
		return MOVE_NONE;
	if (plan_charge(plan, device, chunk, is_locked) != 0)
		return full;
	began = clock_now();
	result = spare_create(device, chunk);
	if (result == CUDA_SUCCESS) {
		note_making(chunk->tier, chunk->size, clock_now() - began);
		return MOVE_NONE;
	}
	device_uncharge(device, chunk->tier, chunk->size);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? full : MOVE_FAILED;
}

void plan_drop(const struct plan *plan, struct device *device, const struct move *m)
{
	struct chunk chunk = plan_memory(m, plan->to);

	chunk.handle = m->to;
	chunk.is_exportable = plan->is_exportable;
	spare_give(device, &chunk, 1, plan->terms);
}

void plan_cut(struct plan *plan, struct device *device, size_t count)
{
	for (size_t i = count; i < plan->made; i++)
		plan_drop(plan, device, &plan->moves[i]);
	plan->made = plan->made < count ? plan->made : count;
	plan->count = count;
}

/* Makes the memory that the next move without any goes to. Returns why there is none. */
static enum move_pending make_next(struct plan *plan, struct device *device, bool is_locked)
{
	struct move *m = &plan->moves[plan->made];
	struct chunk chunk = plan_memory(m, plan->to);
	enum move_pending lacks;

	chunk.is_exportable = plan->is_exportable;
	lacks = get_memory(plan, device, &chunk, is_locked);
	if (lacks == MOVE_NONE) {
		m->to = chunk.handle;
		plan->made++;
	}
	return lacks;
}

bool plan_make(struct plan *plan, struct device *device)
{
	if (plan->made == plan->count)
		return false;
	plan->lacks = make_next(plan, device, false);
	if (plan->lacks == MOVE_NONE)
		return true;
	plan_cut(plan, device, plan_ready(plan));
	return false;
}

bool plan_make_soon(struct plan *plan, struct device *device, uint64_t ns)
{
	const struct move *next = &plan->moves[plan->made];
	const struct estimate *known = &makings[plan->to];

	return plan->made < plan->count && known->weight > 0 &&
	       known->value * (double)next->size <= (double)ns &&
	       make_next(plan, device, true) == MOVE_NONE;
}

static bool look_locked(const struct plan *plan, struct device *device, struct move *m)
{
	bool can_move;

	m->kind->acquire(device);
	can_move = m->kind->look(device, m, plan->pins);
	m->kind->release(device);
	return can_move;
}

/* Adds a move, if the memory there can be moved: it may have gone meanwhile. */
static bool plan_add(struct plan *plan, struct device *device, const struct candidate *candidate)
{
	struct move *m = &plan->moves[plan->count];

	if (plan->count == MOVES_MAX)
		return false;
	*m = (struct move){.kind = candidate->kind, .address = candidate->address};
	if (!look_locked(plan, device, m))
		return false;
	plan->count++;
	return true;
}

/* Returns whether the address is among the first `count` moves. */
static bool plan_has(const struct plan *plan, size_t count, CUdeviceptr address)
{
	for (size_t i = 0; i < count; i++) {
		if (plan->moves[i].address == address)
			return true;
	}
	return false;
}

/* Adds all of an allocation, or nothing. */
static void add_whole(struct plan *plan, struct device *device, const struct candidate *candidate)
{
	const struct movable_kind *kind = candidate->kind;
	size_t before = plan->count;
	struct choice whole;

	whole.count = 0;
	if (kind->choose_whole && !plan_has(plan, plan->count, candidate->address)) {
		kind->acquire(device);
		kind->choose_whole(device, candidate->address, &whole);
		kind->release(device);
	}
	for (size_t i = 0; i < whole.count; i++) {
		if (!plan_add(plan, device, &whole.of[i])) {
			plan->count = before;
			break;
		}
		plan->moves[plan->count - 1].goes_on = i != 0;
	}
}

static uint64_t plan_bytes_of(const struct plan *plan)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < plan->count; i++)
		bytes += plan->moves[i].size;
	return bytes;
}

void plan_fill(struct plan *plan, struct device *device, const struct choice *choice,
               uint64_t bytes)
{
	uint64_t planned = 0;

	plan->is_whole = !plan->pins && !host_probe_may_mix(device, plan->terms);
	if (plan->to == SEGMENT_ON_HOST)
		plan->host_limit = terms_host_limit_of_moves(plan->terms, device);
	for (size_t i = 0; i < choice->count && planned < bytes; i++) {
		const struct candidate *c = &choice->of[i];

		/* Memory that comes back must fit; memory that leaves must be enough. */
		if (plan->to == SEGMENT_ON_DEVICE && !plan->pins && planned + c->size > bytes)
			continue;
		if (plan->is_whole)
			add_whole(plan, device, c);
		else
			plan_add(plan, device, c);
		planned = plan_bytes_of(plan);
	}
}

/*
 * Returns whether two looks at an address saw the same memory. A handle alone does not say so: the
 * driver gives a released handle to other memory, which may be mapped at the same address. For
 * example, a chunk on the device is freed, and the handle returns with a chunk on the host.
 */
static bool is_same_memory(const struct move *a, const struct move *b)
{
	return a->from == b->from && a->size == b->size && a->is_from_device == b->is_from_device &&
	       a->has_like == b->has_like &&
	       (!a->has_like || memcmp(&a->like, &b->like, sizeof(a->like)) == 0);
}

/*
 * Returns whether a move is still as planned, with the locks held; enters its rights as they are
 * now.
 */
static bool is_still(const struct plan *plan, struct device *device, struct move *m)
{
	struct move now = {.kind = m->kind, .address = m->address};

	if (!m->kind->look(device, &now, plan->pins) || !is_same_memory(&now, m))
		return false;
	m->access = now.access;
	m->accesses = now.accesses;
	return true;
}

/*
 * Returns whether the first `count` moves have all of the allocation that this is in now, with the
 * locks held.
 */
static bool has_whole(const struct plan *plan, struct device *device, size_t count,
                      const struct move *m)
{
	struct choice whole;

	whole.count = 0;
	if (m->kind->choose_whole)
		m->kind->choose_whole(device, m->address, &whole);
	for (size_t i = 0; i < whole.count; i++) {
		if (!plan_has(plan, count, whole.of[i].address))
			return false;
	}
	return whole.count != 0;
}

/*
 * Puts those of whole allocations first, of the first `count`, and returns how many they are.
 * Memory that was freed and allocated anew meanwhile may be at the same addresses in part, and in
 * the same memory.
 */
static size_t keep_whole(struct plan *plan, struct device *device, size_t count)
{
	bool stays[MOVES_MAX];
	size_t still = 0;

	for (size_t i = 0; i < count; i++)
		stays[i] = has_whole(plan, device, count, &plan->moves[i]);
	for (size_t i = 0; i < count; i++) {
		struct move m = plan->moves[i];

		if (!stays[i])
			continue;
		plan->moves[i] = plan->moves[still];
		plan->moves[still++] = m;
	}
	return still;
}

size_t plan_check(struct plan *plan, struct device *device, size_t count)
{
	size_t still = 0;

	for (size_t i = 0; i < count; i++) {
		struct move m = plan->moves[i];

		if (!is_still(plan, device, &m))
			continue;
		plan->moves[i] = plan->moves[still];
		plan->moves[still++] = m;
	}
	return plan->is_whole ? keep_whole(plan, device, still) : still;
}

void plan_lock(struct device *device)
{
	for (size_t i = 0; kinds[i]; i++)
		kinds[i]->acquire(device);
}

void plan_unlock(struct device *device)
{
	size_t count = 0;

	while (kinds[count])
		count++;
	while (count-- > 0)
		kinds[count]->release(device);
}
