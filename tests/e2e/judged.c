/* SPDX-License-Identifier: MIT */
/*
 * Decisions that are the driver's or the program's, as lines to compare with and without Spillway:
 *
 *   judged peer    memory is freed while the other device's context still copies from it
 *   judged sizes   sizes no device has, pools that the program bounds, frees in stream order of
 *                  what was not allocated so
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20, BYTES = 24 * MIB, COPIES = 12 };

#define NEED(call)                                               \
	do {                                                     \
		CUresult needed_ = (call);                       \
		if (needed_ != CUDA_SUCCESS) {                   \
			printf("%s: %d\n", #call, (int)needed_); \
			exit(1);                                 \
		}                                                \
	} while (0)
#define SAY(call) printf("%s: %d\n", #call, (int)(call))

static CUcontext context[2];

static void peer(void)
{
	CUdeviceptr from, to;
	unsigned int last = 0;

	NEED(cuCtxSetCurrent(context[0]));
	NEED(cuMemAlloc(&from, BYTES));
	NEED(cuMemsetD32(from, 77, BYTES / 4));
	NEED(cuCtxSynchronize());
	NEED(cuCtxSetCurrent(context[1]));
	NEED(cuMemAlloc(&to, BYTES));
	for (int i = 0; i < COPIES; i++)
		NEED(cuMemcpyPeerAsync(to, context[1], from, context[0], BYTES, NULL));
	SAY(cuMemFree(from));
	SAY(cuCtxSynchronize());
	NEED(cuMemcpyDtoH(&last, to + BYTES - 4, 4));
	printf("last=%u\n", last);
	SAY(cuMemFree(to));
}

static void sizes(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .maxSize = 4 * MIB};
	CUmemAllocationProp physical = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr pointer;
	CUmemoryPool pool;
	CUstream stream;

	NEED(cuCtxSetCurrent(context[0]));
	NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	SAY(cuMemAlloc(&pointer, ~(size_t)0));
	SAY(cuMemAlloc(&pointer, (size_t)1 << 45));
	SAY(cuMemAllocAsync(&pointer, (size_t)1 << 45, stream));
	physical.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	SAY(cuMemCreate(&handle, ~(size_t)0, &physical, 0));
	SAY(cuMemCreate(&handle, (size_t)1 << 45, &physical, 0));
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	SAY(cuMemPoolCreate(&pool, &props));
	SAY(cuMemAllocFromPoolAsync(&pointer, 8 * MIB, pool, stream));
	SAY(cuMemAllocFromPoolAsync(&pointer, 2 * MIB, pool, stream));
	SAY(cuMemFreeAsync(pointer, stream));
	NEED(cuStreamSynchronize(stream));
	SAY(cuMemPoolDestroy(pool));
	SAY(cuMemAlloc(&pointer, BYTES));
	SAY(cuMemFreeAsync(pointer, stream));
	SAY(cuMemFree(pointer));
}

int main(int argc, char **argv)
{
	NEED(cuInit(0));
	for (int i = 0; i < 2; i++)
		NEED(cuDevicePrimaryCtxRetain(&context[i], i));
	if (argc > 1 && strcmp(argv[1], "peer") == 0)
		peer();
	else
		sizes();
	printf("done\n");
	return 0;
}
