/* SPDX-License-Identifier: MIT */
/*
 * Chunks: physical memory, made and released one by one, and mapped. Its purpose,
 * the charge for it and the answer where there is none are the callers'. Thread-safe.
 */
#ifndef SPILLWAY_CHUNK_H
#define SPILLWAY_CHUNK_H

#include <stdbool.h>

#include "core/cuda/driver.h"
#include "core/state/segment.h"

struct chunk {
	CUmemGenericAllocationHandle handle;
	uint64_t size;
	enum segment_tier tier;
	bool is_exportable;
	const CUmemAllocationProp *like; /* on the device made with these; NULL: plain. On the host
	                                    always plain: from there nothing is exported */
};

/* Where a device's chunks come from: itself, or the host beside it. */
struct chunk_source {
	CUdevice device;
	int ordinal;
	const int *host_nodes; /* of those the first that has room */
	int host_node_count;
	bool avoids_numa;             /* this driver does not survive being asked for it */
	_Atomic uint32_t *numa_error; /* why HOST_NUMA memory is refused; 0: it is not */
	struct counters *counters; /* providers that work on the host, and the errors of the rest */
};

/* True once this process has made one on the host. */
extern _Atomic bool chunk_is_on_host;

/* Makes one of this size, tier and kind, and sets its handle on success only. */
CUresult chunk_make(const struct chunk_source *source, struct chunk *chunk);
static inline void chunk_release(const struct chunk *chunk)
{
	/* Asked twice: a handle that stays is memory that is never returned. */
	if (driver.cuMemRelease(chunk->handle) != CUDA_SUCCESS)
		driver.cuMemRelease(chunk->handle);
}
/* Returns in which units chunks of a tier can be made; 0: none can. */
size_t chunk_granularity(const struct chunk_source *source, enum segment_tier tier,
                         CUmemAllocationGranularity_flags option);

/*
 * Mapping and unmapping, each asked of the driver once more where it fails. Memory that stays
 * mapped is never freed, and memory that cannot be mapped back is lost to the program. Thread-safe.
 */
CUresult mapping_make(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle);
CUresult mapping_remove(CUdeviceptr address, size_t size);
CUresult mapping_allow(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                       size_t count);

#endif
