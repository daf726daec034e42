/* SPDX-License-Identifier: MIT */
/* The kernel of timing: as many steps as asked, each depending on the one before. */

extern "C" __global__ void steps(unsigned *out, unsigned count)
{
	unsigned x = threadIdx.x;
	for (unsigned i = 0; i < count; i++)
		x = x * 1664525u + 1013904223u;
	out[blockIdx.x * blockDim.x + threadIdx.x] = x;
}
