/* Virtual memory management: physical memory that the program makes itself, and its addresses. */
#include "shim/shim.h"

#include "core/job.h"
#include "core/memory/physical.h"

HOOK(cuMemCreate, CUmemGenericAllocationHandle *handle, size_t size,
     const CUmemAllocationProp *prop, unsigned long long flags)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return REAL(cuMemCreate)(handle, size, prop, flags);
	return physical_create(job_devices(), handle, size, prop, flags, REAL(cuMemCreate));
}

HOOK(cuMemRelease, CUmemGenericAllocationHandle handle)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemRelease)(handle);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_released(handle);
	return result;
}

HOOK(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *handle, void *addr)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemRetainAllocationHandle)(handle, addr);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_retained(*handle);
	return result;
}

HOOK(cuMemMap, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
     unsigned long long flags)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemMap)(ptr, size, offset, handle, flags);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_mapped(ptr, size, handle);
	return result;
}

HOOK(cuMemUnmap, CUdeviceptr ptr, size_t size)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemUnmap)(ptr, size);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_unmapped(ptr, size);
	return result;
}
