/* SPDX-License-Identifier: MIT */
/* Reduction: a sum in two steps through shared memory, and at once by shuffles and atomics. */
#include "tests/clients/samples/sample.h"

#include <limits.h>
#include <stdlib.h>

enum { COUNT = 300001, THREADS = 256, BLOCKS = 64 };

int main(void)
{
	unsigned count = COUNT, block_count = BLOCKS;
	int *in = sample_memory(COUNT * sizeof(int));
	int expected = 0, low = 0, high = 0, got[3] = {0, INT_MAX, INT_MIN};
	CUmodule module = sample_open("reduction.ptx");

	for (size_t i = 0; i < COUNT; i++) {
		in[i] = (int)(sample_random() % 20001) - 10000;
		expected += in[i];
		low = in[i] < low ? in[i] : low;
		high = in[i] > high ? in[i] : high;
	}
	CUdeviceptr device_in = sample_upload(in, COUNT * sizeof(int));
	CUdeviceptr sums = client_alloc(BLOCKS * sizeof(int)), sum = client_alloc(sizeof(int));
	CUfunction sum_shared = client_function(module, "sum_shared");
	CLIENT_LAUNCH(sum_shared, BLOCKS, 1, THREADS, NULL, &device_in, &sums, &count);
	CLIENT_LAUNCH(sum_shared, 1, 1, THREADS, NULL, &sums, &sum, &block_count);
	sample_download(&got[0], sum, sizeof(int));
	sample_check(got[0] == expected, "sum through shared memory: %d", got[0]);

	got[0] = 0;
	CUdeviceptr sum_min_max = sample_upload(got, sizeof(got));
	CLIENT_LAUNCH(client_function(module, "sum_shuffle"), (COUNT + THREADS - 1) / THREADS, 1,
	              THREADS, NULL, &device_in, &sum_min_max, &count);
	sample_download(got, sum_min_max, sizeof(got));
	sample_check(got[0] == expected, "sum by shuffles: %d", got[0]);
	sample_check(got[1] == low && got[2] == high, "minimum %d, maximum %d", got[1], got[2]);

	client_free(&device_in, COUNT * sizeof(int));
	client_free(&sums, BLOCKS * sizeof(int));
	client_free(&sum, sizeof(int));
	client_free(&sum_min_max, sizeof(got));
	CU(cuModuleUnload(module));
	free(in);
	return sample_end();
}
