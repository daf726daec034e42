/* Memory pools. Rules: runs inside the user's process, within its calls; makes no call that waits for work. */
#include "core/memory/uses/pool.h"

#include <stdlib.h>

#include "core/base/lock.h"
#include "core/cuda/capture.h"
#include "core/registry/object.h"

enum { UNIT = 512, CHUNK = 2 << 20 }; /* of sizes in a pool, and by which it grows at least */

struct pool {
	struct resource resource; /* of type pool, in the default container of its device */
	CUmemoryPool handle;
	struct device *device;
	struct pool *next;
	_Atomic bool shared, is_driver_s;

	LOCK_OF(POOL) lock; /* guards what follows, and stands around the driver's allocations */
	bool destroyed;     /* its handle means nothing any more */
	_Atomic uint64_t charged; /* changed under the lock; who lists resources reads it without */
	uint64_t live;
	uint64_t spilled, used_high, reserved_high;
	uint64_t elastic_used, elastic_reserved;
	bool has_threshold;
	uint64_t threshold; /* the program's */
	uint64_t most;      /* likewise; 0: as much as there is */
};

static LOCK_OF(POOLS) list_lock = LOCK_FREE;
static struct pool *list; /* holds a reference to each */
static _Atomic unsigned int with_surplus;

static uint64_t pool_memory_used(const struct resource *resource)
{
	return ((const struct pool *)resource)->charged;
}

