/* SPDX-License-Identifier: MIT */
/* Many threads use the driver at once; the thread sanitizer reports most of the faults. */
#include <pthread.h>

#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

#define THREADS 6
#define ROUNDS  60
#define COUNT   4096U

static CUcontext context;

/* Allocates, computes and checks on a stream of its own; frees with work of others under way. */
static void *compute(void *argument)
{
	unsigned int seed = (unsigned int)(uintptr_t)argument;
	CUmodule module;
	CUfunction fill;
	CUstream stream;
	CUevent event;
	unsigned int count = COUNT, *back = malloc(COUNT * 4);
	OK(cuCtxSetCurrent(context));
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	OK(cuEventCreate(&event, 0));
	for (unsigned int round = 0; round < ROUNDS; round++) {
		CUdeviceptr memory, pooled;
		unsigned int value = seed * 1000 + round;
		OK(cuStreamCreate(&stream, round % 2 ? CU_STREAM_NON_BLOCKING : 0));
		OK(cuMemAlloc_v2(&memory, COUNT * 4 + (round % 3) * MIB));
		OK(cuMemAllocAsync(&pooled, COUNT * 4, stream));
		void *parameters[] = {&pooled, &value, &count};
		OK(cuLaunchKernel(fill, COUNT / 256, 1, 1, 256, 1, 1, 0, stream, parameters, NULL));
		OK(cuMemcpyDtoDAsync_v2(memory, pooled, COUNT * 4, stream));
		OK(cuMemFreeAsync(pooled, stream));
		OK(cuEventRecord(event, stream));
		OK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, event, 0));
		OK(cuMemcpyDtoHAsync_v2(back, memory, COUNT * 4, CU_STREAM_PER_THREAD));
		OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
		for (unsigned int i = 0; i < COUNT; i++)
			CHECK(back[i] == value + i);
		OK(cuStreamDestroy_v2(stream));
		OK(cuMemFree_v2(memory));
	}
	OK(cuEventDestroy_v2(event));
	OK(cuModuleUnload(module));
	free(back);
	return NULL;
}

/* Maps and unmaps meanwhile. */
static void *remap(void *argument)
{
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = wanted.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr base;
	(void)argument;
	OK(cuCtxSetCurrent(context));
	OK(cuMemAddressReserve(&base, 64 * MIB, 0, 0, 0));
	for (unsigned int round = 0; round < 4 * ROUNDS; round++) {
		CUmemGenericAllocationHandle handle;
		CUdeviceptr at = base + round % 32 * 2 * MIB;
		unsigned int word;
		OK(cuMemCreate(&handle, 2 * MIB, &wanted, 0));
		OK(cuMemMap(at, 2 * MIB, 0, handle, 0));
		OK(cuMemSetAccess(at, 2 * MIB, &access, 1));
		OK(cuMemRelease(handle));
		OK(cuMemsetD32Async(at, round, 1024, CU_STREAM_PER_THREAD));
		OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
		OK(cuMemcpyDtoH_v2(&word, at + 4092, 4));
		CHECK(word == round);
		OK(cuMemUnmap(at, 2 * MIB));
	}
	OK(cuMemAddressFree(base, 64 * MIB));
	return NULL;
}

/* Makes and ends contexts of its own meanwhile. */
static void *contexts(void *argument)
{
	(void)argument;
	for (unsigned int round = 0; round < ROUNDS; round++) {
		CUcontext own;
		CUdeviceptr memory;
		CUstream stream;
		OK(cuCtxCreate_v2(&own, 0, 0));
		OK(cuStreamCreate(&stream, 0));
		OK(cuMemAlloc_v2(&memory, 100));
		OK(cuMemsetD8Async(memory, 1, 100, stream));
		OK(cuCtxDestroy_v2(own));
	}
	return NULL;
}

static void all_at_once(void)
{
	pthread_t threads[THREADS + 2];
	context = start();
	uint64_t before = physical_bytes(0);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, compute, (void *)(uintptr_t)i);
	pthread_create(&threads[THREADS], NULL, remap, NULL);
	pthread_create(&threads[THREADS + 1], NULL, contexts, NULL);
	for (int i = 0; i < THREADS + 2; i++)
		pthread_join(threads[i], NULL);
	OK(cuCtxSynchronize());
	CHECK(physical_bytes(0) == before); /* nothing was lost on the way */
	OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK(physical_bytes(0) == 0);
}

/* A cancellation waits until a call is over: nothing is lost on the way, and no lock kept. */
static struct cancelled {
	void *(*calls)(void *);
	bool are_done;
} cancelled[] = {{compute, false}, {remap, false}, {contexts, false}};

static void *call_with_one_pending(void *argument)
{
	struct cancelled *c = argument;
	pthread_cancel(pthread_self());
	c->calls(NULL);
	c->are_done = true;
	pthread_testcancel();
	return NULL;
}

static void cancelled_in_calls(void)
{
	context = start();
	uint64_t before = physical_bytes(0);
	for (size_t i = 0; i < sizeof(cancelled) / sizeof(*cancelled); i++) {
		pthread_t thread;
		void *result;
		pthread_create(&thread, NULL, call_with_one_pending, &cancelled[i]);
		pthread_join(thread, &result);
		CHECK(result == PTHREAD_CANCELED && cancelled[i].are_done);
		OK(cuCtxSynchronize());
	}
	CHECK(physical_bytes(0) == before);
}

int main(void)
{
	int failed = RUN(all_at_once, NULL) != 0;
	return RUN(cancelled_in_calls, NULL) != 0 || failed;
}
