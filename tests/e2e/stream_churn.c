/* SPDX-License-Identifier: MIT */
/*
 * stream_churn COUNT: one thread makes and destroys COUNT streams, beside some that stay. Meanwhile
 * another thread takes and gives back memory all the time, once some of it was spilled. Prints
 * "wrong=0": calls that failed.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { STAY = 100, MIB = 1 << 20 };

static _Atomic int wrong;
static _Atomic bool is_over;
static CUcontext context;

static void call(CUresult result)
{
	wrong += result != CUDA_SUCCESS;
}

static void *churn(void *count)
{
	CUstream stream;

	call(cuCtxSetCurrent(context));
	for (int left = *(int *)count; left; left--) {
		call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
		call(cuStreamDestroy_v2(stream));
	}
	is_over = true;
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc == 2 ? atoi(argv[1]) : 0;
	CUdeviceptr at, kept;
	pthread_t thread;
	CUstream stream;

	if (count < 1)
		return 2;
	call(cuInit(0));
	call(cuDevicePrimaryCtxRetain(&context, 0));
	call(cuCtxSetCurrent(context));
	for (int i = 0; i < STAY; i++)
		call(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	call(cuMemAlloc_v2(&at, (size_t)256 * MIB));
	call(cuMemAlloc_v2(&kept, (size_t)64 * MIB));
	call(cuMemFree_v2(at));
	if (pthread_create(&thread, NULL, churn, &count) != 0)
		return 3;
	while (!is_over) {
		call(cuMemAlloc_v2(&at, (size_t)128 * MIB));
		call(cuMemFree_v2(at));
	}
	pthread_join(thread, NULL);
	call(cuMemFree_v2(kept));
	printf("wrong=%d\n", wrong);
	return wrong != 0;
}
