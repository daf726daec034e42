/* SPDX-License-Identifier: MIT */
/*
 * Pools: each one's charges, the list of all, and attributes. Rules: runs inside the user's
 * process, within its calls; makes no call that waits for work.
 */
#include "core/memory/uses/pool.h"

#include <stdlib.h>

#include "core/base/lock.h"
#include "core/budget/terms.h"
#include "core/cuda/capture.h"
#include "core/registry/object.h"

enum { POOL_CHUNK = 2 << 20 }; /* by which a pool grows at least */

struct pool {
	struct resource resource; /* of type pool, in the default container of its device */
	CUmemoryPool handle;
	struct device *device;
	struct pool *next;
	_Atomic bool shared, is_driver_s;
	_Atomic bool is_managed; /* set once, after the location that its memory prefers */
	CUmemLocation location;

	LOCK_OF(POOL)
	lock;           /* guards the fields below, and stands around the driver's allocations */
	bool destroyed; /* its handle means nothing any more */
	_Atomic uint64_t charged; /* changed under the lock; lists of resources read it without */
	uint64_t live;
	uint64_t spilled, used_high, reserved_high;
	uint64_t elastic_used, elastic_reserved;
	bool has_threshold;
	uint64_t threshold; /* the program's */
	uint64_t most;      /* likewise; 0: as much as there is */
};

/* Pools that are charged more than is live. */
static _Atomic unsigned int pools_with_surplus;

static inline bool pool_has_surplus(const struct pool *pool)
{
	return pool->charged > pool->live;
}
/* Bytes in use, and bytes reserved, that are not the driver's. */
static inline uint64_t pool_own_used(const struct pool *pool)
{
	return pool->spilled + pool->elastic_used;
}

/* Blocks share chunks. */
static inline uint64_t pool_own_reserved(const struct pool *pool)
{
	return pool->spilled + (pool->elastic_reserved + POOL_CHUNK - 1) / POOL_CHUNK * POOL_CHUNK;
}

static uint64_t pool_memory_used(const struct resource *resource)
{
	return ((const struct pool *)resource)->charged;
}

static void pool_destroy(struct resource *resource)
{
	struct pool *pool = (struct pool *)resource;

	if (pool_has_surplus(pool))
		atomic_fetch_sub(&pools_with_surplus, 1);
	device_uncharge(pool->device, SEGMENT_ON_DEVICE, pool->charged);
	lock_destroy(&pool->lock);
	free(pool);
}

static const struct resource_type pool_type = {
    .name = "pool", .memory_used = pool_memory_used, .destroy = pool_destroy};

void pool_hold(struct pool *pool)
{
	resource_hold(&pool->resource);
}

void pool_release(struct pool *pool)
{
	if (pool)
		resource_release(&pool->resource);
}

CUmemoryPool pool_handle(struct pool *pool)
{
	CUmemoryPool handle;

	lock_acquire(&pool->lock);
	handle = pool->destroyed ? NULL : pool->handle;
	lock_release(&pool->lock);
	return handle;
}

struct device *pool_device(const struct pool *pool)
{
	return pool->device;
}

void pool_share(struct pool *pool)
{
	atomic_store(&pool->shared, true);
}

bool pool_is_shared(const struct pool *pool)
{
	return atomic_load(&pool->shared);
}

/* Returns a pool, one reference the caller's; NULL: no memory. */
static struct pool *pool_create(struct device *device, CUmemoryPool handle)
{
	struct pool *pool = calloc(1, sizeof(*pool));

	if (!pool)
		return NULL;
	resource_init(&pool->resource, &pool_type);
	pool->handle = handle;
	pool->device = device;
	lock_init(&pool->lock);
	return pool;
}

/* --- its charges --- */

/* Returns the bytes of its chunks that it may still hold when the driver no longer answers. */
static uint64_t guess(const struct pool *pool)
{
	uint64_t chunks = (pool->live + POOL_CHUNK - 1) / POOL_CHUNK * POOL_CHUNK;

	return chunks < pool->charged ? chunks : pool->charged;
}

/* Asks the driver for an attribute, with the pool's lock held; guesses where it does not say. */
static uint64_t pool_ask(const struct pool *pool, CUmemPool_attribute attribute)
{
	cuuint64_t value;

	if (pool->destroyed ||
	    driver.cuMemPoolGetAttribute(pool->handle, attribute, &value) != CUDA_SUCCESS)
		return guess(pool);
	return value;
}

/*
 * Counts the pool among those with a surplus, or no more, with the pool's lock held, after a change
 * of the charged or live bytes.
 */
static void count_surplus(const struct pool *pool, bool had_surplus)
{
	atomic_fetch_add(&pools_with_surplus, pool_has_surplus(pool) - (unsigned int)had_surplus);
}

