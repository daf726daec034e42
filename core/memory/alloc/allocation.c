/* SPDX-License-Identifier: MIT */
/* Allocations. Rules: runs inside the user's process; never calls the driver. */
#include "core/memory/alloc/allocation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/address_map.h"
#include "core/base/clock.h"
#include "core/base/kept.h"
#include "core/base/lock.h"
#include "core/budget/exported.h"
#include "core/budget/wanted.h"
#include "core/memory/alloc/advice.h"
#include "core/memory/alloc/ipc_calls.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/small.h"
#include "core/rings/event.h"

_Atomic(const struct ipc_calls *) ipc_calls;

/* Rounds as the driver does: to its pages of 2 MiB, small requests to 512 bytes of a shared one. */
uint64_t allocation_rounded(size_t size, bool is_exact)
{
	uint64_t unit = is_exact || size >= ((size_t)1 << 20) ? (uint64_t)2 << 20 : 512;

	return size > UINT64_MAX - unit ? size : (size + unit - 1) / unit * unit;
}

/* --- found by any address --- */

static bool is_mapped(const struct allocation *a)
{
	return a->tier == SEGMENT_ON_HOST || a->is_managed;
}

static int map_enter(struct allocation *a)
{
	const struct address_range range = {a->address, a->size, a, ADDRESS_OF_ALLOCATION};
	int error = address_map_add(&range);

	/* The driver frees its own by its first address, by which it is found in any case. */
	return error == -ERANGE && a->is_managed ? 0 : error;
}

/* Takes this very one out of the map: where it was superseded, another is found at its address. */
static void map_leave(const struct allocation *a)
{
	address_map_remove(a->address, a);
}

static bool hold_mapped(void *owner, void *cookie)
{
	(void)cookie;
	return resource_hold_if_alive(&((struct allocation *)owner)->resource);
}

/* Returns the first allocation among these addresses, with a reference. */
static struct allocation *mapped_within(CUdeviceptr address, size_t size)
{
	return address_map_hold(address, size, ADDRESS_OF_ALLOCATION, hold_mapped, NULL);
}

static uint64_t allocation_memory_used(const struct resource *resource)
{
	const struct allocation *a = (const struct allocation *)resource;

	/* the chunks of an elastic one are charged, and a pool for its allocations */
	return a->charged ? a->charged : a->size;
}

static void allocation_describe(const struct resource *resource, char *buf, size_t size)
{
	const struct allocation *a = (const struct allocation *)resource;

	snprintf(buf, size, "%zu bytes on the %s", a->size,
	         a->tier == SEGMENT_ON_DEVICE ? "device" : "host");
}

static void allocation_destroy(struct resource *resource)
{
	static struct allocation nobody; /* of no bytes: no address is in it */
	struct allocation *a = (struct allocation *)resource;

	if (a->pool && a->pool_span)
		pool_elastic(a->pool, -(int64_t)a->pool_live, -(int64_t)a->pool_span);
	else if (a->pool && a->tier == SEGMENT_ON_DEVICE)
		pool_freed(a->pool, a->pool_live);
	else if (a->pool)
		pool_spilled(a->pool, -(int64_t)a->charged);
	pool_release(a->pool);
	if (a->is_managed)
		device_count_elsewhere(a->context.device, -(int64_t)a->charged);
	if (a->charged && a->tier == SEGMENT_ON_DEVICE) /* an elastic one's chunks are */
		device_uncharge_exported(a->context.device, a->exported_as, a->charged);
	else if (a->charged)
		device_uncharge(a->context.device, a->tier, a->charged);
	if (a->is_in_books) {
		ipc_take_back(&a->shared_as);
		/* The registry has let an allocation go that was not freed: it is the book. */
		if (elastic_is(a))
			elastic_disown(a->address, &nobody);
		else if (small_is(a))
			small_disown(a->address, &nobody);
		else if (is_mapped(a))
			map_leave(a);
	}
	advice_book_free(a->advice);
	kept_give(a);
}

void allocation_exported(struct allocation *a, const void *handle, size_t size)
{
	static LOCK_OF(EXPORTED_AS) lock = LOCK_FREE;
	struct device *device = a->context.device;

	lock_acquire(&lock);
	a->is_shared = true;
	if (!a->exported_as && a->tier == SEGMENT_ON_DEVICE && a->charged)
		a->exported_as = exported_as(device, a->charged);
	if (a->exported_as)
		segment_export_name(device->segment, a->exported_as, handle, size);
	lock_release(&lock);
}

