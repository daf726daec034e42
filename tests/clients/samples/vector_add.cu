/* SPDX-License-Identifier: MIT */
/* The kernel of vector_add: one thread per element, with a ragged last block. */

extern "C" __global__ void vector_add(const float *a, const float *b, float *sum, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		sum[i] = a[i] + b[i];
}
