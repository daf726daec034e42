/* SPDX-License-Identifier: MIT */
/* Pools from inside: for pool_charge.c, pools.c and pool_attributes.c alone. */
#ifndef SPILLWAY_POOL_PRIVATE_H
#define SPILLWAY_POOL_PRIVATE_H

#include "core/base/lock.h"
#include "core/memory/uses/pool.h"
#include "core/registry/object.h"

enum {
	POOL_UNIT = 512,
	POOL_CHUNK = 2 << 20
}; /* of sizes in a pool, and by which it grows at least */

struct pool {
	struct resource resource; /* of type pool, in the default container of its device */
	CUmemoryPool handle;
	struct device *device;
	struct pool *next;
	_Atomic bool shared, is_driver_s;
	_Atomic bool is_managed; /* set once, after the location that its memory prefers */
	CUmemLocation location;

	LOCK_OF(POOL) lock; /* guards what follows, and stands around the driver's allocations */
	bool destroyed;     /* its handle means nothing any more */
	_Atomic uint64_t charged; /* changed under the lock; lists of resources read it without */
	uint64_t live;
	uint64_t spilled, used_high, reserved_high;
	uint64_t elastic_used, elastic_reserved;
	bool has_threshold;
	uint64_t threshold; /* the program's */
	uint64_t most;      /* likewise; 0: as much as there is */
};

/* Pools that are charged more than is live. */
extern _Atomic unsigned int pools_with_surplus;

/* Returns a pool, one reference the caller's; NULL: no memory. */
struct pool *pool_create(struct device *device, CUmemoryPool handle);

/* All with the pool's lock held. */

/*
 * Charges what it has reserved now; `granted` of it was charged in advance. Returns whether that is
 * within the limit, where that matters (is_limited): the driver has taken it already, so beyond it
 * is charged all the same.
 */
bool pool_settle(struct pool *pool, uint64_t granted, bool is_limited);
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

/* Keeps the highest that was in use, and reserved. */
void pool_note_high(struct pool *pool);

#endif
