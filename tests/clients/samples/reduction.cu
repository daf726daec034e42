/* SPDX-License-Identifier: MIT */
/* The kernels of reduction: a sum by shared memory, and one by shuffles and one atomic a block. */

#define THREADS 256

/* One sum per block, by halves in shared memory. */
extern "C" __global__ void sum_shared(const int *in, int *sums, unsigned count)
{
	__shared__ int part[THREADS];
	unsigned t = threadIdx.x;
	int sum = 0;

	for (unsigned i = blockIdx.x * THREADS + t; i < count; i += THREADS * gridDim.x)
		sum += in[i];
	part[t] = sum;
	__syncthreads();
	for (unsigned half = THREADS / 2; half; half /= 2) {
		if (t < half)
			part[t] += part[t + half];
		__syncthreads();
	}
	if (t == 0)
		sums[blockIdx.x] = part[0];
}

/* The whole sum, by shuffles in a warp and an atomic per warp; minimum and maximum alike. */
extern "C" __global__ void sum_shuffle(const int *in, int *sum_min_max, unsigned count)
{
	unsigned i = blockIdx.x * THREADS + threadIdx.x;
	int value = i < count ? in[i] : 0;
	int sum = value, low = value, high = value;

	for (int offset = 16; offset; offset /= 2) {
		sum += __shfl_down_sync(0xffffffff, sum, offset);
		low = min(low, __shfl_xor_sync(0xffffffff, low, offset));
		high = max(high, __shfl_xor_sync(0xffffffff, high, offset));
	}
	if (threadIdx.x % 32 == 0) {
		atomicAdd(&sum_min_max[0], sum);
		atomicMin(&sum_min_max[1], low);
		atomicMax(&sum_min_max[2], high);
	}
}
