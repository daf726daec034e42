/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: the source of cuMemAllocAsync's memory.
 *
 * A pool is charged for the bytes that the driver reserves for it, not for those allocated from it.
 * It grows by chunks and keeps them after frees, until a synchronisation, a trim, or as long as its
 * release threshold says. The driver is asked after each event that may change it.
 *
 * live       bytes allocated from it by the driver and not freed
 * surplus    charged, but not live: given back to the device when a request needs room
 * spilled    bytes that the program allocated from it and that are on the host instead
 * elastic    memory that the program allocated from it and that lives in the arena, which is
 *            charged by itself. There are bytes in use, and bytes reserved, with those that are
 *            kept for the next (alloc/freed.h)
 *
 * Thread-safe.
 */
#ifndef SPILLWAY_POOL_H
#define SPILLWAY_POOL_H

#include "core/budget/device.h"

struct pool;

/*
 * Pools that the program makes, and those that it is given, which may be known, with the memory
 * that they give. device: NULL where they are on none: then they are left alone. One that was made
 * takes the place of one that is leaving.
 */
void pool_made(struct device *device, CUmemoryPool handle, const CUmemPoolProps *properties);
void pool_met(struct device *device, CUmemoryPool handle, CUmemAllocationType type,
              const CUmemLocation *location);
/*
 * Begins its leaving, when the driver is asked to destroy it, and ends it after the driver's answer
 * (registry_left()).
 */
struct leaving pool_leave(CUmemoryPool handle);
void pool_left(struct leaving *leaving, bool gone);
/* Returns whether so much more is beyond the bound that the program has set. */
bool pool_is_bounded(struct pool *pool, uint64_t bytes);
/*
 * Finds it by its handle; of two, the one made last. A reference for the caller (pool_release), or
 * NULL: not known.
 */
struct pool *pool_find(CUmemoryPool handle);
/* Finds the one that cuMemAllocAsync draws from on this device now; likewise. */
struct pool *pool_current(struct device *device);
void pool_hold(struct pool *pool);
void pool_release(struct pool *pool); /* NULL is fine */
/* Returns its handle; NULL: it is destroyed. */
CUmemoryPool pool_handle(struct pool *pool);
struct device *pool_device(const struct pool *pool);
/* Notes that other processes may open it: its allocations must be on the device. */
void pool_share(struct pool *pool);
bool pool_is_shared(const struct pool *pool);

/* Returns whether it gives managed memory, with the location that it prefers. Takes no lock. */
bool pool_is_managed(const struct pool *pool, CUmemLocation *location);
/* Returns whether allocations from it may live in the arena. */
bool pool_is_elastic(struct pool *pool);
/* Counts elastic memory that came or went: bytes in use, bytes reserved. */
void pool_elastic(struct pool *pool, int64_t used, int64_t reserved);
/* Returns how much of it an allocation of this size uses. */
static inline uint64_t pool_rounded(size_t size)
{
	enum { POOL_UNIT = 512 };

	return (size + POOL_UNIT - 1) / POOL_UNIT * POOL_UNIT;
}
/* Returns whether it has more bytes than it keeps without use: NULL: than its threshold. */
bool pool_is_beyond(struct pool *pool, const uint64_t *keep);
/* Returns the bytes that it has in the arena. */
uint64_t pool_elastic_reserved(struct pool *pool);

/* One allocation that the driver is to make from the pool. */
struct pool_request {
	size_t size;
	CUstream stream; /* by its explicit name */
	CUresult (*native)(void *cookie, CUdeviceptr *address);
	void *cookie;
};
/*
 * Charges the pool's growth and lets the driver allocate; *address on success only. OUT_OF_MEMORY
 * without the driver's word when the limit does not allow the growth. *live: bytes to be told to
 * pool_freed().
 */
CUresult pool_allocate(struct pool *pool, const struct pool_request *request, CUdeviceptr *address,
                       uint64_t *live);
/*
 * Notes that the driver was told to free so much of it; makes no driver call, so pools_settle() is
 * for later.
 */
void pool_freed(struct pool *pool, uint64_t live);
/*
 * Counts bytes that are on the host instead: more, or fewer (less than 0), which makes no driver
 * call.
 */
void pool_spilled(struct pool *pool, int64_t bytes);

/*
 * Finds the surplus that the driver has given back: after a synchronisation, a trim, the end of a
 * context.
 */
void pools_settle(void);
/* Has the pools of a device give back unused memory. Returns whether anything came back. */
bool pools_make_room(struct device *device);

/*
 * Attributes as the program shall see them. Spilled and elastic memory is counted as if it were in
 * the pool. The release threshold is the one that the program set, although the driver's is never
 * above the limit. NOT_SUPPORTED for those that the driver answers and takes rightly.
 */
CUresult pool_get_attribute(struct pool *pool, CUmemPool_attribute attribute, void *value);
CUresult pool_set_attribute(struct pool *pool, CUmemPool_attribute attribute, const void *value);

#endif
