/* SPDX-License-Identifier: MIT */
/* Occupancy: the calculator's answers agree with the limits of the device, and with each other. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>

static int attribute(CUdevice_attribute name)
{
	int value;

	CU(cuDeviceGetAttribute(&value, name, 0));
	return value;
}

static int blocks_of(CUfunction function, int threads, size_t dynamic_shared)
{
	int blocks;

	CU(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, dynamic_shared));
	return blocks;
}

static size_t CUDA_CB shared_for(int threads)
{
	return (size_t)threads * 64;
}

int main(void)
{
	CUmodule module = sample_open("occupancy.ptx");
	CUfunction light = client_function(module, "light"),
	           heavy = client_function(module, "heavy");
	int most_threads = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
	int most_shared = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
	int most_blocks = attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
	int most_in_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
	int static_shared;

	int last = most_blocks + 1;
	bool falls = true, fits = true;
	for (int threads = 32; threads <= 1024; threads *= 2) {
		int blocks = blocks_of(light, threads, 0);
		falls &= blocks <= last && blocks >= 1;
		fits &= blocks * threads <= most_threads && blocks <= most_blocks;
		last = blocks;
	}
	sample_check(fits, "blocks fit into a multiprocessor");
	sample_check(falls, "larger blocks, fewer of them");

	CU(cuFuncGetAttribute(&static_shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, heavy));
	sample_check(static_shared == 16384, "static shared memory: %d bytes", static_shared);
	int blocks = blocks_of(heavy, 64, 0);
	sample_check(blocks >= 1 && blocks * static_shared <= most_shared &&
	                 blocks < blocks_of(light, 64, 0),
	             "shared memory limits the blocks");
	sample_check(blocks_of(light, 64, 32768) * 32768 <= most_shared,
	             "and so does dynamic shared memory");

	int grid, block;
	CU(cuOccupancyMaxPotentialBlockSize(&grid, &block, light, NULL, 0, 0));
	sample_check(block >= 32 && block <= most_in_block && block % 32 == 0 && grid >= 1 &&
	                 blocks_of(light, block, 0) * block ==
	                     blocks_of(light, most_in_block, 0) * most_in_block,
	             "the proposed block fills a multiprocessor");
	CU(cuOccupancyMaxPotentialBlockSize(&grid, &block, light, shared_for, 0, 128));
	sample_check(block >= 32 && block <= 128, "and keeps to the limit asked for");

	size_t room;
	CU(cuOccupancyAvailableDynamicSMemPerBlock(&room, light, 2, 64));
	sample_check(room > 0 && blocks_of(light, 64, room) >= 2,
	             "the shared memory that leaves room for two blocks does");

	/* A grid as large as proposed runs. */
	int threads = 64, cells = threads * 8, *out = sample_memory((size_t)cells * sizeof(int));
	CUdeviceptr device_out = client_alloc((size_t)cells * sizeof(int));
	CLIENT_LAUNCH(heavy, 8, 1, threads, NULL, &device_out);
	sample_download(out, device_out, (size_t)cells * sizeof(int));
	bool right = true;
	for (int i = 0; i < cells; i++)
		right &= out[i] == ((4095 - i % threads) ^ (i / threads));
	sample_check(right, "the kernel with much shared memory");
	client_free(&device_out, (size_t)cells * sizeof(int));
	free(out);
	CU(cuModuleUnload(module));
	return sample_end();
}
