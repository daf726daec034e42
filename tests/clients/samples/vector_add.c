/* SPDX-License-Identifier: MIT */
/* Vector add: the shortest whole program. Also through the other two ways to pass arguments. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = (1 << 20) - 3, THREADS = 256 };

static bool is_sum(const float *a, const float *b, const float *sum, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (sum[i] != a[i] + b[i])
			return false;
	return true;
}

int main(void)
{
	unsigned count = COUNT;
	size_t size = COUNT * sizeof(float);
	CUmodule module = sample_open("vector_add.ptx");
	CUfunction vector_add = client_function(module, "vector_add");
	float *a = sample_memory(size), *b = sample_memory(size), *sum = sample_memory(size);

	for (size_t i = 0; i < COUNT; i++) {
		a[i] = sample_random_float();
		b[i] = sample_random_float();
	}
	CUdeviceptr device_a = sample_upload(a, size), device_b = sample_upload(b, size);
	CUdeviceptr device_sum = client_alloc(size);
	unsigned blocks = (COUNT + THREADS - 1) / THREADS;

	CLIENT_LAUNCH(vector_add, blocks, 1, THREADS, NULL, &device_a, &device_b, &device_sum,
	              &count);
	sample_download(sum, device_sum, size);
	sample_check(is_sum(a, b, sum, COUNT), "%d sums", COUNT);

	/* The arguments as one block of bytes, laid out as the kernel's parameters are. */
	struct {
		CUdeviceptr a, b, sum;
		unsigned count;
	} arguments = {device_a, device_b, device_sum, COUNT / 2};
	size_t arguments_size = sizeof(arguments);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &arguments, CU_LAUNCH_PARAM_BUFFER_SIZE,
	                 &arguments_size, CU_LAUNCH_PARAM_END};
	CU(cuMemsetD32(device_sum, 0, COUNT));
	CU(cuLaunchKernel(vector_add, blocks, 1, 1, THREADS, 1, 1, 0, NULL, NULL, extra));
	sample_download(sum, device_sum, size);
	sample_check(is_sum(a, b, sum, COUNT / 2), "%d sums, arguments in a buffer", COUNT / 2);
	bool rest_is_zero = true;
	for (size_t i = COUNT / 2; i < COUNT; i++)
		rest_is_zero &= sum[i] == 0;
	sample_check(rest_is_zero, "the rest untouched");

	/* cuLaunchKernelEx, on a stream, asynchronous from end to end. */
	CUstream stream;
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CUlaunchConfig config = {.gridDimX = blocks,
	                         .gridDimY = 1,
	                         .gridDimZ = 1,
	                         .blockDimX = THREADS,
	                         .blockDimY = 1,
	                         .blockDimZ = 1,
	                         .hStream = stream};
	memset(sum, 0, size);
	CU(cuMemcpyHtoDAsync(device_a, b, size, stream));
	CU(cuLaunchKernelEx(&config, vector_add,
	                    (void *[]){&device_a, &device_b, &device_sum, &count}, NULL));
	CU(cuMemcpyDtoHAsync(sum, device_sum, size, stream));
	CU(cuStreamSynchronize(stream));
	sample_check(is_sum(b, b, sum, COUNT), "%d sums on a stream", COUNT);

	CU(cuStreamDestroy(stream));
	client_free(&device_a, size);
	client_free(&device_b, size);
	client_free(&device_sum, size);
	CU(cuModuleUnload(module));
	free(a);
	free(b);
	free(sum);
	return sample_end();
}
