/* SPDX-License-Identifier: MIT */
/*
 * Pinned host memory: allocated here or registered. Kernels and copies use it at its own address;
 * memory that was not mapped for the device is still reachable, as unified addressing has it.
 */
#include "tests/softgpu/memory.h"

#include <sys/mman.h>

#include "tests/softgpu/machine.h"

#define HOST_PAGE 4096ULL
#define ALLOC_FLAGS \
	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED)
#define REGISTER_FLAGS (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)

static uint64_t whole_pages(uint64_t size)
{
	return (size + HOST_PAGE - 1) & ~(HOST_PAGE - 1);
}

static CUresult allocate(const char *call, void **out, size_t size, unsigned int flags)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || size == 0 || (flags & ~(unsigned int)ALLOC_FLAGS))
		return leave(CUDA_ERROR_INVALID_VALUE);
	void *memory = size > window_size() ? MAP_FAILED
	                                    : mmap(NULL, whole_pages(size), PROT_READ | PROT_WRITE,
	                                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	struct range *range = range_add(RANGE_HOST, (uint64_t)memory, size, context);
	if (!range) {
		munmap(memory, whole_pages(size));
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	/* Under unified addressing all of it is portable and mapped, whatever was asked. */
	range->flags = flags | CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;
	machine_count_host((int64_t)whole_pages(size));
	*out = memory;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostAlloc(void **out, size_t size, unsigned int flags)
{
	return allocate(__func__, out, size, flags);
}

EXPORT CUresult cuMemAllocHost_v2(void **out, size_t size)
{
	return allocate(__func__, out, size, 0);
}

EXPORT CUresult cuMemAllocHost(void **out, unsigned int size)
{
	return allocate(__func__, out, size, 0);
}

void host_range_free(struct range *range)
{
	void *memory = (void *)range->base;
	uint64_t size = range->size;
	bool own = range->kind == RANGE_HOST;
	range_remove(range);
	machine_count_host(-(int64_t)whole_pages(size));
	if (own)
		munmap(memory, whole_pages(size));
}

/* Waits for the context's work, then takes the range that starts at `pointer` away. */
static CUresult give_back(const char *call, void *pointer, enum range_kind kind, CUresult otherwise)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!pointer)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (bool waited = false;; waited = true) {
		struct range *range = range_find((uint64_t)pointer);
		if (!range || range->kind != kind || range->base != (uint64_t)pointer)
			return leave(otherwise);
		if (!waited) {
			context_drain(range->context);
			continue;
		}
		host_range_free(range);
		return leave(context->error);
	}
}

EXPORT CUresult cuMemFreeHost(void *pointer)
{
	return give_back(__func__, pointer, RANGE_HOST, CUDA_ERROR_INVALID_VALUE);
}

/* Memory that is not there cannot be pinned. */
static bool is_mapped(uint64_t base, uint64_t size)
{
	unsigned char resident[512];
	const uint64_t step = sizeof(resident) * HOST_PAGE;
	uint64_t end = base + size;
	for (uint64_t at = base & ~(HOST_PAGE - 1); at < end; at += step)
		if (mincore((void *)at, end - at < step ? end - at : step, resident) != 0)
			return false;
	return true;
}

static CUresult register_memory(const char *call, void *pointer, size_t size, unsigned int flags)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY))
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	uint64_t base = (uint64_t)pointer;
	if (!pointer || size == 0 || size > UINT64_MAX - base ||
	    (flags & ~(unsigned int)REGISTER_FLAGS) || window_holds(base))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (range_overlaps(base, size))
		return leave(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	if (!is_mapped(base, size))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct range *range = range_add(RANGE_REGISTERED, base, size, context);
	if (!range)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	range->flags = flags | CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
	machine_count_host((int64_t)whole_pages(size));
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned int flags)
{
	return register_memory(__func__, pointer, size, flags);
}

EXPORT CUresult cuMemHostRegister(void *pointer, size_t size, unsigned int flags)
{
	return register_memory(__func__, pointer, size, flags);
}

EXPORT CUresult cuMemHostUnregister(void *pointer)
{
	return give_back(__func__, pointer, RANGE_REGISTERED,
	                 CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *pointer, unsigned int flags)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	const struct range *range = range_find((uint64_t)pointer);
	if (!out || flags != 0 || !range ||
	    (range->kind != RANGE_HOST && range->kind != RANGE_REGISTERED))
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUdeviceptr)pointer;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	const struct range *range = range_find((uint64_t)pointer);
	if (!flags || !range || (range->kind != RANGE_HOST && range->kind != RANGE_REGISTERED))
		return leave(CUDA_ERROR_INVALID_VALUE);
	*flags = range->flags;
	return leave(CUDA_SUCCESS);
}
