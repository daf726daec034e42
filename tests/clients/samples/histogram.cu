/* SPDX-License-Identifier: MIT */
/* The kernels of histogram: counting bytes with atomics in global memory, or in shared memory. */

#define BINS 256

extern "C" __global__ void histogram_global(const unsigned char *in, unsigned *bins, unsigned count)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += blockDim.x * gridDim.x)
		atomicAdd(&bins[in[i]], 1u);
}

extern "C" __global__ void histogram_shared(const unsigned char *in, unsigned *bins, unsigned count)
{
	__shared__ unsigned own[BINS];

	for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
		own[i] = 0;
	__syncthreads();
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += blockDim.x * gridDim.x)
		atomicAdd(&own[in[i]], 1u);
	__syncthreads();
	for (unsigned i = threadIdx.x; i < BINS; i += blockDim.x)
		if (own[i])
			atomicAdd(&bins[i], own[i]);
}

/* A lock held by one thread at a time, taken with compare-and-swap: lanes of a warp compete. */
extern "C" __global__ void histogram_locked(const unsigned char *in, unsigned *bins, unsigned count,
                                            unsigned *lock)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	bool done = i >= count;

	while (!done) {
		if (atomicCAS(lock, 0u, 1u) == 0) {
			__threadfence();
			volatile unsigned *bin = &bins[in[i]];
			*bin = *bin + 1;
			__threadfence();
			atomicExch(lock, 0u);
			done = true;
		}
	}
}
