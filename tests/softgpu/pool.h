/* SPDX-License-Identifier: MIT */
/* Memory pools, for pool.c and pool_share.c. */
#ifndef SOFTGPU_POOL_H
#define SOFTGPU_POOL_H

#include "tests/softgpu/memory.h"

struct pool_extent {
	struct pool_chunk *chunk;
	uint64_t base, size;
	bool used;
	struct stream *freed_on; /* NULL: free for anybody */
	uint64_t freed_at;
	struct pool_extent *prev, *next;
};

struct pool_chunk {
	struct physical *physical;
	uint64_t base;
	struct pool_extent *extents; /* in address order, without gaps */
	struct pool_chunk *prev, *next;
};

struct pool {
	struct handle handle;
	struct device *device; /* NULL: managed, and on no device */
	CUmemPoolProps properties;
	uint32_t access; /* devices, by bit */
	bool destroyed;  /* by its handle; lives on until its last allocation is freed */
	int reuse[3];    /* the three CU_MEMPOOL_ATTR_REUSE switches: kept, without effect */
	uint64_t threshold;
	uint64_t reserved, reserved_high, used, used_high;
	struct pool_chunk *chunks;
	uint32_t id;      /* in this process */
	int32_t exporter; /* the process whose pool it is; 0: this one's */
	struct pool *prev, *next;
};

static inline bool pool_is_managed(const struct pool *pool)
{
	return pool->properties.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED;
}

/* managed_pool.c: pools of managed memory; one that is on no device has none */
CUresult managed_pool_new(const CUmemPoolProps *properties, struct pool **pool);
/* The pool of a location that is current, or that was there first; and sets the former. */
CUresult managed_pool_at(const CUmemLocation *location, bool current, struct pool **pool);
CUresult managed_pool_set(const CUmemLocation *location, struct pool *pool);
/* It is current nowhere any more. False: it is the first of its location, and stays. */
bool managed_pool_forget(const struct pool *pool);
CUresult managed_pool_allocate(struct pool *pool, uint64_t size, const struct stream *stream,
                               CUdeviceptr *out);
/* Frees the memory when the stream has come to it. */
CUresult managed_pool_free(struct range *range, struct stream *stream);

/* Frees the pool itself, if nobody can reach it and nothing of it is left. */
void pool_give_back(struct pool *pool);
/* An empty pool of the device (NULL: of none), or NULL. */
struct pool *pool_new(struct device *device);
/* pool_share.c: frees what cuMemPoolImportPointer made, when the stream has come to it. */
CUresult imported_free_on(struct range *range, struct stream *stream);
/* Returns whether the pool may have so many bytes more, in whole blocks. */
bool pool_may_grow(const struct pool *pool, uint64_t size);

#endif