/*
 * Charges the bytes it has reserved now; `granted` of it was charged in advance. Returns whether
 * that is within the limit, where that matters (is_limited): the driver has taken it already, so
 * beyond it is charged all the same. With the lock held.
 */
static bool pool_settle(struct pool *pool, uint64_t granted, bool is_limited)
{
	uint64_t reserved = pool_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	uint64_t charged = pool->charged + granted;
	bool had_surplus = pool_has_surplus(pool), within = true;

	if (reserved < charged) {
		device_uncharge(pool->device, SEGMENT_ON_DEVICE, charged - reserved);
	} else if (reserved > charged) {
		uint64_t more = reserved - charged;

		within = is_limited && device_charge(pool->device, more) == 0;
		if (!within && device_charge_taken(pool->device, more) != 0)
			reserved = charged;
	}
	pool->charged = reserved;
	count_surplus(pool, had_surplus);
	return within;
}

static void set_live(struct pool *pool, uint64_t live)
{
	bool had_surplus = pool_has_surplus(pool);

	pool->live = live;
	count_surplus(pool, had_surplus);
}

/* Keeps the highest that was in use, and reserved. */
static void pool_note_high(struct pool *pool)
{
	uint64_t used = pool_own_used(pool), reserved = pool_own_reserved(pool);

	if (pool->charged) {
		used += pool_ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
		reserved += pool_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	}
	if (used > pool->used_high)
		pool->used_high = used;
	if (reserved > pool->reserved_high)
		pool->reserved_high = reserved;
}

CUresult pool_allocate(struct pool *pool, const struct pool_request *request, CUdeviceptr *address,
                       uint64_t *live)
{
	uint64_t rounded = pool_rounded(request->size), granted = rounded;
	CUdeviceptr made;
	CUresult result;
	bool within;

	/* Absurd: the driver's to judge. */
	if (rounded < request->size || !device_can_hold(pool->device, rounded)) {
		*live = 0;
		return request->native(request->cookie, address);
	}
	lock_acquire(&pool->lock);
	if (device_charge(pool->device, granted) != 0) {
		/* No room to grow; its reserved memory may be enough. */
		granted = 0;
		if (pool_ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) <
		    pool_ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) + rounded) {
			lock_release(&pool->lock);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	result = request->native(request->cookie, &made);
	if (result == CUDA_SUCCESS)
		set_live(pool, pool->live + rounded);
	within = pool_settle(pool, granted, true);
	if (result == CUDA_SUCCESS && !within) { /* it grew by more than was to be expected */
		driver.cuMemFreeAsync(made, request->stream);
		set_live(pool, pool->live - rounded);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result == CUDA_SUCCESS && pool_own_reserved(pool))
		pool_note_high(pool);
	lock_release(&pool->lock);
	if (result != CUDA_SUCCESS)
		return result;
	*address = made;
	*live = rounded;
	return CUDA_SUCCESS;
}

bool pool_is_managed(const struct pool *pool, CUmemLocation *location)
{
	/* Pairs with the release in pool_gives_managed(). */
	if (!atomic_load_explicit(&pool->is_managed, memory_order_acquire))
		return false;
	*location = pool->location;
	return true;
}

bool pool_is_elastic(struct pool *pool)
{
	bool is_bounded;

	if (atomic_load(&pool->is_driver_s) || pool_is_shared(pool))
		return false;
	lock_acquire(&pool->lock);
	is_bounded = pool->most != 0;
	lock_release(&pool->lock);
	return !is_bounded;
}

void pool_elastic(struct pool *pool, int64_t used, int64_t reserved)
{
	lock_acquire(&pool->lock);
	pool->elastic_used += (uint64_t)used;
	pool->elastic_reserved += (uint64_t)reserved;
	if (used > 0)
		pool_note_high(pool);
	lock_release(&pool->lock);
}

bool pool_is_beyond(struct pool *pool, const uint64_t *keep)
{
	uint64_t keeps;
	bool is_beyond;

	lock_acquire(&pool->lock);
	keeps = keep ? *keep : pool->destroyed ? 0 : pool->threshold;
	is_beyond = pool->charged + pool_own_reserved(pool) > keeps;
	lock_release(&pool->lock);
	return is_beyond;
}

uint64_t pool_elastic_reserved(struct pool *pool)
{
	uint64_t reserved;

	lock_acquire(&pool->lock);
	reserved = pool->elastic_reserved;
	lock_release(&pool->lock);
	return reserved;
}

bool pool_is_bounded(struct pool *pool, uint64_t bytes)
{
	uint64_t held;
	bool is_beyond;

	lock_acquire(&pool->lock);
	held = pool->live + pool->spilled;
	is_beyond = pool->most && (bytes > pool->most || held > pool->most - bytes);
	lock_release(&pool->lock);
	return is_beyond;
}

