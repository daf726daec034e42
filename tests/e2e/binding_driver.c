/* SPDX-License-Identifier: MIT */
/* The functions of CUDA 13.3 that bind memory, for the imitation of a driver in later_driver.c. */
#include "tests/e2e/later_driver.h"

#define EXPORT __attribute__((visibility("default")))

/*
 * Binds, as far as their arguments go: a handle must be the driver's own, and an address that of
 * its memory. The answer is else CUDA_ERROR_INVALID_VALUE.
 */
static CUresult later_bind(CUmemGenericAllocationHandle handle, CUdeviceptr address)
{
	CUmemAllocationProp properties;
	CUdeviceptr base;
	size_t size;

	return handle ? cuMemGetAllocationPropertiesFromHandle(&properties, handle)
	              : cuMemGetAddressRange(&base, &size, address);
}

#pragma GCC diagnostic ignored "-Wunused-parameter"

EXPORT CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle to, CUdevice device, size_t at,
                                      CUmemGenericAllocationHandle handle, size_t from, size_t size,
                                      unsigned long long flags)
{
	return later_bind(handle, 0);
}

EXPORT CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle to, CUdevice device, size_t at,
                                       CUdeviceptr address, size_t size, unsigned long long flags)
{
	return later_bind(0, address);
}

EXPORT CUresult cuLogicalEndpointBindMem(cuuint32_t to, CUdevice device, cuuint64_t at,
                                         CUmemGenericAllocationHandle handle, cuuint64_t from,
                                         cuuint64_t size, unsigned long long flags)
{
	return later_bind(handle, 0);
}

EXPORT CUresult cuLogicalEndpointBindAddr(cuuint32_t to, CUdevice device, cuuint64_t at,
                                          void *address, cuuint64_t size, unsigned long long flags)
{
	return later_bind(0, (CUdeviceptr)(uintptr_t)address);
}
