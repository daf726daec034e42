/* SPDX-License-Identifier: MIT */
/* The kernel of ipc: adds a number to each element. */

extern "C" __global__ void add_to_all(unsigned *vector, unsigned count, unsigned number)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		vector[i] += number;
}
