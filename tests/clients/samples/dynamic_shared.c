/* SPDX-License-Identifier: MIT */
/* Dynamic shared memory: up to 48 KiB as it comes, more only when the function opts in. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>

enum { PIECES = 3, THREADS = 128, PLAIN = 48 * 1024, MORE = 64 * 1024 };

static CUfunction reverse;

static CUresult launch(CUdeviceptr in, CUdeviceptr out, unsigned bytes)
{
	unsigned length = bytes / sizeof(int);

	return cuLaunchKernel(reverse, PIECES, 1, 1, THREADS, 1, 1, bytes, NULL,
	                      (void *[]){&in, &out, &length}, NULL);
}

static void check_reversed(unsigned bytes)
{
	size_t length = bytes / sizeof(int), wrong = 0;
	int *host = sample_memory((size_t)PIECES * bytes),
	    *result = sample_memory((size_t)PIECES * bytes);

	for (size_t i = 0; i < PIECES * length; i++)
		host[i] = (int)sample_random();
	CUdeviceptr in = sample_upload(host, (size_t)PIECES * bytes);
	CUdeviceptr out = client_alloc((size_t)PIECES * bytes);
	CU(launch(in, out, bytes));
	sample_download(result, out, (size_t)PIECES * bytes);
	for (size_t piece = 0; piece < PIECES; piece++)
		for (size_t i = 0; i < length; i++)
			wrong +=
			    result[piece * length + i] != host[piece * length + length - 1 - i];
	sample_check(wrong == 0, "pieces of %u bytes reversed", bytes);
	client_free(&in, (size_t)PIECES * bytes);
	client_free(&out, (size_t)PIECES * bytes);
	free(host);
	free(result);
}

int main(void)
{
	int most, allowed;
	unsigned bytes = 0;
	CUmodule module = sample_open("dynamic_shared.ptx");

	reverse = client_function(module, "reverse");
	CU(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
	check_reversed(4000);
	check_reversed(PLAIN);

	CUdeviceptr out = sample_upload(&bytes, sizeof(bytes));
	CU(cuLaunchKernel(client_function(module, "dynamic_bytes"), 1, 1, 1, 1, 1, 1, 1234, NULL,
	                  (void *[]){&out}, NULL));
	sample_download(&bytes, out, sizeof(bytes));
	sample_check(bytes >= 1234 && bytes < 1234 + 1024, "the device sees the size asked for");
	client_free(&out, sizeof(bytes));

	SAMPLE_EXPECT(CUDA_ERROR_INVALID_VALUE, launch(0, 0, PLAIN + 16));
	if (most >= MORE) {
		CU(cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
		                      MORE));
		CU(cuFuncGetAttribute(&allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
		                      reverse));
		sample_check(allowed == MORE, "the function may have %d bytes", MORE);
		check_reversed(MORE);
		SAMPLE_EXPECT(CUDA_ERROR_INVALID_VALUE, launch(0, 0, MORE + 16));
	}
	SAMPLE_EXPECT(
	    CUDA_ERROR_INVALID_VALUE,
	    cuFuncSetAttribute(reverse, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1));
	CU(cuModuleUnload(module));
	return sample_end();
}
