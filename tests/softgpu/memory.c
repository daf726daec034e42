/* SPDX-License-Identifier: MIT */
/*
 * Plain device memory. Large allocations are physical memory of their own, in units of 2 MiB. Small
 * ones share blocks of 2 MiB, as hardware drivers pack them. A new block costs 2 MiB.
 */
#include "tests/softgpu/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/softgpu/machine.h"

#define UNIT       512ULL /* alignment and size unit of small allocations */
#define UNITS      (GRANULARITY / UNIT)
#define SMALL_MOST (GRANULARITY / 2)
#define PITCH      512ULL

struct small_block {
	struct context *context;
	struct physical *physical;
	uint64_t base;
	unsigned int used;
	bool taken[UNITS];
	struct small_block *prev, *next;
};

static struct small_block *blocks;

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

uint64_t map_physical(struct physical *physical, uint32_t for_whom)
{
	uint64_t size = physical->size;
	pthread_rwlock_wrlock(&memory_lock);
	uint64_t base = window_reserve(size, 0, 0);
	bool mapped = base != 0;
	if (mapped) {
		window_map(base, physical);
		for (int i = 0; i < device_count && mapped; i++)
			if (for_whom >> i & 1)
				mapped = window_view(&devices[i]) &&
				         window_allow(base, size, &devices[i], true, true);
		if (!mapped) {
			window_unmap(base, size);
			window_unreserve(base, size);
		}
	}
	pthread_rwlock_unlock(&memory_lock);
	return mapped ? base : 0;
}

