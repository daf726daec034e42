/* SPDX-License-Identifier: MIT */
/*
 * Pools of managed memory (CU_MEM_ALLOCATION_TYPE_MANAGED, since 13.0). Each allocation is managed
 * memory of its own. Its pages prefer the location of the pool. The pool keeps nothing: freed
 * memory goes when its stream has come to the free.
 */
#include <stdlib.h>

#include "tests/softgpu/pool.h"

/* Where a pool can be: on a device, or in one of these places. */
enum { ON_HOST = MAX_DEVICES, ON_NODE, ANYWHERE, PLACES };

static struct {
	struct pool *standard, *current; /* NULL: nobody has asked, or set one */
} places[PLACES];

/* Returns the place of a location, or -1 for one that is not there. */
static int place_of(const CUmemLocation *location)
{
	switch ((int)location->type) {
	case CU_MEM_LOCATION_TYPE_NONE:
		return ANYWHERE;
	case CU_MEM_LOCATION_TYPE_HOST:
		return ON_HOST;
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
		return location->id == 0 ? ON_NODE : -1;
	case CU_MEM_LOCATION_TYPE_DEVICE:
		return device_of(location->id) ? location->id : -1;
	default:
		return -1;
	}
}

CUresult managed_location_check(const CUmemLocation *location)
{
	if (config()->driver_version < 13000)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) ||
	    !device_attribute(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS))
		return CUDA_ERROR_NOT_SUPPORTED;
	if (place_of(location) >= 0)
		return CUDA_SUCCESS;
	return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? CUDA_ERROR_INVALID_DEVICE
	                                                     : CUDA_ERROR_INVALID_VALUE;
}

CUresult managed_pool_new(const CUmemPoolProps *properties, struct pool **out)
{
	CUresult result = managed_location_check(&properties->location);
	if (result != CUDA_SUCCESS)
		return result;
	if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_INVALID_VALUE;
	struct pool *pool = pool_new(properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE
	                                 ? device_of(properties->location.id)
	                                 : NULL);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->properties = *properties;
	*out = pool;
	return CUDA_SUCCESS;
}

CUresult managed_pool_at(const CUmemLocation *location, bool current, struct pool **out)
{
	CUresult result = managed_location_check(location);
	if (result != CUDA_SUCCESS)
		return result;
	int place = place_of(location);
	if (!places[place].standard) {
		const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
		                                   .location = *location};
		result = managed_pool_new(&properties, &places[place].standard);
	}
	*out = current && places[place].current ? places[place].current : places[place].standard;
	return result;
}

CUresult managed_pool_set(const CUmemLocation *location, struct pool *pool)
{
	CUresult result = managed_location_check(location);
	if (result != CUDA_SUCCESS)
		return result;
	int place = place_of(location);
	if (!pool_is_managed(pool) || place_of(&pool->properties.location) != place)
		return CUDA_ERROR_INVALID_VALUE;
	places[place].current = pool;
	return CUDA_SUCCESS;
}

bool managed_pool_forget(const struct pool *pool)
{
	for (int i = 0; i < PLACES; i++)
		if (places[i].standard == pool)
			return false;
	for (int i = 0; i < PLACES; i++)
		if (places[i].current == pool)
			places[i].current = NULL;
	return true;
}

CUresult managed_pool_allocate(struct pool *pool, uint64_t size, const struct stream *stream,
                               CUdeviceptr *out)
{
	if (size > window_size())
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t whole = (size + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
	if (!pool_may_grow(pool, whole))
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct range *range;
	CUresult result = managed_allocate(stream->context, size, CU_MEM_ATTACH_GLOBAL, &range);
	if (result != CUDA_SUCCESS)
		return result;
	if (!managed_prefer(range, pool->properties.location)) {
		managed_free(range);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->pool = pool;
	range->opened = 1;
	pool->used += whole;
	pool->reserved = pool->used;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	*out = range->base;
	return CUDA_SUCCESS;
}

void managed_pool_gone(struct pool *pool, uint64_t size)
{
	pool->used -= (size + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
	pool->reserved = pool->used;
	if (pool->destroyed)
		pool_give_back(pool);
}

struct managed_free {
	struct work work;
	uint64_t base;
};

static void release_free(struct work *work)
{
	struct range *range = range_find(((struct managed_free *)work)->base);
	if (range && range->kind == RANGE_MANAGED && range->pool)
		managed_free(range);
}

CUresult managed_pool_free(struct range *range, struct stream *stream)
{
	if (range->opened == 0) /* it is being freed already */
		return CUDA_ERROR_INVALID_VALUE;
	struct managed_free *work = calloc(1, sizeof(*work));
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range->opened = 0;
	work->base = range->base;
	work->work.release = release_free;
	return stream_submit(stream, &work->work);
}
