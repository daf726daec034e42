/* SPDX-License-Identifier: MIT */
/*
 * streams COUNT READY: makes COUNT streams, with work in each, and 32 MiB of memory. It makes the
 * file READY and works on until a line comes on stdin. Then each stream is destroyed. Prints
 * "streams=COUNT wrong=0": calls that failed.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 100000, MIB = 1 << 20 };

static CUstream streams[MOST];
static int wrong;

static void call(CUresult result)
{
	wrong += result != CUDA_SUCCESS;
}

int main(int argc, char **argv)
{
	int count = argc == 3 ? atoi(argv[1]) : 0;
	CUcontext context;
	CUdeviceptr at;
	char line[8];
	FILE *ready;

	if (count < 1 || count > MOST)
		return 2;
	call(cuInit(0));
	call(cuDevicePrimaryCtxRetain(&context, 0));
	call(cuCtxSetCurrent(context));
	call(cuMemAlloc_v2(&at, (size_t)32 * MIB));
	for (int i = 0; i < count; i++) {
		call(cuStreamCreate(&streams[i], i % 2 ? CU_STREAM_NON_BLOCKING : 0));
		call(cuMemcpyDtoDAsync_v2(at + (CUdeviceptr)i, at + 16 * MIB, 1, streams[i]));
	}
	ready = fopen(argv[2], "w");
	if (!ready || fclose(ready) != 0 || !fgets(line, sizeof(line), stdin))
		return 3;
	for (int i = 0; i < count; i++) {
		call(cuMemcpyDtoDAsync_v2(at + (CUdeviceptr)i, at + 16 * MIB, 2, streams[i]));
		call(cuStreamSynchronize(streams[i]));
		call(cuStreamDestroy_v2(streams[i]));
	}
	call(cuMemFree_v2(at));
	printf("streams=%d wrong=%d\n", count, wrong);
	return wrong != 0;
}
