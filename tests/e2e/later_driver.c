/* SPDX-License-Identifier: MIT */
/*
 * An imitation of a driver that is newer than Spillway. With the software GPU's objects it makes a
 * libcuda.so.1 that has functions which no header declares.
 */
#include <string.h>

#include "tests/e2e/later_driver.h"
#include "tests/softgpu/entry_points.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int cuInventedSum(int a, double b, const char *c, float d, long e, long f, long g, long h,
                         double i, double j, double k, double l, double m, double n, double o,
                         long p)
{
	return (int)(a + b + (double)strlen(c) + d + (double)(e + f + g + h) + i + j + k + l + m +
	             n + o + (double)p);
}

EXPORT double cuInventedScale(double by)
{
	return 3 * by;
}

EXPORT CUresult cuInventedContext(CUcontext *context)
{
	return cuCtxGetCurrent(context);
}

EXPORT CUresult cuMemMap_v8(CUdeviceptr address, CUmemGenericAllocationHandle handle)
{
	return address && handle ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

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

const struct entry_point later_entry_points[] = {
    {"cuInventedSum", "cuInventedSum", 13060, false, (int (*)(void))(void *)cuInventedSum},
    {"cuInventedScale", "cuInventedScale", 13060, false, (int (*)(void))(void *)cuInventedScale},
    {"cuInventedContext", "cuInventedContext", 13060, false,
     (int (*)(void))(void *)cuInventedContext},
    {0},
};

/* The size in bytes, and functions: one that Spillway has hooked, and one that it does not know. */
const void *const later_export_table[] = {(const void *)(4 * sizeof(void *)), cuMemAlloc_v2,
                                          cuInventedScale, cuLaunchKernel};
