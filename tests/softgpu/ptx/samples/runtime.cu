/* SPDX-License-Identifier: MIT */
/*
 * Things that need more than instructions: grid barriers, assertions, printing, structures by
 * value.
 */
#include <cooperative_groups.h>
#include <cassert>
#include <cstdio>

extern "C" __global__ void grid_sync(int *x, int *y)
{
	auto grid = cooperative_groups::this_grid();
	x[grid.thread_rank()] = grid.thread_rank() + 1;
	grid.sync();
	y[grid.thread_rank()] = x[grid.size() - 1 - grid.thread_rank()];
}

extern "C" __global__ void assert_small(const int *x)
{
	assert(x[threadIdx.x] < 10);
}

extern "C" __global__ void print(int n)
{
	if (threadIdx.x < 2)
		printf("thread %d of %d: %s %.2f %llx%%\n", threadIdx.x, n, "pi is", 3.14159,
		       0x123456789abcULL);
}

struct big {
	int a[20];
};

__device__ __noinline__ int by_value(struct big b, int i)
{
	b.a[i & 7] += 5;
	return b.a[i] + b.a[i & 3];
}

extern "C" __global__ void structures(struct big b, int *out)
{
	b.a[3] = threadIdx.x;
	out[threadIdx.x] = by_value(b, threadIdx.x % 20);
}

extern "C" __global__ void wide(const unsigned __int128 *x, unsigned __int128 *y)
{
	int i = threadIdx.x;
	y[i] = x[i] * x[i + 1] + x[i + 2] - (x[i] >> 3);
}

extern "C" __global__ void shared_atomics(const int *x, int *histogram, int n)
{
	__shared__ int bins[16];
	if (threadIdx.x < 16)
		bins[threadIdx.x] = 0;
	__syncthreads();
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		atomicAdd(&bins[x[i] & 15], 1);
	__syncthreads();
	if (threadIdx.x < 16)
		atomicAdd(&histogram[threadIdx.x], bins[threadIdx.x]);
}

/* The classic lock: the lane that got it goes on, the others of its warp spin. */
extern "C" __global__ void classic_lock(int *lock, int *value)
{
	while (atomicCAS(lock, 0, 1) != 0)
		;
	*(volatile int *)value += 1;
	__threadfence();
	atomicExch(lock, 0);
}

extern "C" __global__ void no_wait(int *out)
{
	/* Only half of the threads come: the others have left. */
	if (threadIdx.x >= blockDim.x / 2)
		return;
	out[threadIdx.x] = 1;
	__syncthreads();
	out[threadIdx.x] += out[blockDim.x / 2 - 1 - threadIdx.x];
}
