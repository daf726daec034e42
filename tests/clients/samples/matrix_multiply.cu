/* SPDX-License-Identifier: MIT */
/*
 * The kernel of matrix_multiply: a block computes a TILE x TILE piece from tiles in shared memory.
 */

#define TILE 16

extern "C" __global__ void matrix_multiply(const float *a, const float *b, float *product,
                                           unsigned rows, unsigned inner, unsigned columns)
{
	__shared__ float tile_a[TILE][TILE], tile_b[TILE][TILE];
	unsigned x = threadIdx.x, y = threadIdx.y;
	unsigned row = blockIdx.y * TILE + y, column = blockIdx.x * TILE + x;
	float sum = 0;

	for (unsigned from = 0; from < inner; from += TILE) {
		tile_a[y][x] = row < rows && from + x < inner ? a[row * inner + from + x] : 0.0f;
		tile_b[y][x] =
		    from + y < inner && column < columns ? b[(from + y) * columns + column] : 0.0f;
		__syncthreads();
		for (unsigned k = 0; k < TILE; k++)
			sum = __fmaf_rn(tile_a[y][k], tile_b[k][x], sum);
		__syncthreads();
	}
	if (row < rows && column < columns)
		product[row * columns + column] = sum;
}
