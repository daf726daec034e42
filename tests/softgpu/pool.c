/* SPDX-License-Identifier: MIT */
/*
 * Memory pools: cuMemAllocAsync and cuMemFreeAsync.
 *
 * A pool takes device memory in chunks and cuts them into extents. A freed extent remembers the
 * stream and the point at which it was freed. That stream may reuse it at once, another stream when
 * the first is past that point. Chunks without a used extent go back when work is waited for,
 * beyond the bytes that the pool may keep (its release threshold).
 */
#include "tests/softgpu/pool.h"

#include <stdlib.h>

#include "tests/softgpu/capture.h"

#define UNIT 512ULL

static struct pool *pools;

struct pool *pool_new(struct device *device)
{
	static uint32_t last_id;
	struct pool *pool = calloc(1, sizeof(*pool));
	if (!pool || !handle_add(&pool->handle, HANDLE_POOL)) {
		free(pool);
		return NULL;
	}
	pool->device = device;
	pool->access = device ? 1U << device->index : 0;
	pool->id = ++last_id;
	for (int i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	pool->properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	pool->properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	pool->properties.location.id = device ? device->index : 0;
	DL_APPEND(pools, pool);
	return pool;
}

static struct pool *default_pool(struct device *device)
{
	if (!device->default_pool)
		device->default_pool = pool_new(device);
	return device->default_pool;
}

static struct pool *current_pool(struct device *device)
{
	return device->pool ? device->pool : default_pool(device);
}

CUmemAllocationHandleType pool_handle_types(const struct pool *pool)
{
	return pool->properties.handleTypes;
}

/* Forgets the stream of a freed extent once it is past the free. */
static void settle(struct pool_extent *extent)
{
	if (extent->freed_on && stream_reached(extent->freed_on, extent->freed_at)) {
		stream_unreference(extent->freed_on);
		extent->freed_on = NULL;
	}
}

/* Joins neighbours that are free for anybody. */
static void settle_chunk(struct pool_chunk *chunk)
{
	struct pool_extent *before = NULL, *extent, *next;
	DL_FOREACH_SAFE(chunk->extents, extent, next)
	{
		settle(extent);
		bool is_free = !extent->used && !extent->freed_on;
		if (before && is_free) {
			before->size += extent->size;
			DL_DELETE(chunk->extents, extent);
			free(extent);
		} else {
			before = is_free ? extent : NULL;
		}
	}
}

static struct pool_extent *find_extent(struct pool *pool, uint64_t size,
                                       const struct stream *stream)
{
	struct pool_extent *best = NULL;
	struct pool_chunk *chunk;
	DL_FOREACH (pool->chunks, chunk) {
		settle_chunk(chunk);
		struct pool_extent *extent;
		DL_FOREACH (chunk->extents, extent) {
			if (!extent->used && extent->size >= size &&
			    (!extent->freed_on || extent->freed_on == stream) &&
			    (!best || extent->size < best->size))
				best = extent;
		}
	}
	return best;
}

bool pool_may_grow(const struct pool *pool, uint64_t size)
{
	uint64_t most = pool->properties.maxSize;
	return !most ||
	       pool->reserved + size <= (most + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
}

static CUresult grow(struct pool *pool, uint64_t size)
{
	size = (size + GRANULARITY - 1) / GRANULARITY * GRANULARITY;
	if (!pool_may_grow(pool, size))
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct pool_chunk *chunk = calloc(1, sizeof(*chunk));
	struct pool_extent *extent = calloc(1, sizeof(*extent));
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	if (chunk && extent)
		result =
		    device_map(pool->device, pool->access, size, &chunk->physical, &chunk->base);
	if (result != CUDA_SUCCESS) {
		free(extent);
		free(chunk);
		return result;
	}
	extent->chunk = chunk;
	extent->base = chunk->base;
	extent->size = size;
	DL_APPEND(chunk->extents, extent);
	DL_APPEND(pool->chunks, chunk);
	pool->reserved += size;
	if (pool->reserved > pool->reserved_high)
		pool->reserved_high = pool->reserved;
	return CUDA_SUCCESS;
}

/* Cuts the extent to `size`; the rest is free as the whole was. */
static bool split(struct pool_extent *extent, uint64_t size)
{
	if (extent->size == size)
		return true;
	struct pool_extent *rest = malloc(sizeof(*rest));
	if (!rest)
		return false;
	*rest = *extent;
	rest->base += size;
	rest->size -= size;
	extent->size = size;
	if (rest->freed_on)
		stream_reference(rest->freed_on);
	/* cppcheck-suppress nullPointerRedundantCheck; the macro can do without an element */
	DL_APPEND_ELEM(extent->chunk->extents, extent, rest);
	return true;
}

static CUresult allocate(struct pool *pool, uint64_t size, struct stream *stream, CUdeviceptr *out)
{
	if (pool_is_managed(pool))
		return managed_pool_allocate(pool, size, stream, out);
	if (size > window_size())
		return CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t rounded = (size + UNIT - 1) / UNIT * UNIT;
	struct pool_extent *extent = find_extent(pool, rounded, stream);
	if (!extent) {
		CUresult result = grow(pool, rounded);
		if (result != CUDA_SUCCESS)
			return result;
		extent = find_extent(pool, rounded, stream);
	}
	if (!split(extent, rounded))
		return CUDA_ERROR_OUT_OF_MEMORY;
	struct range *range = range_add(RANGE_POOLED, extent->base, size, stream->context);
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (extent->freed_on)
		stream_unreference(extent->freed_on);
	extent->freed_on = NULL;
	extent->used = true;
	range->device = pool->device->index;
	range->pool = pool;
	range->extent = extent;
	pool->used += rounded;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	*out = range->base;
	return CUDA_SUCCESS;
}

CUresult pooled_free(struct range *range, struct stream *stream)
{
	struct pool_extent *extent = range->extent;
	if (stream) {
		/* An empty entry: the point after which the memory is free. */
		struct work *work = calloc(1, sizeof(*work));
		CUresult result = work ? stream_submit(stream, work) : CUDA_ERROR_OUT_OF_MEMORY;
		if (result != CUDA_SUCCESS)
			return result;
		stream_reference(stream);
		extent->freed_on = stream;
		extent->freed_at = stream->issued;
	}
	extent->used = false;
	range->pool->used -= extent->size;
	range_remove(range);
	return CUDA_SUCCESS;
}

static void trim(struct pool *pool, uint64_t keep)
{
	struct pool_chunk *chunk, *next;
	DL_FOREACH_SAFE(pool->chunks, chunk, next)
	{
		settle_chunk(chunk);
		struct pool_extent *only = chunk->extents;
		if (!only || only->next || only->used || only->freed_on || pool->reserved <= keep)
			continue;
		pool->reserved -= only->size;
		device_unmap(chunk->physical, chunk->base);
		DL_DELETE(pool->chunks, chunk);
		free(only);
		free(chunk);
	}
}

/* Gives back what the pool may not keep, and the pool itself if nobody can reach it any more. */
static void settle_pool(struct pool *pool, uint64_t keep)
{
	if (pool->reserved > keep)
		trim(pool, keep);
	if (pool->destroyed && !pool->chunks && !pool->used) {
		DL_DELETE(pools, pool);
		handle_free(pool);
	}
}

void pool_give_back(struct pool *pool)
{
	settle_pool(pool, 0);
}

void pools_trim(struct context *context)
{
	struct pool *pool, *next;
	DL_FOREACH_SAFE(pools, pool, next)
	{
		if (pool->device == context->device)
			settle_pool(pool, pool->threshold);
	}
}

void pools_empty(struct device *device)
{
	struct pool *pool, *next;
	DL_FOREACH_SAFE(pools, pool, next)
	{
		if (pool->device == device)
			settle_pool(pool, 0);
	}
}

/* In a captured stream an allocation is a node, and its memory the graph's. */
static CUresult capture_allocation(struct stream *stream, const struct pool *pool, size_t size,
                                   CUdeviceptr *out)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	params.alloc.poolProps = pool->properties;
	params.alloc.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_NONE; /* it is not the pool's */
	params.alloc.bytesize = size;
	CUresult result = capture_add(stream, &params);
	if (result == CUDA_SUCCESS)
		*out = params.alloc.dptr;
	return result;
}

static CUresult capture_free(struct stream *stream, CUdeviceptr address)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free.dptr = address};
	return capture_add(stream, &params);
}

