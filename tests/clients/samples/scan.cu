/* SPDX-License-Identifier: MIT */
/* The kernels of scan: inclusive sums within blocks by warp shuffles, then the blocks' own sums. */

#define THREADS 256

static __device__ int warp_scan(int value)
{
	for (int offset = 1; offset < 32; offset *= 2) {
		int below = __shfl_up_sync(0xffffffff, value, offset);
		if (threadIdx.x % 32 >= offset)
			value += below;
	}
	return value;
}

/* Scans each block of THREADS; block_sums, if not null, gets the sum of each. */
extern "C" __global__ void scan_blocks(const int *in, int *out, int *block_sums, unsigned count)
{
	__shared__ int warp_sums[THREADS / 32];
	unsigned i = blockIdx.x * THREADS + threadIdx.x;
	unsigned warp = threadIdx.x / 32;
	int value = warp_scan(i < count ? in[i] : 0);

	if (threadIdx.x % 32 == 31)
		warp_sums[warp] = value;
	__syncthreads();
	if (warp == 0) {
		int sum = warp_scan(threadIdx.x < THREADS / 32 ? warp_sums[threadIdx.x] : 0);
		if (threadIdx.x < THREADS / 32)
			warp_sums[threadIdx.x] = sum;
	}
	__syncthreads();
	if (warp)
		value += warp_sums[warp - 1];
	if (i < count)
		out[i] = value;
	if (block_sums && threadIdx.x == THREADS - 1)
		block_sums[blockIdx.x] = value;
}

extern "C" __global__ void add_block_sums(int *out, const int *block_sums, unsigned count)
{
	unsigned i = blockIdx.x * THREADS + threadIdx.x;
	if (blockIdx.x && i < count)
		out[i] += block_sums[blockIdx.x - 1];
}

/* Keeps the odd numbers, in order within a warp, by ballots and one atomic per warp. */
extern "C" __global__ void compact_odd(const int *in, int *out, unsigned *length, unsigned count)
{
	unsigned i = blockIdx.x * THREADS + threadIdx.x;
	int value = i < count ? in[i] : 0;
	unsigned odd = __ballot_sync(0xffffffff, value & 1);
	unsigned lane = threadIdx.x % 32;
	unsigned at = 0;

	if (lane == 0)
		at = atomicAdd(length, __popc(odd));
	at = __shfl_sync(0xffffffff, at, 0);
	if (value & 1)
		out[at + __popc(odd & ((1u << lane) - 1))] = value;
}
