/* SPDX-License-Identifier: MIT */
/* Matrix multiply by tiles in shared memory; the sides are no multiples of a tile. */
#include "tests/clients/samples/sample.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 123, INNER = 201, COLUMNS = 95, TILE = 16 };

int main(void)
{
	unsigned rows = ROWS, inner = INNER, columns = COLUMNS;
	float *a = sample_memory(ROWS * INNER * sizeof(float));
	float *b = sample_memory(INNER * COLUMNS * sizeof(float));
	float *product = sample_memory(ROWS * COLUMNS * sizeof(float));
	CUmodule module = sample_open("matrix_multiply.ptx");
	CUfunction multiply = client_function(module, "matrix_multiply");

	for (size_t i = 0; i < ROWS * INNER; i++)
		a[i] = sample_random_float();
	for (size_t i = 0; i < INNER * COLUMNS; i++)
		b[i] = sample_random_float();
	CUdeviceptr device_a = sample_upload(a, ROWS * INNER * sizeof(float));
	CUdeviceptr device_b = sample_upload(b, INNER * COLUMNS * sizeof(float));
	CUdeviceptr device_product = client_alloc(ROWS * COLUMNS * sizeof(float));

	CU(cuLaunchKernel(
	    multiply, (COLUMNS + TILE - 1) / TILE, (ROWS + TILE - 1) / TILE, 1, TILE, TILE, 1, 0,
	    NULL, (void *[]){&device_a, &device_b, &device_product, &rows, &inner, &columns},
	    NULL));
	sample_download(product, device_product, ROWS * COLUMNS * sizeof(float));

	/* The kernel sums in this order with fused multiply-adds, so each bit is decided. */
	size_t wrong = 0;
	for (size_t row = 0; row < ROWS; row++) {
		for (size_t column = 0; column < COLUMNS; column++) {
			float sum = 0;
			for (size_t k = 0; k < INNER; k++)
				sum = fmaf(a[row * INNER + k], b[k * COLUMNS + column], sum);
			wrong += product[row * COLUMNS + column] != sum;
		}
	}
	sample_check(wrong == 0, "%d x %d times %d x %d, every bit", ROWS, INNER, INNER, COLUMNS);

	client_free(&device_a, ROWS * INNER * sizeof(float));
	client_free(&device_b, INNER * COLUMNS * sizeof(float));
	client_free(&device_product, ROWS * COLUMNS * sizeof(float));
	CU(cuModuleUnload(module));
	free(a);
	free(b);
	free(product);
	return sample_end();
}
