/* SPDX-License-Identifier: MIT */
/* Provider pinned: page-locked host memory mapped into the device's address space. */
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/provider.h"

static CUresult pinned_allocate(struct device *device, size_t size, struct backing *backing)
{
	void *host;
	CUdeviceptr address;
	CUresult result;

	(void)device;
	result = driver.cuMemHostAlloc(&host, size,
	                               CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
	if (result != CUDA_SUCCESS)
		return result;
	result = driver.cuMemHostGetDevicePointer_v2(&address, host, 0);
	if (result != CUDA_SUCCESS) {
		driver.cuMemFreeHost(host);
		return result;
	}
	backing->address = address;
	backing->size = size;
	backing->host = host;
	return CUDA_SUCCESS;
}

static CUresult pinned_release(const struct allocation *a)
{
	return driver.cuMemFreeHost(a->backing.host);
}

const struct provider provider_pinned = {
    .factory = {"pinned", 100},
    .kind = SPILL_PINNED,
    .allocate = pinned_allocate,
    .release = pinned_release,
};