static CUresult allocate_on(const char *call, CUdeviceptr *out, size_t size, CUstream handle,
                            CUmemoryPool pool_handle, bool from_pool)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(context, handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	struct pool *pool = from_pool ? handle_find(pool_handle, HANDLE_POOL)
	                              : current_pool(stream->context->device);
	if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	if (!out || !pool || pool->exporter)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (size == 0) {
		*out = 0;
		return leave(CUDA_SUCCESS);
	}
	if (stream->capture)
		return leave(capture_allocation(stream, pool, size, out));
	result = capture_check_queue(stream);
	if (result != CUDA_SUCCESS)
		return leave(result);
	return leave(allocate(pool, size, stream, out));
}

static CUresult cuMemAllocAsync_on(const char *call, CUdeviceptr *out, size_t size, CUstream stream)
{
	return allocate_on(call, out, size, stream, NULL, false);
}
EXPORT_ON_STREAM(cuMemAllocAsync, (CUdeviceptr * out, size_t size, CUstream stream), out, size,
                 stream)

static CUresult cuMemAllocFromPoolAsync_on(const char *call, CUdeviceptr *out, size_t size,
                                           CUmemoryPool pool, CUstream stream)
{
	return allocate_on(call, out, size, stream, pool, true);
}
EXPORT_ON_STREAM(cuMemAllocFromPoolAsync,
                 (CUdeviceptr * out, size_t size, CUmemoryPool pool, CUstream stream), out, size,
                 pool, stream)

