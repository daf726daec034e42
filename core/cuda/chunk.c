/* SPDX-License-Identifier: MIT */
/* Making chunks. Rules: runs inside the user's process, within its calls and by the mover. */
#include "core/cuda/chunk.h"

#include "core/base/log.h"
#include "core/ledger/statistics.h"

CUresult mapping_make(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle)
{
	CUresult result = driver.cuMemMap(address, size, 0, handle, 0);

	return result == CUDA_SUCCESS ? result : driver.cuMemMap(address, size, 0, handle, 0);
}

CUresult mapping_remove(CUdeviceptr address, size_t size)
{
	CUresult result = driver.cuMemUnmap(address, size);

	return result == CUDA_SUCCESS ? result : driver.cuMemUnmap(address, size);
}

CUresult mapping_allow(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                       size_t count)
{
	CUresult result = driver.cuMemSetAccess(address, size, access, count);

	return result == CUDA_SUCCESS ? result
	                              : driver.cuMemSetAccess(address, size, access, count);
}

_Atomic bool chunk_is_on_host;

static CUmemAllocationProp pinned_at(CUmemLocationType type, int id)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};

	prop.location.type = type;
	prop.location.id = id;
	return prop;
}

/* Returns whether the error stays for the life of the process. */
static bool never_works(uint32_t error)
{
	return error == CUDA_ERROR_NOT_SUPPORTED || error == CUDA_ERROR_NOT_PERMITTED;
}

static void chunk_note(const struct chunk_source *source, _Atomic uint64_t *error, CUresult result,
                       enum provider_code code)
{
	if (result == CUDA_SUCCESS) {
		statistics_set(&source->counters->provider, code);
		atomic_store_explicit(&chunk_is_on_host, true, memory_order_relaxed);
	}
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		statistics_set(error, (uint64_t)result);
}

/*
 * Makes one on the first node that has room. Without one the nearest node's error is returned. A
 * further node that answers any error counts as one without room.
 */
static CUresult make_on_nodes(const struct chunk_source *source, struct chunk *chunk,
                              CUmemAllocationProp *prop)
{
	CUresult nearest = CUDA_ERROR_NOT_SUPPORTED, result;

	prop->location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	for (int i = 0; i < source->host_node_count; i++) {
		prop->location.id = source->host_nodes[i];
		result = driver.cuMemCreate(&chunk->handle, chunk->size, prop, 0);
		if (result == CUDA_SUCCESS || i == 0)
			nearest = result;
		if (nearest != CUDA_ERROR_OUT_OF_MEMORY)
			break;
	}
	return nearest;
}

/*
 * Makes a chunk on the host. HOST_NUMA needs a 12.2 driver and a Docker container that allows NUMA
 * calls; HOST a later driver still.
 */
static CUresult chunk_make_on_host(const struct chunk_source *source, struct chunk *chunk)
{
	struct counters *s = source->counters;
	CUmemAllocationProp prop = pinned_at(CU_MEM_LOCATION_TYPE_HOST, 0);
	CUresult result;

	if (!source->avoids_numa &&
	    !never_works(atomic_load_explicit(source->numa_error, memory_order_relaxed))) {
		result = make_on_nodes(source, chunk, &prop);
		chunk_note(source, &s->numa_error, result, PROVIDER_NUMA);
		if (result != CUDA_ERROR_OUT_OF_MEMORY)
			atomic_store_explicit(source->numa_error, (uint32_t)result,
			                      memory_order_relaxed);
		if (result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY)
			return result;
		log_once(LOG_INFO, "gpu %d: HOST_NUMA memory is refused (error %d); trying HOST",
		         source->ordinal, (int)result);
	}
	prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
	prop.location.id = 0;
	result = driver.cuMemCreate(&chunk->handle, chunk->size, &prop, 0);
	chunk_note(source, &s->host_error, result, PROVIDER_HOST);
	return result;
}

/* Returns whether a chunk can be made so that other hardware reaches it, such as a network card. */
static unsigned char can_rdma(CUdevice device)
{
	int can = 0;

	return driver.cuDeviceGetAttribute(
	           &can, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device) ==
	           CUDA_SUCCESS &&
	       can;
}

CUresult chunk_make(const struct chunk_source *source, struct chunk *chunk)
{
	CUmemAllocationProp prop = pinned_at(CU_MEM_LOCATION_TYPE_DEVICE, source->device);

	if (chunk->tier == SEGMENT_ON_HOST)
		return chunk_make_on_host(source, chunk);
	if (chunk->like)
		return driver.cuMemCreate(&chunk->handle, chunk->size, chunk->like, 0);
	prop.allocFlags.gpuDirectRDMACapable = can_rdma(source->device);
	if (chunk->is_exportable)
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return driver.cuMemCreate(&chunk->handle, chunk->size, &prop, 0);
}

static size_t granularity_of(const CUmemAllocationProp *prop,
                             CUmemAllocationGranularity_flags option)
{
	size_t answer = 0;

	return driver.cuMemGetAllocationGranularity(&answer, prop, option) == CUDA_SUCCESS ? answer
	                                                                                   : 0;
}

size_t chunk_granularity(const struct chunk_source *source, enum segment_tier tier,
                         CUmemAllocationGranularity_flags option)
{
	CUmemAllocationProp prop = pinned_at(CU_MEM_LOCATION_TYPE_DEVICE, source->device);
	size_t answer;

	if (tier == SEGMENT_ON_DEVICE)
		return granularity_of(&prop, option);
	prop = pinned_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, source->host_nodes[0]);
	answer = granularity_of(&prop, option);
	if (answer)
		return answer;
	prop = pinned_at(CU_MEM_LOCATION_TYPE_HOST, 0);
	return granularity_of(&prop, option);
}
