/* SPDX-License-Identifier: MIT */
/* Provider managed: managed memory that prefers the host and stays mapped for the device. */
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/provider.h"

static CUresult managed_allocate(struct device *device, size_t size, struct backing *backing)
{
	CUdeviceptr address;
	CUresult result = driver.cuMemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL);

	if (result != CUDA_SUCCESS)
		return result;
	/* Both are hints: where they are refused the memory still works, it only may migrate. */
	driver.cuMemAdvise(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
	driver.cuMemAdvise(address, size, CU_MEM_ADVISE_SET_ACCESSED_BY, device->handle);
	backing->address = address;
	backing->size = size;
	return CUDA_SUCCESS;
}

static CUresult managed_release(const struct allocation *a)
{
	return driver.cuMemFree_v2(a->backing.address);
}

const struct provider provider_managed = {
    .factory = {"managed", 200},
    .kind = SPILL_MANAGED,
    .allocate = managed_allocate,
    .release = managed_release,
};
