/* SPDX-License-Identifier: MIT */
/* The kernels of library. */

extern "C" {
__device__ int bias = 100;
}

extern "C" __global__ void add_bias(int *vector, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		vector[i] += bias;
}

extern "C" __global__ void set_bias(int value)
{
	bias = value;
}