static void pool_destroy(struct resource *resource)
{
	struct pool *pool = (struct pool *)resource;

	if (pool->charged > pool->live)
		atomic_fetch_sub(&with_surplus, 1);
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

static struct pool *create(struct device *device, CUmemoryPool handle)
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

/* With the lock of the list held; NULL: none. Those made last come first. */
static struct pool *find(CUmemoryPool handle)
{
	struct pool *pool = list;

	while (pool && pool->handle != handle)
		pool = pool->next;
	return pool;
}

/* With the lock of the list held. */
static void enter(struct device *device, CUmemoryPool handle)
{
	struct pool *pool = create(device, handle);

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

/* From now on the driver speaks of another pool by its handle. */
static void end(struct pool *pool)
{
	lock_acquire(&pool->lock);
	pool->destroyed = true;
	lock_release(&pool->lock);
}

void pool_made(struct device *device, CUmemoryPool handle)
{
	struct pool *last;

	lock_acquire(&list_lock);
	last = find(handle);
	if (last && resource_is_leaving(&last->resource)) {
		end(last);
		last = NULL;
	}
	if (!last)
		enter(device, handle);
	lock_release(&list_lock);
}

void pool_met(struct device *device, CUmemoryPool handle)
{
	lock_acquire(&list_lock);
	if (!find(handle))
		enter(device, handle);
	lock_release(&list_lock);
}

struct pool *pool_find(CUmemoryPool handle)
{
	struct pool *pool;

	lock_acquire(&list_lock);
	pool = find(handle);
	if (pool)
		pool_hold(pool);
	lock_release(&list_lock);
	return pool;
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
	pool_met(device, handle);
	return pool_find(handle);
}

/* --- what it is charged --- */

/* What it may still hold of its chunks when the driver no longer tells. */
static uint64_t guess(const struct pool *pool)
{
	uint64_t chunks = (pool->live + CHUNK - 1) / CHUNK * CHUNK;

	return chunks < pool->charged ? chunks : pool->charged;
}

/* An attribute of the driver's. With the pool's lock held. */
static uint64_t ask(const struct pool *pool, CUmemPool_attribute attribute)
{
	cuuint64_t value;

	if (pool->destroyed ||
	    driver.cuMemPoolGetAttribute(pool->handle, attribute, &value) != CUDA_SUCCESS)
		return guess(pool);
	return value;
}

/*
 * Charges what it has reserved now; `granted` of it was charged in advance. Whether that is within the limit, where
 * that matters (is_limited): the driver has taken it already, so beyond it is charged all the same. With the pool's
 * lock held.
 */
static bool settle(struct pool *pool, uint64_t granted, bool is_limited)
{
	uint64_t reserved = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	uint64_t charged = pool->charged + granted;
	bool had_surplus = pool->charged > pool->live, within = true;

	if (reserved < charged) {
		device_uncharge(pool->device, SEGMENT_ON_DEVICE, charged - reserved);
	} else if (reserved > charged) {
		uint64_t more = reserved - charged;

		within = is_limited && device_charge(pool->device, more) == 0;
		if (!within && device_charge_taken(pool->device, more) != 0)
			reserved = charged;
	}
	pool->charged = reserved;
	atomic_fetch_add(&with_surplus, (pool->charged > pool->live) - (unsigned int)had_surplus);
	return within;
}

/* Keeps what settle() counts right while live changes. */
static void set_live(struct pool *pool, uint64_t live)
{
	bool had_surplus = pool->charged > pool->live;

	pool->live = live;
	atomic_fetch_add(&with_surplus, (pool->charged > pool->live) - (unsigned int)had_surplus);
}

/* Bytes in use, and bytes reserved, that are not the driver's. */
static uint64_t own_used(const struct pool *pool)
{
	return pool->spilled + pool->elastic_used;
}

/* Blocks share chunks. */
static uint64_t own_reserved(const struct pool *pool)
{
	return pool->spilled + (pool->elastic_reserved + CHUNK - 1) / CHUNK * CHUNK;
}

static void note_high(struct pool *pool)
{
	uint64_t used = own_used(pool), reserved = own_reserved(pool);

	if (pool->charged) {
		used += ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
		reserved += ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
	}
	if (used > pool->used_high)
		pool->used_high = used;
	if (reserved > pool->reserved_high)
		pool->reserved_high = reserved;
}

uint64_t pool_rounded(size_t size)
{
	return (size + UNIT - 1) / UNIT * UNIT;
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
		/* No room to grow; what it has may be enough. */
		granted = 0;
		if (ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) <
		    ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) + rounded) {
			lock_release(&pool->lock);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	result = request->native(request->cookie, &made);
	if (result == CUDA_SUCCESS)
		set_live(pool, pool->live + rounded);
	within = settle(pool, granted, true);
	if (result == CUDA_SUCCESS && !within) { /* it grew by more than was to be expected */
		driver.cuMemFreeAsync(made, request->stream);
		set_live(pool, pool->live - rounded);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result == CUDA_SUCCESS && own_reserved(pool))
		note_high(pool);
	lock_release(&pool->lock);
	if (result != CUDA_SUCCESS)
		return result;
	*address = made;
	*live = rounded;
	return CUDA_SUCCESS;
}

void pool_leave_to_driver(struct pool *pool)
{
	atomic_store(&pool->is_driver_s, true);
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
		note_high(pool);
	lock_release(&pool->lock);
}

uint64_t pool_reserved(struct pool *pool)
{
	uint64_t reserved;

	lock_acquire(&pool->lock);
	reserved = pool->charged + own_reserved(pool);
	lock_release(&pool->lock);
	return reserved;
}

uint64_t pool_elastic_reserved(struct pool *pool)
{
	uint64_t reserved;

	lock_acquire(&pool->lock);
	reserved = pool->elastic_reserved;
	lock_release(&pool->lock);
	return reserved;
}

uint64_t pool_keeps(struct pool *pool)
{
	uint64_t keeps;

	lock_acquire(&pool->lock);
	keeps = pool->destroyed ? 0 : pool->threshold;
	lock_release(&pool->lock);
	return keeps;
}

void pool_bound(struct pool *pool, uint64_t most)
{
	lock_acquire(&pool->lock);
	pool->most = most;
	lock_release(&pool->lock);
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

void pool_spilled(struct pool *pool, uint64_t bytes)
{
	lock_acquire(&pool->lock);
	pool->spilled += bytes;
	note_high(pool);
	lock_release(&pool->lock);
}

void pool_unspilled(struct pool *pool, uint64_t bytes)
{
	lock_acquire(&pool->lock);
	pool->spilled -= bytes;
	lock_release(&pool->lock);
}

struct leaving pool_leave(CUmemoryPool handle)
{
	struct pool *pool = pool_find(handle);

	if (!pool)
		return (struct leaving){0};
	return registry_leave(pool->device->registry, (uintptr_t)handle, &pool->resource);
}

/* Returns whether it was there. */
static bool take_out(const struct pool *pool)
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
	if (gone && take_out(pool)) {
		/* Allocations from it that live keep it, and their references to it. */
		lock_acquire(&pool->lock);
		pool->destroyed = true;
		settle(pool, 0, false);
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
	if (pool->charged > pool->live)
		settle(pool, 0, false);
	lock_release(&pool->lock);
}

void pools_settle(void)
{
	if (atomic_load_explicit(&with_surplus, memory_order_relaxed))
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
	if (pool->charged > pool->live && !pool->destroyed) {
		uint64_t before = pool->charged;

		driver.cuMemPoolTrimTo(pool->handle, 0);
		settle(pool, 0, false);
		if (pool->charged < before)
			room->got += before - pool->charged;
	}
	lock_release(&pool->lock);
}

bool pools_make_room(struct device *device)
{
	struct make_room room = {device, 0};

	if (atomic_load_explicit(&with_surplus, memory_order_relaxed) && !capture_is_active())
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
		more = own_used(pool);
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		more = own_reserved(pool);
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
	uint64_t limit = device_limit(pool->device);
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	if (!value)
		return result;
	lock_acquire(&pool->lock);
	if (attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
		uint64_t wanted = *(const cuuint64_t *)value;
		cuuint64_t clamped = wanted < limit ? wanted : limit;

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
	if (own_reserved(pool) && result == CUDA_ERROR_NOT_SUPPORTED)
		note_high(pool);
	lock_release(&pool->lock);
	return result;
}