void pool_freed(struct pool *pool, uint64_t live)
{
	lock_acquire(&pool->lock);
	set_live(pool, pool->live - live);
	lock_release(&pool->lock);
}

void pool_spilled(struct pool *pool, int64_t bytes)
{
	lock_acquire(&pool->lock);
	pool->spilled += (uint64_t)bytes;
	if (bytes > 0)
		pool_note_high(pool);
	lock_release(&pool->lock);
}

/* --- all pools --- */

static LOCK_OF(POOLS) list_lock = LOCK_FREE;
static struct pool *list; /* holds a reference to each */

/*
 * Finds a pool, with the lock of the list held. Returns NULL where there is none. Those made last
 * come first.
 */
static struct pool *pool_do_find(CUmemoryPool handle)
{
	struct pool *pool = list;

	while (pool && pool->handle != handle)
		pool = pool->next;
	return pool;
}

/* Enters a pool, with the lock of the list held. */
static void pool_enter(struct device *device, CUmemoryPool handle)
{
	struct pool *pool = pool_create(device, handle);

	if (!pool)
		return;
	if (registry_replace_object(device->registry, NULL, (uintptr_t)handle, &pool->resource) !=
	    0) {
		pool_release(pool);
		return;
	}
	pool_hold(pool);
	pool->next = list;
	list = pool;
}

/* Ends a pool: from now on the driver speaks of another pool by its handle. */
static void pool_end(struct pool *pool)
{
	lock_acquire(&pool->lock);
	pool->destroyed = true;
	lock_release(&pool->lock);
}

/* Enters a pool unless it is known. is_new: it takes the place of one that is leaving. */
static void pool_enter_unless_known(struct device *device, CUmemoryPool handle, bool is_new)
{
	struct pool *last;

	lock_acquire(&list_lock);
	last = pool_do_find(handle);
	if (is_new && last && resource_is_leaving(&last->resource)) {
		pool_end(last);
		last = NULL;
	}
	if (!last)
		pool_enter(device, handle);
	lock_release(&list_lock);
}

struct pool *pool_find(CUmemoryPool handle)
{
	struct pool *pool;

	lock_acquire(&list_lock);
	pool = pool_do_find(handle);
	if (pool)
		pool_hold(pool);
	lock_release(&list_lock);
	return pool;
}

/*
 * Notes that it gives managed memory, which prefers a location. That is charged as managed memory
 * is, by allocation (alloc/managed.h); the pool is charged nothing.
 */
static void pool_gives_managed(struct pool *pool, const CUmemLocation *location)
{
	lock_acquire(&pool->lock);
	/* Once: pool_is_managed() reads the location without the lock. */
	if (!atomic_load_explicit(&pool->is_managed, memory_order_relaxed)) {
		pool->location = *location;
		/* Pairs with the acquire in pool_is_managed(). */
		atomic_store_explicit(&pool->is_managed, true, memory_order_release);
	}
	lock_release(&pool->lock);
}

/* Notes which memory it gives. What is no plain memory of the device is left to the driver. */
static void pool_note_kind(struct pool *pool, CUmemAllocationType type,
                           const CUmemLocation *location)
{
	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		pool_gives_managed(pool, location);
	else if (type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	         (location && location->type == LOCATION_LOCALITY_DOMAIN))
		atomic_store(&pool->is_driver_s, true);
}

void pool_made(struct device *device, CUmemoryPool handle, const CUmemPoolProps *properties)
{
	struct pool *pool;

	if (device && handle)
		pool_enter_unless_known(device, handle, true);
	pool = pool_find(handle);
	if (!pool)
		return;
	pool_note_kind(pool, properties->allocType, &properties->location);
	if (properties->usage)
		atomic_store(&pool->is_driver_s, true);
	lock_acquire(&pool->lock);
	pool->most = properties->maxSize;
	lock_release(&pool->lock);
	pool_release(pool);
}

void pool_met(struct device *device, CUmemoryPool handle, CUmemAllocationType type,
              const CUmemLocation *location)
{
	struct pool *pool;

	if (device)
		pool_enter_unless_known(device, handle, false);
	pool = pool_find(handle);
	if (pool)
		pool_note_kind(pool, type, location);
	pool_release(pool);
}

struct pool *pool_current(struct device *device)
{
	CUmemoryPool handle;
	struct pool *pool;

	if (driver.cuDeviceGetMemPool(&handle, device->handle) != CUDA_SUCCESS)
		return NULL;
	pool = pool_find(handle);
	if (pool)
		return pool;
	pool_enter_unless_known(device, handle, false);
	return pool_find(handle);
}

