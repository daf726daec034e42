/* SPDX-License-Identifier: MIT */
/*
 * launch_often N: launches N kernels in rows of 40, waiting after each row; of as many kinds as a
 * step may have.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROW = 40 };

#define CU(call)                                               \
	do {                                                   \
		if ((call) != CUDA_SUCCESS) {                  \
			fprintf(stderr, "%s failed\n", #call); \
			return 1;                              \
		}                                              \
	} while (0)

int main(int argc, char **argv)
{
	static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
	                          ".visible .entry empty()\n{\n\tret;\n}\n";
	long launches = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	CUfunction kernel;
	CUcontext context;
	CUdevice device;
	CUmodule module;
	CUstream stream;

	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&kernel, module, "empty"));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (long i = 0; i < launches; i++) {
		unsigned int blocks = 1u << i % 8;

		CU(cuLaunchKernel(kernel, blocks, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
		if (i % ROW == ROW - 1)
			CU(cuStreamSynchronize(stream));
	}
	printf("launch_often: %ld launches\n", launches);
	return 0;
}
