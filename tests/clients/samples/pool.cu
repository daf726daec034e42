/* SPDX-License-Identifier: MIT */
/* The kernel of pool: adds a number to each element. */

extern "C" __global__ void add_number(int *vector, unsigned count, int number)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		vector[i] += number;
}
