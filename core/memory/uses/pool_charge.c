/* SPDX-License-Identifier: MIT */
/*
 * Charges of pools. Rules: runs inside the user's process, within its calls; makes no call that
 * waits for work.
 */
#include "core/memory/uses/pool_private.h"

#include <stdlib.h>

_Atomic unsigned int pools_with_surplus;

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

struct pool *pool_create(struct device *device, CUmemoryPool handle)
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

/* --- what it is charged --- */

/* Returns what it may still hold of its chunks when the driver no longer tells. */
static uint64_t guess(const struct pool *pool)
{
	uint64_t chunks = (pool->live + POOL_CHUNK - 1) / POOL_CHUNK * POOL_CHUNK;

	return chunks < pool->charged ? chunks : pool->charged;
}

/* Asks the driver for an attribute, with the pool's lock held; guesses where it does not say. */
static uint64_t ask(const struct pool *pool, CUmemPool_attribute attribute)
{
	cuuint64_t value;

	if (pool->destroyed ||
	    driver.cuMemPoolGetAttribute(pool->handle, attribute, &value) != CUDA_SUCCESS)
		return guess(pool);
	return value;
}

/*
 * Counts the pool among those with a surplus, or no more, with the pool's lock held, after what is
 * charged or live has changed.
 */
static void count_surplus(const struct pool *pool, bool had_surplus)
{
	atomic_fetch_add(&pools_with_surplus, pool_has_surplus(pool) - (unsigned int)had_surplus);
}

bool pool_settle(struct pool *pool, uint64_t granted, bool is_limited)
{
	uint64_t reserved = ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
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

void pool_note_high(struct pool *pool)
{
	uint64_t used = pool_own_used(pool), reserved = pool_own_reserved(pool);

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
	return (size + POOL_UNIT - 1) / POOL_UNIT * POOL_UNIT;
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

void pool_leave_to_driver(struct pool *pool)
{
	atomic_store(&pool->is_driver_s, true);
}

void pool_gives_managed(struct pool *pool, const CUmemLocation *location)
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

uint64_t pool_reserved(struct pool *pool)
{
	uint64_t reserved;

	lock_acquire(&pool->lock);
	reserved = pool->charged + pool_own_reserved(pool);
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
	pool_note_high(pool);
	lock_release(&pool->lock);
}

void pool_unspilled(struct pool *pool, uint64_t bytes)
{
	lock_acquire(&pool->lock);
	pool->spilled -= bytes;
	lock_release(&pool->lock);
}
