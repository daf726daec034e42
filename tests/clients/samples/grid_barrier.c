/* SPDX-License-Identifier: MIT */
/* A cooperative launch with blocks that meet at a barrier of the whole grid. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 3001, ROUNDS = 12, THREADS = 96 };

int main(void)
{
	static unsigned cells[COUNT], next[COUNT];
	unsigned count = COUNT, rounds = ROUNDS, got[COUNT];
	int cooperative, blocks, multiprocessors;
	CUmodule module = sample_open("grid_barrier.ptx");
	CUfunction ring_sums = client_function(module, "ring_sums");

	CU(cuDeviceGetAttribute(&cooperative, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 0));
	if (!cooperative)
		sample_skip("this device has no cooperative launches");
	CU(cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, ring_sums, THREADS, 0));
	int most = blocks * multiprocessors;

	for (size_t i = 0; i < COUNT; i++)
		cells[i] = sample_random();
	CUdeviceptr device_cells = sample_upload(cells, sizeof(cells));
	CUdeviceptr scratch = client_alloc(sizeof(cells));
	void *arguments[] = {&device_cells, &scratch, &count, &rounds};
	unsigned grid = most < 8 ? (unsigned)most : 8;
	CU(cuLaunchCooperativeKernel(ring_sums, grid, 1, 1, THREADS, 1, 1, 0, NULL, arguments));
	sample_download(got, device_cells, sizeof(got));
	for (size_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < COUNT; i++)
			next[i] = cells[i] + cells[(i + 1) % COUNT];
		memcpy(cells, next, sizeof(cells));
	}
	sample_check(memcmp(cells, got, sizeof(got)) == 0, "%d rounds over the whole grid", ROUNDS);

	/* Blocks that cannot all be there at once would wait for ever. */
	sample_check(cuLaunchCooperativeKernel(ring_sums, (unsigned)most + 1, 1, 1, THREADS, 1, 1,
	                                       0, NULL, arguments) ==
	                 CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
	             "a grid that does not fit is refused");
	client_free(&device_cells, sizeof(cells));
	client_free(&scratch, sizeof(cells));
	CU(cuModuleUnload(module));
	return sample_end();
}
