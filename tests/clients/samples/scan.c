/* SPDX-License-Identifier: MIT */
/* Scan: inclusive sums in three launches, and a stream compaction, by warp shuffles and ballots. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>

enum { COUNT = 60007, THREADS = 256, BLOCKS = (COUNT + THREADS - 1) / THREADS };

static int compare(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;
	return (x > y) - (x < y);
}

int main(void)
{
	unsigned count = COUNT, block_count = BLOCKS, zero = 0, length;
	size_t size = COUNT * sizeof(int);
	int *in = sample_memory(size), *out = sample_memory(size), *odd = sample_memory(size);
	CUdeviceptr none = 0;
	CUmodule module = sample_open("scan.ptx");
	CUfunction scan_blocks = client_function(module, "scan_blocks");

	_Static_assert(BLOCKS <= THREADS, "the sums of blocks are scanned by one block");
	for (size_t i = 0; i < COUNT; i++)
		in[i] = (int)(sample_random() % 1000) - 500;
	CUdeviceptr device_in = sample_upload(in, size), device_out = client_alloc(size);
	CUdeviceptr sums = client_alloc(BLOCKS * sizeof(int));
	CLIENT_LAUNCH(scan_blocks, BLOCKS, 1, THREADS, NULL, &device_in, &device_out, &sums,
	              &count);
	CLIENT_LAUNCH(scan_blocks, 1, 1, THREADS, NULL, &sums, &sums, &none, &block_count);
	CLIENT_LAUNCH(client_function(module, "add_block_sums"), BLOCKS, 1, THREADS, NULL,
	              &device_out, &sums, &count);
	sample_download(out, device_out, size);
	size_t wrong = 0;
	int sum = 0;
	for (size_t i = 0; i < COUNT; i++) {
		sum += in[i];
		wrong += out[i] != sum;
	}
	sample_check(wrong == 0, "%d running sums, the last is %d", COUNT, out[COUNT - 1]);

	/* Warps come in any order, so both sides are sorted. */
	CUdeviceptr device_length = sample_upload(&zero, sizeof(zero));
	CLIENT_LAUNCH(client_function(module, "compact_odd"), BLOCKS, 1, THREADS, NULL, &device_in,
	              &device_out, &device_length, &count);
	sample_download(&length, device_length, sizeof(length));
	sample_download(out, device_out, size);
	unsigned expected = 0;
	for (size_t i = 0; i < COUNT; i++)
		if (in[i] & 1)
			odd[expected++] = in[i];
	sample_check(length == expected, "%u odd numbers", length);
	if (length == expected) {
		qsort(out, expected, sizeof(*out), compare);
		qsort(odd, expected, sizeof(*odd), compare);
		wrong = 0;
		for (size_t i = 0; i < expected; i++)
			wrong += out[i] != odd[i];
		sample_check(wrong == 0, "and the right ones");
	}

	client_free(&device_in, size);
	client_free(&device_out, size);
	client_free(&sums, BLOCKS * sizeof(int));
	client_free(&device_length, sizeof(zero));
	CU(cuModuleUnload(module));
	free(in);
	free(out);
	free(odd);
	return sample_end();
}