struct leaving pool_leave(CUmemoryPool handle)
{
	struct pool *pool = pool_find(handle);

	if (!pool)
		return (struct leaving){0};
	return registry_leave(pool->device->registry, (uintptr_t)handle, &pool->resource);
}

/* Returns whether it was there. */
static bool pool_take_out(const struct pool *pool)
{
	struct pool **at;
	bool found;

	lock_acquire(&list_lock);
	for (at = &list; *at && *at != pool; at = &(*at)->next)
		;
	found = *at != NULL;
	if (found)
		*at = pool->next;
	lock_release(&list_lock);
	return found;
}

void pool_left(struct leaving *leaving, bool gone)
{
	struct pool *pool = (struct pool *)leaving->resource;

	if (!pool)
		return;
	registry_left(leaving, gone);
	if (gone && pool_take_out(pool)) {
		/* Allocations from it that live keep it, and their references to it. */
		lock_acquire(&pool->lock);
		pool->destroyed = true;
		pool_settle(pool, 0, false);
		lock_release(&pool->lock);
		pool_release(pool);
	}
	pool_release(pool);
	leaving->resource = NULL;
}

/* --- all of them --- */

static void each(void (*with)(struct pool *pool, void *cookie), void *cookie)
{
	lock_acquire(&list_lock);
	for (struct pool *pool = list; pool; pool = pool->next)
		with(pool, cookie);
	lock_release(&list_lock);
}

static void settle_one(struct pool *pool, void *cookie)
{
	(void)cookie;
	if (resource_is_leaving(&pool->resource))
		return; /* perhaps the driver knows it no more, or another of its handle */
	lock_acquire(&pool->lock);
	if (pool_has_surplus(pool))
		pool_settle(pool, 0, false);
	lock_release(&pool->lock);
}

void pools_settle(void)
{
	if (atomic_load_explicit(&pools_with_surplus, memory_order_relaxed))
		each(settle_one, NULL);
}

struct make_room {
	struct device *device;
	uint64_t got;
};

static void trim_one(struct pool *pool, void *cookie)
{
	struct make_room *room = cookie;

	if (pool->device != room->device || resource_is_leaving(&pool->resource))
		return;
	lock_acquire(&pool->lock);
	if (pool_has_surplus(pool) && !pool->destroyed) {
		uint64_t before = pool->charged;

		driver.cuMemPoolTrimTo(pool->handle, 0);
		pool_settle(pool, 0, false);
		if (pool->charged < before)
			room->got += before - pool->charged;
	}
	lock_release(&pool->lock);
}

bool pools_make_room(struct device *device)
{
	struct make_room room = {device, 0};

	if (atomic_load_explicit(&pools_with_surplus, memory_order_relaxed) && !capture_is_active())
		each(trim_one, &room);
	return room.got != 0;
}

/* --- attributes --- */

CUresult pool_get_attribute(struct pool *pool, CUmemPool_attribute attribute, void *value)
{
	cuuint64_t driver_says, *answer = value;
	uint64_t high = 0, more = 0;
	CUresult result = CUDA_SUCCESS;

	lock_acquire(&pool->lock);
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		if (pool->has_threshold && value) {
			*answer = pool->threshold;
			goto out;
		}
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		more = pool_own_used(pool);
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		more = pool_own_reserved(pool);
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		high = pool->used_high;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		high = pool->reserved_high;
		break;
	default:
		break;
	}
	result = CUDA_ERROR_NOT_SUPPORTED;
	if (value && (more || high)) {
		result = driver.cuMemPoolGetAttribute(pool->handle, attribute, &driver_says);
		if (result == CUDA_SUCCESS)
			*answer = driver_says + more > high ? driver_says + more : high;
	}
out:
	lock_release(&pool->lock);
	return result;
}

CUresult pool_set_attribute(struct pool *pool, CUmemPool_attribute attribute, const void *value)
{
	const struct terms terms = terms_of(pool->device);
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	if (!value)
		return result;
	lock_acquire(&pool->lock);
	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		uint64_t wanted = *(const cuuint64_t *)value;
		cuuint64_t clamped = wanted < terms.limit ? wanted : terms.limit;

		result = driver.cuMemPoolSetAttribute(pool->handle, attribute, &clamped);
		if (result == CUDA_SUCCESS) {
			pool->has_threshold = true;
			pool->threshold = wanted;
		}
	} else if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH && !*(const cuuint64_t *)value) {
		pool->used_high = 0; /* and the driver's, by the driver */
	} else if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH && !*(const cuuint64_t *)value) {
		pool->reserved_high = 0;
	}
	if (pool_own_reserved(pool) && result == CUDA_ERROR_NOT_SUPPORTED)
		pool_note_high(pool);
	lock_release(&pool->lock);
	return result;
}
