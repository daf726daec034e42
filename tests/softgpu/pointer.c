/* SPDX-License-Identifier: MIT */
/* cuPointerGetAttribute: the facts about an address, answered truly per kind of memory. */
#include "tests/softgpu/memory.h"
#include "tests/softgpu/vmm.h"

#include <string.h>

static bool is_host_kind(const struct range *range)
{
	/* Virtual memory whose bytes are on the host reports as host memory, as real drivers do. */
	return range->kind == RANGE_HOST || range->kind == RANGE_REGISTERED ||
	       (range->kind == RANGE_MAPPING && range->device < 0);
}

static CUcontext context_of(const struct range *range)
{
	/* Mappings, pooled memory and that of graphs belong to no context. */
	bool unowned = range->kind == RANGE_POOLED || range->kind == RANGE_GRAPH ||
	               (range->kind == RANGE_MANAGED && (range->pool || range->graph_memory));
	return unowned ? NULL : (CUcontext)range->context;
}

static CUresult access_flags(const struct range *range, CUdeviceptr address,
                             const struct context *context, unsigned int *flags)
{
	if (!window_holds(address)) {
		*flags = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		return CUDA_SUCCESS;
	}
	const struct page *page = window_page(address);
	int device = context ? context->device->index : range->device < 0 ? 0 : range->device;
	*flags = page->writable >> device & 1   ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE
	         : page->readable >> device & 1 ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
	                                        : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE;
	return CUDA_SUCCESS;
}

/* Writes the answer for an address inside `range`. */
static CUresult answer(void *data, CUpointer_attribute attribute, CUdeviceptr address,
                       const struct range *range, const struct context *context)
{
	bool own_address_on_host = !window_holds(address);
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		if (!context_of(range))
			return CUDA_ERROR_INVALID_VALUE;
		*(CUcontext *)data = context_of(range);
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*(unsigned int *)data =
		    is_host_kind(range) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		*(CUdeviceptr *)data = address;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!own_address_on_host)
			return CUDA_ERROR_INVALID_VALUE;
		*(void **)data = (void *)address;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*(int *)data = range->sync_memops;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*(unsigned long long *)data = range->id;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*(int *)data = range->kind == RANGE_MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*(int *)data = range->device;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*(int *)data = range->kind == RANGE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		*(int *)data = 0;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*(CUdeviceptr *)data = range->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*(size_t *)data = range->size;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(int *)data = 1;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*(unsigned long long *)data = range->kind == RANGE_MAPPING
		                                  ? range->physical->properties.requestedHandleTypes
		                              : range->pool ? pool_handle_types(range->pool)
		                                            : CU_MEM_HANDLE_TYPE_NONE;
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return access_flags(range, address, context, data);
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		/* NULL for other memory, and where the pool itself is gone. */
		*(CUmemoryPool *)data = handle_find(range->pool, HANDLE_POOL);
		break;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

/*
 * Answers for a reserved address: the reservation is known, whether something is mapped there or
 * not.
 */
static bool answer_of_reservation(void *data, CUpointer_attribute attribute, CUdeviceptr address,
                                  bool mapped)
{
	uint64_t base, size;
	if (!reservation_find(address, &base, &size))
		return false;
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*(CUdeviceptr *)data = base;
		return true;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*(size_t *)data = size;
		return true;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*(int *)data = mapped;
		return true;
	default:
		return false;
	}
}

static CUresult get_attribute(void *data, CUpointer_attribute attribute, CUdeviceptr address)
{
	const struct range *range = range_find(address);
	if (answer_of_reservation(data, attribute, address, range != NULL))
		return CUDA_SUCCESS;
	return range ? answer(data, attribute, address, range, current_context())
	             : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute,
                                      CUdeviceptr address)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!data)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(get_attribute(data, attribute, address));
}

/* The size of an attribute's answer, to zero it where there is none. */
static size_t size_of(CUpointer_attribute attribute)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		return 8;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
	default:
		return 4;
	}
}

/* Unlike the single form, an unknown address is no error here: all answers are then zero. */
EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute *attributes,
                                       void **data, CUdeviceptr address)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (count == 0 || !attributes || !data)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (unsigned int i = 0; i < count; i++) {
		if (!data[i] || attributes[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
		    attributes[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE)
			return leave(CUDA_ERROR_INVALID_VALUE);
		if (get_attribute(data[i], attributes[i], address) == CUDA_SUCCESS)
			continue;
		memset(data[i], 0, size_of(attributes[i]));
		if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			*(int *)data[i] = CU_DEVICE_INVALID;
	}
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                                      CUdeviceptr address)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct range *range = range_find(address);
	if (!value || !range || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return leave(CUDA_ERROR_INVALID_VALUE);
	/* As libfabric was answered (awslabs/awsome-distributed-ai#278). */
	if (range->kind == RANGE_MAPPING)
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	range->sync_memops = *(const int *)value != 0;
	return leave(CUDA_SUCCESS);
}
