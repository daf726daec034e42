/* SPDX-License-Identifier: MIT */
/*
 * Stream-ordered allocation: from the default pool and a pool of our own, in and between streams.
 */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>

enum { COUNT = 100000, ROUNDS = 8 };

static CUfunction add_number;

static bool all_are(const int *vector, int value)
{
	for (size_t i = 0; i < COUNT; i++)
		if (vector[i] != value)
			return false;
	return true;
}

/* Fills memory with zeros, adds the number and copies it back, all in the stream. */
static void compute(CUdeviceptr memory, int *result, int number, CUstream stream)
{
	unsigned count = COUNT;

	CU(cuMemsetD32Async(memory, 0, COUNT, stream));
	CLIENT_LAUNCH(add_number, (COUNT + 255) / 256, 1, 256, stream, &memory, &count, &number);
	CU(cuMemcpyDtoHAsync(result, memory, COUNT * sizeof(int), stream));
}

int main(void)
{
	size_t size = COUNT * sizeof(int);
	CUmodule module = sample_open("pool.ptx");
	int pools = 0, *result = sample_memory(ROUNDS * size);
	CUstream streams[2];
	CUdeviceptr memory;

	CU(cuDeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
	if (!pools)
		sample_skip("this device has no memory pools");
	add_number = client_function(module, "add_number");
	for (size_t i = 0; i < 2; i++)
		CU(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));

	/* Allocate, use and free without waiting in between. */
	for (int i = 0; i < ROUNDS; i++) {
		CU(cuMemAllocAsync(&memory, size, streams[0]));
		compute(memory, result + (size_t)i * COUNT, i + 1, streams[0]);
		CU(cuMemFreeAsync(memory, streams[0]));
	}
	CU(cuStreamSynchronize(streams[0]));
	bool all = true;
	for (int i = 0; i < ROUNDS; i++)
		all &= all_are(result + (size_t)i * COUNT, i + 1);
	sample_check(all, "%d rounds in one stream", ROUNDS);

	/* Allocated in one stream, used in another, freed in the first: events order the two. */
	CUevent allocated, used;
	CU(cuEventCreate(&allocated, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&used, CU_EVENT_DISABLE_TIMING));
	CU(cuMemAllocAsync(&memory, size, streams[0]));
	CU(cuEventRecord(allocated, streams[0]));
	CU(cuStreamWaitEvent(streams[1], allocated, 0));
	compute(memory, result, 42, streams[1]);
	CU(cuEventRecord(used, streams[1]));
	CU(cuStreamWaitEvent(streams[0], used, 0));
	CU(cuMemFreeAsync(memory, streams[0]));
	CU(cuStreamSynchronize(streams[0]));
	sample_check(all_are(result, 42), "used in another stream");

	/* A pool of our own that keeps what is freed. */
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemoryPool pool, of_memory;
	cuuint64_t keep = UINT64_MAX, got = 0;
	CU(cuMemPoolCreate(&pool, &properties));
	CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &got));
	sample_check(got == keep, "the release threshold is kept");
	CU(cuMemAllocFromPoolAsync(&memory, size, pool, streams[0]));
	compute(memory, result, -3, streams[0]);
	CU(cuPointerGetAttribute(&of_memory, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory));
	sample_check(of_memory == pool, "the memory knows its pool");
	CU(cuMemFreeAsync(memory, streams[0]));
	CU(cuStreamSynchronize(streams[0]));
	sample_check(all_are(result, -3), "memory from our own pool");
	CU(cuMemPoolTrimTo(pool, 0));
	CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &got));
	sample_check(got == 0, "nothing of the pool is in use");
	CU(cuMemPoolDestroy(pool));

	CU(cuEventDestroy(allocated));
	CU(cuEventDestroy(used));
	for (size_t i = 0; i < 2; i++)
		CU(cuStreamDestroy(streams[i]));
	CU(cuModuleUnload(module));
	free(result);
	return sample_end();
}
