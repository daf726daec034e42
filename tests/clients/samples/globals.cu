/* SPDX-License-Identifier: MIT */
/* The kernels of globals: variables of a module, constant memory, and a table of functions. */

extern "C" {
__constant__ float weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};
__device__ int counter = 5;
__device__ int table[100];
/* A pointer in memory to another variable. */
__device__ int *counter_address = &counter;
}

extern "C" __global__ void weighted_sum(const float *in, float *out, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	float sum = 0;
	if (i >= count)
		return;
	for (int k = 0; k < 8; k++)
		sum += weights[k] * in[i + k];
	out[i] = sum;
}

extern "C" __global__ void count_up(int by)
{
	atomicAdd(counter_address, by);
	table[threadIdx.x] = (int)threadIdx.x * by;
}

static __device__ int add(int a, int b)
{
	return a + b;
}

static __device__ int subtract(int a, int b)
{
	return a - b;
}

static __device__ int multiply(int a, int b)
{
	return a * b;
}

static __device__ int (*const operators[3])(int, int) = {add, subtract, multiply};

extern "C" __global__ void calculate(const int *which, int *out)
{
	unsigned i = threadIdx.x;
	out[i] = operators[which[i]]((int)i, 3);
}
