/* SPDX-License-Identifier: MIT */
/* The functions of later_driver.c. They have more arguments of each kind than registers. */
#ifndef SPILLWAY_LATER_DRIVER_H
#define SPILLWAY_LATER_DRIVER_H

#include <cuda.h>

int cuInventedSum(int a, double b, const char *c, float d, long e, long f, long g, long h, double i,
                  double j, double k, double l, double m, double n, double o, long p);
double cuInventedScale(double by);
CUresult cuInventedContext(CUcontext *context);
CUresult cuMemMap_v8(CUdeviceptr address, CUmemGenericAllocationHandle handle);

/* Functions of CUDA 13.1 and 13.3, for builds with an older cuda.h. */
#if CUDA_VERSION < 13010
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle to, CUdevice device, size_t at,
                               CUmemGenericAllocationHandle handle, size_t from, size_t size,
                               unsigned long long flags);
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle to, CUdevice device, size_t at,
                                CUdeviceptr address, size_t size, unsigned long long flags);
#endif
#if CUDA_VERSION < 13030
CUresult cuLogicalEndpointBindMem(cuuint32_t to, CUdevice device, cuuint64_t at,
                                  CUmemGenericAllocationHandle handle, cuuint64_t from,
                                  cuuint64_t size, unsigned long long flags);
CUresult cuLogicalEndpointBindAddr(cuuint32_t to, CUdevice device, cuuint64_t at, void *address,
                                   cuuint64_t size, unsigned long long flags);
#endif

#endif
