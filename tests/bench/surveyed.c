/* SPDX-License-Identifier: MIT */
/*
 * Nanoseconds per launch of 1 and of 8 threads, as "MEASURE NS" lines after a "device NAME" line:
 * elapsed time divided by the launches of all threads. The program holds 64 MiB. Under a lower
 * limit it has spilled, and a survey looks for its steps meanwhile (survey = always). Sizes of
 * launches are random, so that no step is found.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/bench/measure.h"

enum { THREADS = 8, BLOCKS = 16, ROUNDS = 21, WARM_UP = 3 };
#define BLOCK    ((size_t)4 << 20)
#define ROUND_NS 20e6

static CUfunction kernel;
static CUcontext context;
static _Atomic double until;
static _Atomic uint64_t launches;

static void *launch_until(void *cookie)
{
	uint32_t random = (uint32_t)(uintptr_t)cookie * 2654435761u | 1;
	uint64_t count = 0;
	CUstream stream;

	CU(cuCtxSetCurrent(context));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	while (now_ns() < until) {
		for (int i = 0; i < 64; i++, count++) {
			random = random * 1664525u + 1013904223u;
			CU(cuLaunchKernel(kernel, 1u << (random >> 28), 1, 1, 32, 1, 1, 0, stream,
			                  NULL, NULL));
		}
		CU(cuStreamSynchronize(stream));
	}
	atomic_fetch_add(&launches, count);
	CU(cuStreamDestroy(stream));
	return NULL;
}

/* Returns the nanoseconds per launch of one round. */
static double round_of(int threads)
{
	pthread_t thread[THREADS];
	double began = now_ns();

	until = began + ROUND_NS;
	launches = 0;
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, launch_until, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return (now_ns() - began) / (double)launches;
}

static void measure_threads(const char *name, int threads)
{
	double rounds[ROUNDS];

	for (int i = -WARM_UP; i < ROUNDS; i++) {
		double ns = round_of(threads);

		if (i >= 0)
			rounds[i] = ns;
	}
	printf("%s %.2f\n", name, median(rounds, ROUNDS));
}

int main(void)
{
	static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
	                          ".visible .entry empty()\n{\n\tret;\n}\n";
	CUdevice device = measure_open();
	CUdeviceptr block[BLOCKS];
	CUmodule module;

	CU(cuCtxGetCurrent(&context));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&kernel, module, "empty"));
	for (int i = 0; i < BLOCKS; i++)
		CU(cuMemAlloc(&block[i], BLOCK));
	measure_threads("launch_1_thread", 1);
	measure_threads("launch_8_threads", THREADS);
	for (int i = 0; i < BLOCKS; i++)
		CU(cuMemFree(block[i]));
	CU(cuModuleUnload(module));
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
