/* SPDX-License-Identifier: MIT */
/* Module globals and constants: their initial values, and reading and writing them by name. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>

enum { COUNT = 256, THREADS = 100 };

static CUdeviceptr global(CUmodule module, const char *name, size_t expected_bytes)
{
	CUdeviceptr address;
	size_t bytes;

	CU(cuModuleGetGlobal(&address, &bytes, module, name));
	sample_check(bytes == expected_bytes, "%s: %zu bytes", name, bytes);
	return address;
}

static void check_weighted_sum(CUmodule module, const float *weights, const char *what)
{
	float in[COUNT + 8], out[COUNT];
	unsigned count = COUNT;

	/* Small whole numbers: every order of summing gives the same bits. */
	for (size_t i = 0; i < COUNT + 8; i++)
		in[i] = (float)(sample_random() % 100);
	CUdeviceptr device_in = sample_upload(in, sizeof(in)),
	            device_out = client_alloc(sizeof(out));
	CLIENT_LAUNCH(client_function(module, "weighted_sum"), COUNT / 64, 1, 64, NULL, &device_in,
	              &device_out, &count);
	sample_download(out, device_out, sizeof(out));
	size_t wrong = 0;
	for (size_t i = 0; i < COUNT; i++) {
		float sum = 0;
		for (size_t k = 0; k < 8; k++)
			sum += weights[k] * in[i + k];
		wrong += out[i] != sum;
	}
	sample_check(wrong == 0, "%s", what);
	client_free(&device_in, sizeof(in));
	client_free(&device_out, sizeof(out));
}

int main(void)
{
	float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8}, others[8] = {0, 3, 1, 4, 1, 5, 9, 2};
	int counter, by = 3, table[THREADS], which[THREADS];
	CUmodule module = sample_open("globals.ptx");
	CUdeviceptr constant = global(module, "weights", sizeof(weights));
	CUdeviceptr counter_address = global(module, "counter", sizeof(int));
	CUdeviceptr table_address = global(module, "table", sizeof(table));

	check_weighted_sum(module, weights, "constants as the file has them");
	CU(cuMemcpyHtoD(constant, others, sizeof(others)));
	check_weighted_sum(module, others, "constants written by the host");

	sample_download(&counter, counter_address, sizeof(counter));
	sample_check(counter == 5, "a variable's initial value: %d", counter);
	sample_download(table, table_address, sizeof(table));
	bool zero = true;
	for (size_t i = 0; i < THREADS; i++)
		zero &= table[i] == 0;
	sample_check(zero, "variables without one are zero");
	CLIENT_LAUNCH(client_function(module, "count_up"), 1, 1, THREADS, NULL, &by);
	sample_download(&counter, counter_address, sizeof(counter));
	sample_check(counter == 5 + 3 * THREADS, "counted through a pointer in memory: %d",
	             counter);
	sample_download(table, table_address, sizeof(table));
	bool right = true;
	for (int i = 0; i < THREADS; i++)
		right &= table[i] == i * by;
	sample_check(right, "the table as the kernel wrote it");

	/* Lanes of a warp call different functions through pointers. */
	for (size_t i = 0; i < THREADS; i++)
		which[i] = (int)(sample_random() % 3);
	CUdeviceptr device_which = sample_upload(which, sizeof(which));
	CUdeviceptr out = client_alloc(sizeof(table));
	CLIENT_LAUNCH(client_function(module, "calculate"), 1, 1, THREADS, NULL, &device_which,
	              &out);
	sample_download(table, out, sizeof(table));
	right = true;
	for (int i = 0; i < THREADS; i++)
		right &= table[i] == (which[i] == 0 ? i + 3 : which[i] == 1 ? i - 3 : i * 3);
	sample_check(right, "functions called through a table");
	client_free(&device_which, sizeof(which));
	client_free(&out, sizeof(table));

	/* A second module of the same file has variables of its own. */
	CUmodule other = client_load_module("globals.ptx");
	sample_download(&counter, global(other, "counter", sizeof(int)), sizeof(counter));
	sample_check(counter == 5, "another module has its own counter: %d", counter);
	SAMPLE_EXPECT(CUDA_ERROR_NOT_FOUND,
	              cuModuleGetGlobal(&constant, NULL, other, "no_such_name"));
	CU(cuModuleUnload(other));
	CU(cuModuleUnload(module));
	return sample_end();
}
