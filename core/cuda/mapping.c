/* SPDX-License-Identifier: MIT */
/* Mapping. Rules: runs inside the user's process, within its calls and by the mover. */
#include "core/cuda/mapping.h"

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
