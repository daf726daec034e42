/* SPDX-License-Identifier: MIT */
/*
 * Nanoseconds per launch of 1 and of 8 threads, as "MEASURE NS" lines after a "device NAME" line:
 * the process's processor time divided by the launches of all threads. So other programs of the
 * machine add little. The first line of each is the median of rounds of 20 ms, and "_mean" covers
 * all rounds. The program holds 64 MiB. Under a lower limit it has spilled, and a survey looks for
 * its steps meanwhile (survey = always). It looks at few launches of each second, which are in the
 * mean. Sizes of launches are random, so that no step is found.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "tests/bench/measure.h"

enum { THREADS = 8, BLOCKS = 16, ROUNDS = 101, WARM_UP = 3 };
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

static double processor_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* Returns the processor time of one round. */
static double round_of(int threads)
{
	pthread_t thread[THREADS];
	double began = processor_ns();

	until = now_ns() + ROUND_NS;
	launches = 0;
	for (int i = 0; i < threads; i++)
		pthread_create(&thread[i], NULL, launch_until, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	return processor_ns() - began;
}

static void measure_threads(const char *name, int threads)
{
	double rounds[ROUNDS], ns_of_all = 0;
	uint64_t all = 0;

	for (int i = -WARM_UP; i < ROUNDS; i++) {
		double ns = round_of(threads);

		if (i < 0)
			continue;
		rounds[i] = ns / (double)launches;
		ns_of_all += ns;
		all += launches;
	}
	printf("%s %.2f\n%s_mean %.2f\n", name, median(rounds, ROUNDS), name,
	       ns_of_all / (double)all);
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
