/* SPDX-License-Identifier: MIT */
/* What the tests of fat binaries and of their registration load, in every packing of nvcc's. */
__constant__ float coefficients[4];
__device__ unsigned int launches = 5;
__managed__ unsigned int notes = 3;

/* out[i] = c0 + c1 x + c2 x^2 + c3 x^3 of x = in[i] */
extern "C" __global__ void polynomial(float *out, const float *in, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i == 0)
		atomicAdd(&launches, 1);
	if (i >= count)
		return;
	float x = in[i];
	out[i] = coefficients[0] +
	         x * (coefficients[1] + x * (coefficients[2] + x * coefficients[3]));
}

/* Sums `count` words into *total, by shared memory of the size that the launch gives. */
extern "C" __global__ void total(unsigned int *total, const unsigned int *in, int count)
{
	extern __shared__ unsigned int part[];
	unsigned int sum = 0;
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
		sum += in[i];
	part[threadIdx.x] = sum;
	__syncthreads();
	for (int half = blockDim.x / 2; half; half /= 2) {
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		atomicAdd(total, part[0]);
}

/* Writes where nothing is. */
extern "C" __global__ void stray(unsigned int *nowhere)
{
	*nowhere = 1;
}

extern "C" __global__ void note(unsigned int by)
{
	notes += by;
}
