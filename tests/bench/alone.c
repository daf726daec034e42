/* SPDX-License-Identifier: MIT */
/*
 * Nanoseconds per launch and per allocation with its free, by lines "MEASURE NS", of a job that has
 * the GPU alone. The job has published its peer record. Then "peer records N": how many peer
 * records lie in the state directory.
 */
#include "tests/bench/measure.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEETS_MS = 600 }; /* contexts are looked for each 100 ms */

static CUfunction kernel;
static CUstream stream;

static void launch(void)
{
	CU(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void drain(void)
{
	CU(cuStreamSynchronize(stream));
}

static void alloc_free(size_t size)
{
	CUdeviceptr memory;

	CU(cuMemAlloc(&memory, size));
	CU(cuMemFree(memory));
}

static void alloc_free_small(void)
{
	alloc_free(4096);
}

static void alloc_free_large(void)
{
	alloc_free((size_t)16 << 20);
}

static int count_peers(void)
{
	const char *path = getenv("SPILLWAY_STATE_DIR");
	DIR *listing = path ? opendir(path) : NULL;
	int count = 0;

	for (const struct dirent *entry; listing && (entry = readdir(listing));)
		count += strncmp(entry->d_name, "card-", 5) == 0;
	if (listing)
		closedir(listing);
	return count;
}

int main(void)
{
	static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
	                          ".visible .entry empty()\n{\n\tret;\n}\n";
	static const struct measure measures[] = {
	    /* Fewer than a stream's queue holds, so that no launch waits for a kernel. */
	    {"launch", launch, drain, 256},
	    {"alloc_free_4KiB", alloc_free_small, NULL, 64},
	    {"alloc_free_16MiB", alloc_free_large, NULL, 64},
	};
	CUdevice device = measure_open();
	CUmodule module;

	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&kernel, module, "empty"));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	launch();
	usleep(MEETS_MS * 1000);
	for (size_t i = 0; i < sizeof(measures) / sizeof(*measures); i++)
		measure(&measures[i]);
	printf("peer records %d\n", count_peers());
	CU(cuStreamDestroy(stream));
	CU(cuModuleUnload(module));
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