static CUresult cuMemFreeAsync_on(const char *call, CUdeviceptr address, CUstream handle)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(context, handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!address)
		return leave(CUDA_SUCCESS);
	if (stream->capture)
		return leave(capture_free(stream, address));
	struct range *range = range_find(address);
	if (range && range->base == address && range->graph_memory)
		return leave(graph_memory_free(range, stream));
	if (range && range->base == address && range->kind == RANGE_IMPORTED && range->pool)
		return leave(imported_free_on(range, stream));
	if (range && range->base == address && range->kind == RANGE_MANAGED && range->pool)
		return leave(managed_pool_free(range, stream));
	if (!range || range->base != address || range->kind != RANGE_POOLED)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(pooled_free(range, stream));
}
EXPORT_ON_STREAM(cuMemFreeAsync, (CUdeviceptr address, CUstream stream), address, stream)

static CUresult pool_of_device(const char *call, CUmemoryPool *out, CUdevice ordinal,
                               struct pool *(*which)(struct device *))
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct device *device = device_of(ordinal);
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	struct pool *pool = which(device);
	if (!pool)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	*out = (CUmemoryPool)pool;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice ordinal)
{
	return pool_of_device(__func__, out, ordinal, default_pool);
}

EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice ordinal)
{
	return pool_of_device(__func__, out, ordinal, current_pool);
}

EXPORT CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct device *device = device_of(ordinal);
	struct pool *pool = handle_find(handle, HANDLE_POOL);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (!pool || pool->device != device || pool->exporter || pool_is_managed(pool))
		return leave(CUDA_ERROR_INVALID_VALUE);
	device->pool = pool;
	return leave(CUDA_SUCCESS);
}

/* Since 13.0 pools are found by place and kind of memory; plain memory here only devices have. */
static CUresult pool_at(const char *call, CUmemoryPool *out, const CUmemLocation *location,
                        CUmemAllocationType type, struct pool *(*which)(struct device *))
{
	if (out && location && type == CU_MEM_ALLOCATION_TYPE_MANAGED) {
		struct pool *pool;
		CUresult result = enter_driver(call);
		if (result != CUDA_SUCCESS)
			return result;
		result = managed_pool_at(location, which == current_pool, &pool);
		if (result == CUDA_SUCCESS)
			*out = (CUmemoryPool)pool;
		return leave(result);
	}
	if (!out || !location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return pool_of_device(call, out, location->id, which);
}

EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool *out, CUmemLocation *location,
                                       CUmemAllocationType type)
{
	return pool_at(__func__, out, location, type, default_pool);
}

EXPORT CUresult cuMemGetMemPool(CUmemoryPool *out, CUmemLocation *location,
                                CUmemAllocationType type)
{
	return pool_at(__func__, out, location, type, current_pool);
}

