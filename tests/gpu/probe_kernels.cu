/* SPDX-License-Identifier: MIT */
/* The kernels of the probe. `make ptx` turns this file into probe_kernels.ptx. */

extern "C" __global__ void add_to_words(unsigned *words, unsigned count, unsigned value)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += gridDim.x * blockDim.x)
		words[i] += value;
}

/* Counters: every thread adds 1. */

extern "C" __global__ void atomic_add_u32(unsigned *counter)
{
	atomicAdd(counter, 1u);
}

extern "C" __global__ void atomic_add_u64(unsigned long long *counter)
{
	atomicAdd(counter, 1ull);
}

extern "C" __global__ void atomic_add_f32(float *counter)
{
	atomicAdd(counter, 1.0f);
}

extern "C" __global__ void atomic_cas_u32(unsigned *counter)
{
	unsigned seen = *(volatile unsigned *)counter, expected;
	do {
		expected = seen;
		seen = atomicCAS(counter, expected, expected + 1);
	} while (seen != expected);
}

extern "C" __global__ void atomic_cas_u64(unsigned long long *counter)
{
	unsigned long long seen = *(volatile unsigned long long *)counter, expected;
	do {
		expected = seen;
		seen = atomicCAS(counter, expected, expected + 1);
	} while (seen != expected);
}

/* Bandwidth: 16 bytes per access. */

extern "C" __global__ void read_all(const uint4 *from, unsigned count, unsigned *sum)
{
	unsigned mine = 0;
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += gridDim.x * blockDim.x)
		mine += from[i].x ^ from[i].y ^ from[i].z ^ from[i].w;
	if (mine == 0x5bd1e995u) /* never for zeroes, but the compiler cannot know */
		*sum = mine;
}

extern "C" __global__ void write_all(uint4 *to, unsigned count)
{
	for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count;
	     i += gridDim.x * blockDim.x)
		to[i] = make_uint4(0, 0, 0, 0);
}

/* Runs until the host says go. */

extern "C" __global__ void wait_for(const volatile unsigned *go)
{
	while (*go == 0)
		;
}