CUresult device_map(const struct device *device, uint32_t for_whom, uint64_t size,
                    struct physical **physical, uint64_t *base)
{
	CUresult result = physical_create(device->index, size, physical);
	if (result != CUDA_SUCCESS)
		return result;
	*base = map_physical(*physical, for_whom);
	if (*base)
		return CUDA_SUCCESS;
	physical_drop(*physical);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

void device_unmap(struct physical *physical, uint64_t base)
{
	pthread_rwlock_wrlock(&memory_lock);
	window_unmap(base, physical->size);
	window_unreserve(base, physical->size);
	pthread_rwlock_unlock(&memory_lock);
	physical_drop(physical);
}

/* The first of `wanted` free units in a row, or UNITS. */
static size_t find_units(const struct small_block *block, size_t wanted)
{
	size_t run = 0;
	if (UNITS - block->used < wanted)
		return UNITS;
	for (size_t i = 0; i < UNITS; i++) {
		run = block->taken[i] ? 0 : run + 1;
		if (run == wanted)
			return i + 1 - wanted;
	}
	return UNITS;
}

static void take_units(struct small_block *block, size_t first, size_t wanted)
{
	memset(block->taken + first, true, wanted);
	block->used += (unsigned int)wanted;
}

static CUresult small_allocate(struct context *context, uint64_t size, struct small_block **out,
                               uint64_t *base)
{
	size_t wanted = (size + UNIT - 1) / UNIT;
	struct small_block *block;
	DL_FOREACH (blocks, block) {
		if (block->context != context)
			continue;
		size_t first = find_units(block, wanted);
		if (first == UNITS)
			continue;
		take_units(block, first, wanted);
		*base = block->base + first * UNIT;
		*out = block;
		return CUDA_SUCCESS;
	}
	block = calloc(1, sizeof(*block));
	if (!block)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = device_map(context->device, context->device->peers, GRANULARITY,
	                             &block->physical, &block->base);
	if (result != CUDA_SUCCESS) {
		free(block);
		return result;
	}
	block->context = context;
	DL_APPEND(blocks, block);
	take_units(block, 0, wanted);
	*base = block->base;
	*out = block;
	return CUDA_SUCCESS;
}

static void small_free(struct small_block *block, uint64_t base, uint64_t size)
{
	size_t units = (size + UNIT - 1) / UNIT;
	memset(block->taken + (base - block->base) / UNIT, false, units);
	block->used -= (unsigned int)units;
	if (block->used)
		return;
	DL_DELETE(blocks, block);
	device_unmap(block->physical, block->base);
	free(block);
}

CUresult device_allocate(struct context *context, uint64_t size, enum range_kind kind,
                         struct range **out)
{
	struct small_block *block = NULL;
	struct physical *physical = NULL;
	uint64_t base;
	CUresult result;
	if (size > window_size())
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (size <= SMALL_MOST)
		result = small_allocate(context, size, &block, &base);
	else
		result = device_map(context->device, context->device->peers,
		                    round_up(size, GRANULARITY), &physical, &base);
	if (result != CUDA_SUCCESS)
		return result;
	struct range *range = range_add(kind, base, size, context);
	if (!range) {
		if (physical)
			device_unmap(physical, base);
		else
			small_free(block, base, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	range->block = block;
	range->physical = physical;
	*out = range;
	return CUDA_SUCCESS;
}

struct physical *device_physical(const struct range *range, uint64_t *offset)
{
	*offset = range->physical ? 0 : range->base - range->block->base;
	return range->physical ? range->physical : range->block->physical;
}

void device_free(struct range *range)
{
	struct range what = *range;
	range_remove(range);
	if (what.physical)
		device_unmap(what.physical, what.base);
	else
		small_free(what.block, what.base, what.size);
}

static CUresult allocate(const char *call, CUdeviceptr *out, uint64_t size)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || size == 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct range *range;
	result = device_allocate(context, size, RANGE_DEVICE, &range);
	if (result == CUDA_SUCCESS)
		*out = range->base;
	return leave(result);
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *out, size_t size)
{
	return allocate(__func__, out, size);
}

EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                                   unsigned int element)
{
	if (!pitch || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	if (width > SIZE_MAX - PITCH || round_up(width, PITCH) > SIZE_MAX / height)
		return CUDA_ERROR_OUT_OF_MEMORY;
	CUresult result = allocate(__func__, out, round_up(width, PITCH) * height);
	if (result == CUDA_SUCCESS)
		*pitch = round_up(width, PITCH);
	return result;
}

/* What was imported by pointer is freed like memory; what was opened by handle is closed. */
static bool is_pool_import(const struct range *range)
{
	return range->kind == RANGE_IMPORTED && range->pool;
}

/* cuMemFree waits for all work of the context, as programs rely on. */
EXPORT CUresult cuMemFree_v2(CUdeviceptr address)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (address == 0)
		return leave(CUDA_SUCCESS);
	for (bool waited = false;; waited = true) {
		struct range *range = range_find(address);
		if (!range || range->base != address || range->of_module ||
		    (range->kind != RANGE_DEVICE && range->kind != RANGE_POOLED &&
		     range->kind != RANGE_MANAGED && range->kind != RANGE_GRAPH &&
		     !is_pool_import(range)))
			return leave(CUDA_ERROR_INVALID_VALUE);
		if (!waited) {
			/* Look again afterwards: another thread may have freed it meanwhile. */
			context_drain(range->context);
			continue;
		}
		if (range->graph_memory) {
			result = graph_memory_free(range, NULL);
			return leave(result == CUDA_SUCCESS ? context->error : result);
		}
		if (range->kind == RANGE_POOLED)
			pooled_free(range, NULL);
		else if (range->kind == RANGE_MANAGED)
			managed_free(range);
		else if (range->kind == RANGE_IMPORTED)
			imported_free(range);
		else
			device_free(range);
		return leave(context->error);
	}
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	struct context *context;
	/* As one was measured with some R580 drivers (sgl-project/sglang#25225). */
	if (config()->traits.slow_memory_info)
		usleep(8000);
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t available, total;
	physical_settle();
	machine_memory(context->device->machine_index, &available, &total);
	if (free_bytes)
		*free_bytes = available;
	if (total_bytes)
		*total_bytes = total;
	return leave(free_bytes && total_bytes ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	const struct range *range = range_find(address);
	if (!range)
		return leave(CUDA_ERROR_NOT_FOUND);
	if (base)
		*base = range->base;
	if (size)
		*size = range->size;
	return leave(CUDA_SUCCESS);
}

static void free_range(struct range *range)
{
	if (range->graph_memory) {
		graph_memory_forget(range);
		return;
	}
	switch (range->kind) {
	case RANGE_HOST:
	case RANGE_REGISTERED:
		host_range_free(range);
		break;
	case RANGE_MANAGED:
		managed_free(range);
		break;
	case RANGE_POOLED:
		pooled_free(range, NULL);
		break;
	case RANGE_IMPORTED:
		imported_free(range);
		break;
	case RANGE_ARRAY:
		array_range_free(range);
		break;
	case RANGE_DEVICE:
	case RANGE_MODULE:
	case RANGE_HEAP:
		device_free(range);
		break;
	case RANGE_GRAPH:
	case RANGE_MAPPING:
		break; /* a mapping belongs to the process, not to a context */
	}
}

void memory_forget_context(struct context *context)
{
	struct range *range;
	for (size_t i = 0; (range = range_at(i));) {
		if (range->context == context)
			free_range(range); /* the next one moves to this index */
		else
			i++;
	}
}
