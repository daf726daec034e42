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

#endif
