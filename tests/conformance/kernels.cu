/* SPDX-License-Identifier: MIT */
/* The kernels of the transcript programs. */

/* Each loop waits for the one before: a few nanoseconds each, on any device. */
extern "C" __global__ void spin(unsigned *sink, unsigned loops)
{
	unsigned x = threadIdx.x;
#pragma unroll 1
	for (unsigned i = 0; i < loops; i++)
		x = x * 1664525u + 1013904223u;
	*sink = x;
}

/* Adds one. */
extern "C" __global__ void add_one(unsigned *value)
{
	*value += 1;
}

/* Parameters of several sizes, and static shared memory. */
struct three_bytes {
	char bytes[3];
};

extern "C" __global__ void parameters(char a, double b, short c, three_bytes d, void *e)
{
	__shared__ double cells[16];
	cells[threadIdx.x % 16] = a + b + c + d.bytes[0];
	__syncthreads();
	if (e)
		*(double *)e = cells[(threadIdx.x + 1) % 16];
}

/* Writes where it is told to. */
extern "C" __global__ void store(unsigned *where)
{
	*where = 1;
}

extern "C" {
__device__ int variable[7];
__constant__ double constant = 2.5;
}
