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
