/* SPDX-License-Identifier: MIT */
/*
 * One half of link: kernels that call and use what link_shape.cu defines. Both files have a helper
 * of the same name for themselves.
 */

extern __device__ float shape(float x);
extern __device__ unsigned shape_calls;
extern __constant__ float shape_factor;

static __device__ __noinline__ float helper(float x)
{
	return x + 1;
}

static __device__ float offset = 0.25f;

extern "C" __global__ void apply_shape(float *vector, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		vector[i] = shape(helper(vector[i])) * shape_factor + offset;
}

extern "C" __global__ void read_calls(unsigned *calls)
{
	*calls = shape_calls;
}