EXPORT CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                                CUmemoryPool handle)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct pool *pool = handle_find(handle, HANDLE_POOL);
	if (!location || !pool || pool->exporter)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
		return leave(managed_pool_set(location, pool));
	if (type != CU_MEM_ALLOCATION_TYPE_PINNED || pool_is_managed(pool) ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    device_of(location->id) != pool->device)
		return leave(CUDA_ERROR_INVALID_VALUE);
	pool->device->pool = pool;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *properties)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!device_attribute(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED))
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	if (!out || !properties || properties->win32SecurityAttributes ||
	    properties->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct pool *pool;
	if (properties->allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) {
		result = managed_pool_new(properties, &pool);
		if (result == CUDA_SUCCESS)
			*out = (CUmemoryPool)pool;
		return leave(result);
	}
	if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
		return leave(CUDA_ERROR_INVALID_VALUE);
	int known = device_attribute(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES);
	if (((int)properties->handleTypes & ~known) ||
	    properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	struct device *device = device_of(properties->location.id);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	pool = pool_new(device);
	if (!pool)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	pool->properties = *properties;
	*out = (CUmemoryPool)pool;
	return leave(CUDA_SUCCESS);
}

/* Enters a call about one pool. */
static CUresult enter_pool(const char *call, CUmemoryPool handle, struct pool **pool)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	*pool = handle_find(handle, HANDLE_POOL);
	return *pool ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle)
{
	struct pool *pool;
	CUresult result = enter_pool(__func__, handle, &pool);
	if (result != CUDA_SUCCESS)
		return result;
	if (pool_is_managed(pool) ? !managed_pool_forget(pool) : pool == pool->device->default_pool)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (pool->device && pool->device->pool == pool)
		pool->device->pool = NULL;
	handle_remove(&pool->handle);
	pool->destroyed = true;
	pool->threshold = 0;
	settle_pool(pool, 0);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep)
{
	struct pool *pool;
	CUresult result = enter_pool(__func__, handle, &pool);
	if (result != CUDA_SUCCESS)
		return result;
	trim(pool, keep);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                      void *value)
{
	struct pool *pool;
	CUresult result = enter_pool(__func__, handle, &pool);
	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return leave(CUDA_ERROR_INVALID_VALUE);
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*(int *)value =
		    pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*(cuuint64_t *)value = pool->threshold;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->reserved;
		break;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = pool->reserved_high;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = pool->used;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = pool->used_high;
		break;
	default:
		return leave(CUDA_ERROR_INVALID_VALUE);
	}
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                      void *value)
{
	struct pool *pool;
	CUresult result = enter_pool(__func__, handle, &pool);
	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return leave(CUDA_ERROR_INVALID_VALUE);
	switch ((int)attribute) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		pool->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] =
		    *(int *)value;
		break;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		pool->threshold = *(cuuint64_t *)value;
		break;
	/* The high-water marks can only be set back. */
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
		if (*(cuuint64_t *)value != 0)
			return leave(CUDA_ERROR_INVALID_VALUE);
		pool->reserved_high = pool->reserved;
		break;
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		if (*(cuuint64_t *)value != 0)
			return leave(CUDA_ERROR_INVALID_VALUE);
		pool->used_high = pool->used;
		break;
	default:
		return leave(CUDA_ERROR_INVALID_VALUE);
	}
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *wanted, size_t count)
{
	struct pool *pool;
	CUresult result = enter_pool(__func__, handle, &pool);
	if (result != CUDA_SUCCESS)
		return result;
	if (!wanted || count == 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (pool_is_managed(pool)) /* every device has it, and the host */
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	uint32_t access = pool->access;
	for (size_t i = 0; i < count; i++) {
		const struct device *device = device_of(wanted[i].location.id);
		if (wanted[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device)
			return leave(CUDA_ERROR_INVALID_DEVICE);
		uint32_t bit = 1U << device->index;
		if (wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			access |= bit;
		else if (wanted[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && device != pool->device)
			access &= ~bit;
		else
			return leave(CUDA_ERROR_INVALID_VALUE);
	}
	pthread_rwlock_wrlock(&memory_lock);
	struct pool_chunk *chunk;
	DL_FOREACH (pool->chunks, chunk) {
		for (int i = 0; i < device_count; i++) {
			bool now = access >> i & 1, before = pool->access >> i & 1;
			if (now != before && window_view(&devices[i]))
				window_allow(chunk->base, chunk->physical->size, &devices[i], now,
				             now);
		}
	}
	pthread_rwlock_unlock(&memory_lock);
	pool->access = access;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                                   CUmemLocation *location)
{
	struct pool *pool;
	CUresult result = enter_pool(__func__, handle, &pool);
	if (result != CUDA_SUCCESS)
		return result;
	if (flags && location && pool_is_managed(pool)) {
		*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
		return leave(CUDA_SUCCESS);
	}
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !device_of(location->id))
		return leave(CUDA_ERROR_INVALID_VALUE);
	*flags = pool->access >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	                                          : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return leave(CUDA_SUCCESS);
}
