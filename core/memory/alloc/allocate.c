/* SPDX-License-Identifier: MIT */
/*
 * The allocator's front. Rules: runs inside the user's process, within its calls.
 *
 * The driver is asked whether it would allocate now, because memory of the arena needs no context.
 * An empty query shows a broken context. While a capture is active a byte is allocated and freed:
 * the driver refuses that where it would refuse the program. The byte is charged as 2 MiB first.
 */
#include "core/memory/alloc/allocate.h"

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/budget/device.h"
#include "core/budget/refusal.h"
#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/idle.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/alloc/reclaim.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/host_probe.h"
#include "core/memory/arena/slab.h"
#include "core/memory/arena/small.h"
#include "core/memory/uses/measured.h"
#include "core/memory/uses/overhead.h"

/* Whether the driver would allocate now, where memory is made without it. */

/*
 * Asks by a byte, for which the driver may take a block of 2 MiB: that is charged first. Without
 * room for it within the limit the driver is asked for more than the device has. It refuses that in
 * any case, and takes nothing.
 */
static CUresult judge_try(struct device *device)
{
	bool has_room = device_charge(device, SLAB_BYTES) == 0;
	size_t size = has_room ? 1 : device->id.memory + SLAB_BYTES;
	CUdeviceptr made;
	CUresult result = driver.cuMemAlloc_v2(&made, size);

	if (result == CUDA_SUCCESS) {
		driver.cuMemFree_v2(made);
		overhead_note(); /* the driver's page was its own for a moment */
	}
	if (has_room)
		device_uncharge(device, SEGMENT_ON_DEVICE, SLAB_BYTES);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

/*
 * Asks whether the driver would allocate now. A capture may forbid it, and is invalidated by it. In
 * a broken context nothing is allocated, and the driver's own call is left to say so. Memory of the
 * arena needs no context, and would not show it. in_pool: it is from a pool, and in stream order;
 * now_ns: clock_coarse(). CUDA_ERROR_NOT_SUPPORTED: the driver is to serve it itself.
 */
static CUresult allocate_judge(const struct context *context, bool in_pool, uint64_t now_ns)
{
	CUresult result = idle_judge(context, now_ns);

	if (result == CUDA_SUCCESS)
		return result;
	/* From a pool it may allocate in other streams. */
	if (idle_is_refused(result))
		return in_pool ? CUDA_SUCCESS : judge_try(context->device);
	return judge_try(context->device) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

static _Atomic bool is_elastic, is_exact, is_small_shared;

void vmem_start(struct device_set *devices, bool elastic)
{
	for (int i = 0; i < devices->count; i++)
		if (registry_count_in(devices->device[i].registry, &allocation_type,
		                      &devices->device[i].statistics->allocations) != 0)
			log_once(LOG_WARNING, "out of host memory: allocations are not counted");
	atomic_store(&is_elastic, elastic);
	if (elastic)
		vmem_count_exactly();
}

void vmem_count_exactly(void)
{
	atomic_store(&is_exact, true);
}

static bool counts_exactly(void)
{
	return atomic_load_explicit(&is_exact, memory_order_relaxed);
}

void vmem_share_small(void)
{
	atomic_store(&is_small_shared, true);
}

bool vmem_is_elastic(void)
{
	return atomic_load_explicit(&is_elastic, memory_order_relaxed);
}

enum place { ON_DEVICE, ON_HOST };

/*
 * A request that is being served: tried at one place, where it goes on after room was made, then at
 * the other. Filled in field by field, because it is large.
 */
struct serving {
	const struct vmem_request *asked;
	const struct context *context; /* the thread's own copy, until room is made */
	struct context kept;
	struct device *device;
	struct terms
	    terms; /* the one copy for everything below, taken where it is first asked for */
	bool has_terms;
	uint64_t now_ns; /* by the coarse clock, where an arena may serve it */
	struct deadline until;
	struct reclaim reclaim;
	struct lack lack;
	struct making making;
	struct arena *arena; /* the device's; NULL: it has none, or was not asked for it */
	bool in_arena;       /* on the device, too; else the driver serves it there */
	bool in_slab;        /* of the driver's memory, on the device, where it has no arena */
	bool is_begun;       /* the making */
	bool is_small_begun; /* of a block of such a slab */
	struct small_making small;
	enum place place;
	unsigned int tried; /* places: a bit each */
	bool is_last;       /* all that was freed has been waited for */
	enum spill_reason reason;
	bool has_tried_host;
	struct lack on_host;         /* then: the last try's */
	enum refusal_reason refused; /* the reason, where it follows from no lack */
	enum refused_memory refused_memory;
};

static const struct config_gpu *allocate_settings_of(struct serving *s)
{
	if (!s->has_terms) {
		s->has_terms = true;
		s->now_ns = clock_coarse();
		terms_take(&s->terms, s->device);
		if (s->terms.settings.pin_new == CONFIG_AUTO)
			s->terms.settings.pin_new = s->asked->stays;
		s->until = reclaim_deadline(&s->terms, s->terms.settings.pin_new);
		s->reclaim =
		    (struct reclaim){.device = s->device, .terms = &s->terms, .until = &s->until};
	}
	return &s->terms.settings;
}

/* --- in the arena --- */

/* Frees nothing: the driver did not allocate it. */
static CUresult free_nothing(void *cookie, CUdeviceptr address)
{
	(void)cookie;
	(void)address;
	return CUDA_ERROR_INVALID_VALUE;
}

/*
 * Keeps it on the device, in a job whose memory may be registered without the driver's knowledge.
 */
static CUresult pin_new(struct serving *s, CUdeviceptr address)
{
	if (elastic_pin(s->device, address) ||
	    wanted_pin(s->device, address, false, &s->until) == CUDA_SUCCESS)
		return CUDA_SUCCESS;
	s->refused = REFUSED_UNMOVABLE;
	s->refused_memory = REFUSED_PINNED;
	vmem_free(address, &(struct vmem_free){.native = free_nothing});
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Enters an allocation of the arena and takes over the reference. */
static CUresult enter_elastic(struct serving *s, struct allocation *a, CUdeviceptr *address)
{
	const struct vmem_request *asked = s->asked;
	CUdeviceptr made = a->address;

	if (asked->pool) {
		uint64_t before = a->pool_span;

		if (!a->pool) {
			pool_hold(asked->pool);
			a->pool = asked->pool;
		}
		a->pool_live = pool_rounded(asked->size);
		a->pool_span = slab_span(asked->size);
		pool_elastic(a->pool, (int64_t)a->pool_live, (int64_t)(a->pool_span - before));
	}
	if (allocation_enter(a) != 0) {
		allocation_give_back(a);
		resource_release(&a->resource);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (allocate_settings_of(s)->pin_new && pin_new(s, made) != CUDA_SUCCESS)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*address = made;
	return CUDA_SUCCESS;
}

static void note_spill(const struct serving *s, uint64_t bytes, const struct allocation *a)
{
	const struct spilled spilled = {a->address, a->context.container};

	spill_note(s->device, bytes, s->reason ? s->reason : SPILL_DEVICE_FULL, &spilled);
}

static CUresult make_elastic(struct serving *s, CUdeviceptr *address)
{
	struct making *m = &s->making;
	struct allocation *a;
	CUdeviceptr made;
	CUresult result;

	if (!s->is_begun) {
		m->size = s->asked->size;
		m->until = &s->until;
		m->owner = allocation_create_elastic(s->context, m->size, s->now_ns);
		if (!m->owner)
			return CUDA_ERROR_OUT_OF_MEMORY;
		elastic_begin(m, s->arena, &s->terms);
		s->is_begun = true;
	}
	m->run.place = s->place == ON_HOST ? RUN_ON_HOST : RUN_ON_DEVICE;
	result = elastic_take(m, &made);
	s->lack = m->run.lack;
	if (result != CUDA_SUCCESS)
		return result;
	s->is_begun = false;
	a = m->owner;
	a->address = a->backing.address = made;
	if (m->on_host)
		note_spill(s, m->on_host, a);
	result = enter_elastic(s, a, address);
	if (m->on_host || s->terms.settings.survey == CONFIG_SURVEY_ALWAYS)
		wanted_wake(s->device);
	return result;
}

/* --- in a slab of the driver's memory --- */

static CUresult make_small(struct serving *s, CUdeviceptr *address)
{
	struct small_making *m = &s->small;
	struct allocation *a;
	CUdeviceptr made;
	CUresult result;

	if (!s->is_small_begun) {
		*m = (struct small_making){.size = s->asked->size, .until = &s->until};
		m->owner = allocation_create_small(s->context, m->size, s->now_ns);
		if (!m->owner)
			return CUDA_ERROR_OUT_OF_MEMORY;
		s->is_small_begun = true;
	}
	m->context = s->context; /* a copy may have been made */
	result = small_take(m, &made);
	s->lack = m->lack;
	if (result != CUDA_SUCCESS)
		return result;
	s->is_small_begun = false;
	a = m->owner;
	a->address = a->backing.address = made;
	*address = made;
	if (allocation_enter(a) == 0)
		return CUDA_SUCCESS;
	allocation_give_back(a);
	resource_release(&a->resource);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static void allocate_drop(struct serving *s)
{
	if (s->is_begun) {
		elastic_drop(&s->making);
		resource_release(&s->making.owner->resource);
	}
	if (s->is_small_begun) {
		small_drop(&s->small);
		resource_release(&s->small.owner->resource);
	}
	s->is_begun = s->is_small_begun = false;
}

/* --- by the driver --- */

/* Memory that the driver made, with its charge: its own, or a part of its pool's. */
struct native {
	CUdeviceptr address;
	uint64_t charged, pool_live;
};

static CUresult enter_native(const struct serving *s, const struct native *made)
{
	struct pool *pool = s->asked->pool;
	struct allocation *a = allocation_create(s->context, made->address, s->asked->size,
	                                         SEGMENT_ON_DEVICE, made->charged);

	if (a && pool) {
		pool_hold(pool);
		a->pool = pool;
		a->pool_live = made->pool_live;
	}
	if (a && allocation_enter(a) == 0)
		return CUDA_SUCCESS;
	driver.cuMemFree_v2(made->address); /* charged until it is free */
	if (a)
		resource_release(&a->resource);
	else if (pool)
		pool_freed(pool, made->pool_live);
	else
		device_uncharge(s->device, SEGMENT_ON_DEVICE, made->charged);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static bool allocate_is_beyond_limit(struct serving *s, uint64_t bytes)
{
	uint64_t used = device_charged(s->device, SEGMENT_ON_DEVICE);

	allocate_settings_of(s);
	return used > s->terms.limit || bytes > s->terms.limit - used;
}

static CUresult ask_pool(struct serving *s, struct native *made)
{
	const struct vmem_request *asked = s->asked;
	struct pool_request from_pool = {asked->size, asked->stream, asked->native, asked->cookie};
	CUresult result;

	made->charged = 0;
	result = pool_allocate(asked->pool, &from_pool, &made->address, &made->pool_live);
	s->lack.why = allocate_is_beyond_limit(s, allocation_rounded(asked->size, false))
	                  ? SPILL_LIMIT
	                  : SPILL_DEVICE_FULL;
	return result;
}

static CUresult ask_driver(struct serving *s, struct native *made)
{
	const struct vmem_request *asked = s->asked;
	bool can_hold = device_can_hold(s->device, asked->size);
	CUresult result;

	made->charged = allocation_rounded(asked->size, counts_exactly());
	/* More than the whole device is for the driver to judge; it is no peak of the job's. */
	if (can_hold && device_charge(s->device, made->charged) != 0) {
		s->lack.why = SPILL_LIMIT;
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = asked->native(asked->cookie, &made->address);
	s->lack.why = SPILL_DEVICE_FULL;
	if (result == CUDA_SUCCESS && !can_hold)
		device_charge_taken(s->device, made->charged);
	else if (result != CUDA_SUCCESS && can_hold)
		device_uncharge(s->device, SEGMENT_ON_DEVICE, made->charged);
	return result;
}

static CUresult make_native(struct serving *s, CUdeviceptr *address)
{
	struct native made;
	CUresult result;

	s->lack.tier = SEGMENT_ON_DEVICE;
	s->lack.bytes = s->lack.least = s->asked->size;
	result = s->asked->pool ? ask_pool(s, &made) : ask_driver(s, &made);
	if (result == CUDA_SUCCESS) {
		s->lack.bytes = 0;
		result = enter_native(s, &made);
	}
	if (result == CUDA_SUCCESS)
		*address = made.address;
	return result;
}

/* --- on the host for good, where there is no arena --- */

static CUresult spill_for_good(struct serving *s, CUdeviceptr *address)
{
	enum config_spill kind = (enum config_spill)s->terms.settings.spill;
	struct pool *pool = s->asked->pool;
	struct device *device = s->device;
	size_t size = s->asked->size;
	struct allocation *a;

	s->lack = (struct lack){SEGMENT_ON_HOST, size, size, SPILL_HOST_LIMIT};
	if (device_charge_host(device, size, terms_host_limit(&s->terms, device)) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	s->lack.bytes = 0; /* from here on the lack is not room below the limit */
	a = allocation_create(s->context, 0, size, SEGMENT_ON_HOST, size);
	if (!a) {
		s->lack.why = SPILL_NONE;
		device_uncharge(device, SEGMENT_ON_HOST, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (provider_allocate(device, kind, size, &a->backing) != CUDA_SUCCESS) {
		resource_release(&a->resource); /* uncharges */
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	a->address = a->backing.address;
	if (pool) {
		pool_hold(pool);
		a->pool = pool;
		pool_spilled(a->pool, (int64_t)size);
	}
	note_spill(s, size, a);
	*address = a->address;
	if (allocation_enter(a) == 0)
		return CUDA_SUCCESS;
	s->lack.why = SPILL_NONE;
	allocation_give_back(a);
	resource_release(&a->resource);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* --- where, and in which order --- */

/*
 * Returns whether an arena may serve it: not in a capture, which asking for memory may disturb.
 */
static bool may_be_elastic(const struct device *device, struct pool *pool)
{
	return pool_device(pool) == device && !capture_is_active() && pool_is_elastic(pool);
}

static bool has_arena(struct serving *s)
{
	if (!s->arena)
		s->arena = arena_of(s->device);
	return s->arena;
}

static bool lives_in_arena(struct serving *s)
{
	const struct vmem_request *asked = s->asked;

	return vmem_is_elastic() && allocate_settings_of(s)->spill != SPILL_OFF &&
	       device_can_hold(s->device, asked->size) &&
	       (!asked->pool || may_be_elastic(s->device, asked->pool)) && has_arena(s);
}

/* Returns whether memory without room on the device may be on the host. */
static bool allocate_may_spill(struct serving *s)
{
	struct pool *pool = s->asked->pool;

	if (s->terms.settings.spill == SPILL_OFF)
		return false;
	if (refusal_is_wanted(s->device, &s->terms)) {
		s->refused = REFUSED_FIRST;
		return false;
	}
	/* A program that bounds its pool wants to be told. */
	if (pool && !s->in_arena && pool_is_bounded(pool, s->asked->size)) {
		s->refused = REFUSED_POOL_SIZE;
		return false;
	}
	if (!pool || !pool_is_shared(pool))
		return true;
	s->refused_memory = REFUSED_SHARED_POOL;
	return false;
}

/* Without an entry for its slab the request has memory of its own, which is charged as much. */
static CUresult make_small_or_native(struct serving *s, CUdeviceptr *address)
{
	CUresult result = make_small(s, address);

	if (result != CUDA_ERROR_OUT_OF_MEMORY || !s->small.has_no_entry)
		return result;
	allocate_drop(s);
	s->in_slab = false;
	return make_native(s, address);
}

static CUresult try(struct serving *s, CUdeviceptr *address)
{
	s->tried |= 1u << s->place;
	if (s->place == ON_HOST && s->in_arena && !host_probe_allows(s->device)) {
		allocate_drop(s);
		s->in_arena = false;
	}
	if (s->in_arena)
		return make_elastic(s, address);
	if (s->place == ON_DEVICE)
		return s->in_slab ? make_small_or_native(s, address) : make_native(s, address);
	/* Where it can come back from, if there is such a place. */
	return has_arena(s) && host_probe_allows(s->device) ? make_elastic(s, address)
	                                                    : spill_for_good(s, address);
}

/*
 * Begins a request. While the device is evicted or yields, movable memory is placed on the host;
 * where the host has no room, the program still has the device up to its limit.
 */
static void begin_anew(struct serving *s)
{
	s->tried = 0;
	s->reason =
	    s->in_arena ? terms_host_first(&s->terms, s->device, s->asked->size) : SPILL_NONE;
	s->place = s->reason ? ON_HOST : ON_DEVICE;
}

/* Moves the request to its next place. Returns false if there is none; the program is refused. */
static bool go_elsewhere(struct serving *s)
{
	enum place other = s->place == ON_DEVICE ? ON_HOST : ON_DEVICE;

	if (s->place == ON_HOST) {
		s->has_tried_host = true;
		s->on_host = s->lack;
	}
	if (!(s->tried & 1u << other) && (other == ON_DEVICE || allocate_may_spill(s))) {
		if (other == ON_HOST)
			s->reason = s->lack.why;
		else /* in a run, memory on the host is behind memory on the device */
			allocate_drop(s);
		s->place = other;
		return true;
	}
	if (s->place == ON_HOST)
		statistics_set(&s->device->statistics->spill_reason, SPILL_HOST_LIMIT);
	allocate_drop(s);
	if (s->is_last)
		return false;
	s->is_last = true;
	begin_anew(s);
	if (!reclaim_all_freed(&s->reclaim, s->asked->size, s->asked->pool != NULL))
		return false;
	s->has_tried_host = false;
	s->refused = REFUSED_NOTHING;
	return true;
}

/* Makes room for the lacking bytes. A query for a context may change the thread's own copy. */
static bool allocate_make_room(struct serving *s)
{
	allocate_settings_of(s);
	if (s->context != &s->kept) {
		s->kept = *s->context;
		s->context = &s->kept;
	}
	return reclaim(&s->reclaim, &s->lack);
}

/* Serves a request. This is the one place where room is made for an allocation. */
static CUresult allocate_serve(struct serving *s, CUdeviceptr *address)
{
	CUresult result;

	begin_anew(s);
	do
		result = try(s, address);
	while (result == CUDA_ERROR_OUT_OF_MEMORY && (allocate_make_room(s) || go_elsewhere(s)));
	allocate_drop(s);
	return result;
}

/* Takes memory of the pool that was freed in stream order and may be used again; or NULL. */
static struct allocation *take_freed(const struct serving *s)
{
	const struct vmem_request *asked = s->asked;
	struct allocation *a = freed_take(asked->pool, asked->size, asked->stream);

	if (a) {
		a->context = *s->context;
		a->size = a->backing.size = asked->size;
	}
	return a;
}

/*
 * Returns whether a block of a slab may serve it. A job without a name and a limit keeps the
 * driver's own: nothing depends on the few bytes it counts too few, and its allocations stay as
 * fast as they are. Allocations that other processes are likely to open are the driver's own, too.
 */
static bool lives_in_slab(struct serving *s)
{
	const struct vmem_request *asked = s->asked;

	if (asked->size > SLAB_BLOCK_MAX || asked->pool || asked->stays || !counts_exactly() ||
	    atomic_load_explicit(&is_small_shared, memory_order_relaxed))
		return false;
	allocate_settings_of(s);
	return true;
}

static CUresult allocate_allocate(struct serving *s, CUdeviceptr *address)
{
	struct allocation *a;
	CUresult result;

	s->in_arena = lives_in_arena(s);
	s->in_slab = !s->in_arena && lives_in_slab(s);
	if (s->in_arena || s->in_slab) {
		result = allocate_judge(s->context, s->asked->pool != NULL, s->now_ns);
		if (result != CUDA_SUCCESS)
			s->in_arena = s->in_slab = false;
		if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_SUPPORTED)
			return result;
	}
	a = s->in_arena && s->asked->pool ? take_freed(s) : NULL;
	return a ? enter_elastic(s, a, address) : allocate_serve(s, address);
}

/* Tells why the program is out of memory: the host decided where it was asked. */
static void allocate_note_refused(struct serving *s)
{
	const struct lack *lack = s->has_tried_host ? &s->on_host : &s->lack;
	struct refused refused;

	allocate_settings_of(s);
	refused = s->refused == REFUSED_UNMOVABLE
	              ? refusal_of_unmovable(s->device, s->asked->size)
	              : refusal_by_lack(s->device, &s->terms, s->asked->size, lack);
	if (s->refused && s->refused != REFUSED_UNMOVABLE)
		refused.reason = s->refused;
	if (s->refused == REFUSED_POOL_SIZE)
		refused.limit = REFUSED_NO_LIMIT;
	refusal_note(s->device, s->refused_memory, &refused);
}

CUresult vmem_allocate(const struct vmem_request *asked, CUdeviceptr *address)
{
	struct serving s;
	CUresult result;

	if (!address || !asked->size)
		return asked->native(asked->cookie, address);
	if (asked->pool)
		freed_fence();
	else
		freed_settle();
	s.context = context_here();
	if (!s.context)
		return asked->native(asked->cookie, address);
	s.asked = asked;
	s.device = s.context->device;
	measured_catch_up(s.device);
	s.lack.bytes = 0;
	s.lack.tier = SEGMENT_ON_DEVICE;
	s.has_terms = s.is_begun = s.is_small_begun = s.is_last = s.has_tried_host = false;
	s.refused = REFUSED_NOTHING;
	s.refused_memory = REFUSED_ALLOCATION;
	s.arena = NULL;
	result = allocate_allocate(&s, address);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		allocate_note_refused(&s);
	return result;
}
