/* SPDX-License-Identifier: MIT */
/*
 * All pools. Rules: runs inside the user's process, within its calls; makes no call that waits for
 * work.
 */
#include "core/cuda/capture.h"
#include "core/memory/uses/pool_private.h"

static LOCK_OF(POOLS) list_lock = LOCK_FREE;
static struct pool *list; /* holds a reference to each */

/*
 * Finds a pool, with the lock of the list held. Returns NULL where there is none. Those made last
 * come first.
 */
static struct pool *find(CUmemoryPool handle)
{
	struct pool *pool = list;

	while (pool && pool->handle != handle)
		pool = pool->next;
	return pool;
}

/* Enters a pool, with the lock of the list held. */
static void enter(struct device *device, CUmemoryPool handle)
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
