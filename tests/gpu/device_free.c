/* SPDX-License-Identifier: MIT */
/* Prints the free bytes of device 0 by the driver, for comparisons. It takes one context more. */
#include <cuda.h>
#include <stdio.h>

int main(void)
{
	CUdevice device;
	CUcontext context;
	size_t available, total;

	if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
	    cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
	    cuCtxSetCurrent(context) != CUDA_SUCCESS ||
	    cuMemGetInfo(&available, &total) != CUDA_SUCCESS) {
		fprintf(stderr, "device_free: no CUDA device\n");
		return 1;
	}
	printf("%zu\n", available);
	cuDevicePrimaryCtxRelease(device);
	return 0;
}