const struct resource_type allocation_type = {
    .name = "allocation",
    .memory_used = allocation_memory_used,
    .describe = allocation_describe,
    .destroy = allocation_destroy,
    .leaves_unmarked = true,
};

/* Makes one that was born at this time, by the coarse clock. */
static struct allocation *allocation_do_create(const struct context *context, size_t size,
                                               enum segment_tier tier, uint64_t born_ns)
{
	struct allocation *a = kept_take();

	if (!a)
		a = malloc(sizeof(*a));
	if (!a)
		return NULL;
	resource_init_at(&a->resource, &allocation_type, born_ns);
	a->context = *context;
	a->address = 0;
	a->size = size;
	a->site = refusal_site;
	a->tier = tier;
	atomic_init(&a->charged, 0);
	a->backing = (struct backing){0};
	a->pool = NULL;
	a->pool_live = a->pool_span = 0;
	a->advice = NULL;
	a->is_managed = false;
	atomic_init(&a->is_in_books, false);
	atomic_init(&a->is_shared, false);
	atomic_init(&a->is_in_order, false);
	atomic_init(&a->is_given_away, false);
	atomic_init(&a->exported_as, 0);
	atomic_init(&a->shared_as, 0);
	atomic_init(&a->buffer_id, 0);
	return a;
}

struct allocation *allocation_create(const struct context *context, CUdeviceptr address,
                                     size_t size, enum segment_tier tier, uint64_t charged)
{
	struct allocation *a = allocation_do_create(context, size, tier, clock_coarse());

	if (a) {
		a->address = address;
		atomic_init(&a->charged, charged);
	}
	return a;
}

/* --- in an arena --- */

static CUresult elastic_release(const struct allocation *a)
{
	if (elastic_give(a->context.device, a->address,
	                 atomic_load_explicit(&a->is_given_away, memory_order_relaxed)))
		wanted_wake(a->context.device);
	return CUDA_SUCCESS;
}

static const struct provider provider_elastic = {
    .factory = {"elastic", 0},
    .kind = SPILL_AUTO,
    .outlives_context = true,
    .release = elastic_release,
};

struct allocation *allocation_create_elastic(const struct context *context, size_t size,
                                             uint64_t now_ns)
{
	struct allocation *a = allocation_do_create(context, size, SEGMENT_ON_DEVICE, now_ns);

	if (a)
		a->backing = (struct backing){.provider = &provider_elastic, .size = size};
	return a;
}

bool elastic_is(const struct allocation *allocation)
{
	return allocation->backing.provider == &provider_elastic;
}

/* --- a block of a slab of the driver's --- */

/*
 * An empty slab is kept for the next request, unless it is of the last quarter of the limit. Other
 * processes of the job may want that quarter, and cannot have memory of ours move.
 */
static CUresult allocation_small_release(const struct allocation *a)
{
	struct device *device = a->context.device;
	const struct terms terms = terms_of(device);
	uint64_t most = terms.limit - terms.limit / 4;

	small_give(a->address, &(struct small_giving){
	                           .owner = a,
	                           .keeps = device_charged(device, SEGMENT_ON_DEVICE) <= most,
	                           .is_spent = a->is_given_away});
	return CUDA_SUCCESS;
}

static const struct provider provider_small = {
    .factory = {"small", 0},
    .kind = SPILL_AUTO,
    .release = allocation_small_release,
};

struct allocation *allocation_create_small(const struct context *context, size_t size,
                                           uint64_t now_ns)
{
	struct allocation *a = allocation_do_create(context, size, SEGMENT_ON_DEVICE, now_ns);

	if (a)
		a->backing = (struct backing){.provider = &provider_small, .size = size};
	return a;
}

bool small_is(const struct allocation *allocation)
{
	return allocation->backing.provider == &provider_small;
}

/*
 * Takes a reference if the address is in the allocation. The lock of the arena or of the slabs is
 * held.
 */
static bool hold_around(struct allocation *a, CUdeviceptr address)
{
	return address - a->address < a->size && atomic_load(&a->is_in_books) &&
	       resource_hold_if_alive(&a->resource);
}

