/* SPDX-License-Identifier: MIT */
/* The kernels of graphs. */

extern "C" __global__ void scale(float *vector, unsigned count, float factor)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		vector[i] *= factor;
}

extern "C" __global__ void add_vector(float *vector, const float *other, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		vector[i] += other[i];
}
