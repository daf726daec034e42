/* SPDX-License-Identifier: MIT */
/* The kernel of grow_vector: element i becomes i + seed, in every element from first on. */

extern "C" __global__ void fill_from(unsigned *vector, unsigned first, unsigned count, unsigned seed)
{
	for (unsigned i = first + blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += blockDim.x * gridDim.x)
		vector[i] = i + seed;
}