struct allocation *allocation_in_arena(CUdeviceptr address)
{
	return elastic_owner(address, hold_around);
}

struct allocation *allocation_in_slab(CUdeviceptr address)
{
	return small_owner(address, hold_around);
}

/* --- in the books --- */

CUresult allocation_give_back(const struct allocation *a)
{
	return a->backing.provider->release(a);
}

static int allocation_do_enter(struct allocation *a)
{
	int error = is_mapped(a) ? map_enter(a) : 0;

	if (error)
		return error;
	error = registry_add_object(a->context.device->registry, a->context.container, a->address,
	                            &a->resource);
	if (error && is_mapped(a))
		map_leave(a);
	return error;
}

static void allocation_note(const struct allocation *a, enum event_kind kind)
{
	const struct device *device = a->context.device;

	if (a->size > EVENT_ALLOCATION_LEAST)
		event_note(.kind = kind, .device = device->id.ordinal, .a = a->size,
		           .b = device_used(device, SEGMENT_ON_DEVICE),
		           .c = device_used(device, SEGMENT_ON_HOST), .object = a->address,
		           .context = a->context.number);
}

/* Takes an allocation that has left the registry out of the address map. */
static void allocation_has_left(struct allocation *a)
{
	atomic_store_explicit(&a->is_in_books, false, memory_order_relaxed);
	if (is_mapped(a))
		map_leave(a);
	allocation_note(a, EVENT_free);
}

bool allocation_leave(struct allocation *a)
{
	if (registry_delete_resource(a->context.device->registry, a->address, &a->resource) != 0)
		return false;
	allocation_has_left(a);
	return true;
}

struct allocation *allocation_take(struct device *device, CUdeviceptr address)
{
	struct allocation *a =
	    (struct allocation *)registry_take_object(device->registry, &allocation_type, address);

	if (a)
		allocation_has_left(a);
	return a;
}

struct allocation *allocation_take_before(CUdeviceptr address, const struct before_leaving *before)
{
	struct allocation *a =
	    (struct allocation *)context_take_before(&allocation_type, address, before);

	if (a)
		allocation_has_left(a);
	return a;
}

bool allocation_left(const struct leaving *leaving, bool gone)
{
	bool left = registry_left(leaving, gone);

	if (left)
		allocation_has_left((struct allocation *)leaving->resource);
	return left;
}

static struct allocation *allocation_find_in(const struct context *context, CUdeviceptr address)
{
	return (struct allocation *)registry_lookup_object(
	    context->device->registry, context->container, &allocation_type, address);
}

/*
 * Lets a new allocation supersede the one that had its address, because the driver gives that
 * address again. The old one is leaving, or has gone by a way that we did not see. Returns false if
 * there is nothing in the way.
 */
static bool allocation_supersede(const struct allocation *a)
{
	struct allocation *last = is_mapped(a) ? mapped_within(a->address, a->size) : NULL;
	bool left;

	if (!last)
		last = allocation_find_in(&a->context, a->address);
	if (!last)
		return false;
	left = allocation_leave(last);
	if (!left) /* it has left the registry, and perhaps the table not yet */
		map_leave(last);
	resource_release(&last->resource);
	return true;
}

int allocation_enter(struct allocation *a)
{
	int error;

	/*
	 * Set before other threads find it, so that the thread that takes it out has the last word.
	 */
	atomic_store_explicit(&a->is_in_books, true, memory_order_relaxed);
	do
		error = allocation_do_enter(a);
	while (error == -EEXIST && allocation_supersede(a));
	if (!error) {
		allocation_note(a, EVENT_allocation);
		return 0;
	}
	atomic_store_explicit(&a->is_in_books, false, memory_order_relaxed);
	return error;
}

struct allocation *allocation_find(CUdeviceptr address)
{
	return (struct allocation *)context_find_object(&allocation_type, address);
}

struct allocation *allocation_mapped_at(CUdeviceptr address, bool is_managed)
{
	struct allocation *found = mapped_within(address, 1);

	if (!found || found->is_managed == is_managed)
		return found;
	resource_release(&found->resource);
	return NULL;
}

struct allocation *vmem_at(CUdeviceptr address)
{
	struct allocation *found = allocation_in_arena(address);

	if (!found)
		found = allocation_in_slab(address);
	return found ? found : allocation_mapped_at(address, false);
}
