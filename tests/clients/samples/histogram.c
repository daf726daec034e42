/* SPDX-License-Identifier: MIT */
/* Histogram: atomics in global memory, in shared memory, and a spin lock built from them. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 200003, LOCKED_COUNT = 700, BINS = 256, THREADS = 192, BLOCKS = 20 };

static void count_bytes(const unsigned char *in, unsigned count, unsigned *bins)
{
	memset(bins, 0, BINS * sizeof(*bins));
	for (unsigned i = 0; i < count; i++)
		bins[in[i]]++;
}

int main(void)
{
	unsigned char *in = sample_memory(COUNT);
	unsigned expected[BINS], got[BINS], count = COUNT;
	CUmodule module = sample_open("histogram.ptx");

	/* Uneven, so that many lanes want the same bin. */
	for (size_t i = 0; i < COUNT; i++) {
		uint32_t random = sample_random();
		in[i] = (unsigned char)(random & random >> 8);
	}
	count_bytes(in, COUNT, expected);
	CUdeviceptr device_in = sample_upload(in, COUNT), bins = client_alloc(sizeof(got));

	static const char *const kernels[] = {"histogram_global", "histogram_shared"};
	for (size_t i = 0; i < 2; i++) {
		CU(cuMemsetD32(bins, 0, BINS));
		CLIENT_LAUNCH(client_function(module, kernels[i]), BLOCKS, 1, THREADS, NULL,
		              &device_in, &bins, &count);
		sample_download(got, bins, sizeof(got));
		sample_check(memcmp(got, expected, sizeof(got)) == 0, "%s of %d bytes", kernels[i],
		             COUNT);
	}

	unsigned lock_value = 0;
	CUdeviceptr lock = sample_upload(&lock_value, sizeof(lock_value));
	count = LOCKED_COUNT;
	count_bytes(in, count, expected);
	CU(cuMemsetD32(bins, 0, BINS));
	CLIENT_LAUNCH(client_function(module, "histogram_locked"),
	              (LOCKED_COUNT + THREADS - 1) / THREADS, 1, THREADS, NULL, &device_in, &bins,
	              &count, &lock);
	sample_download(got, bins, sizeof(got));
	sample_check(memcmp(got, expected, sizeof(got)) == 0, "histogram_locked of %d bytes",
	             LOCKED_COUNT);

	client_free(&device_in, COUNT);
	client_free(&bins, sizeof(got));
	client_free(&lock, sizeof(lock_value));
	CU(cuModuleUnload(module));
	free(in);
	return sample_end();
}
