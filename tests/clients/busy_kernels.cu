/* SPDX-License-Identifier: MIT */
/* The kernels of gpu_busy and pace_load. */

/* Keeps the device busy for a time in proportion to `loops`. */
extern "C" __global__ void spin(unsigned *sink, unsigned loops)
{
	unsigned x = threadIdx.x;
#pragma unroll 1
	for (unsigned i = 0; i < loops; i++)
		x = x * 1664525u + 1013904223u;
	/* Never true for what the loop yields in practice, but the compiler cannot know. */
	if (x == 0x5bd1e995u)
		*sink = x;
}

/* The same, or `loops` naps of so many nanoseconds; and counts itself, once per launch. */
extern "C" __global__ void work(unsigned *done, unsigned loops, unsigned nap_ns)
{
	unsigned x = threadIdx.x;
#pragma unroll 1
	for (unsigned i = 0; i < loops; i++) {
		if (nap_ns)
			__nanosleep(nap_ns);
		x = x * 1664525u + 1013904223u;
	}
	if (x == 0x5bd1e995u)
		done[1] = x;
	if (blockIdx.x == 0 && threadIdx.x == 0)
		atomicAdd(done, 1);
}

/*
 * Waits, as an all-reduce does, until the kernels of all ranks have come to the round: each has a
 * word of its own, one in each `apart` words. A launch of one thread.
 */
extern "C" __global__ void meet(volatile unsigned *rounds, unsigned apart, unsigned rank,
                                unsigned ranks, unsigned round, unsigned nap_ns)
{
	rounds[rank * apart] = round;
	__threadfence_system();
	for (unsigned i = 0; i < ranks; i++)
		while ((int)(rounds[i * apart] - round) < 0)
			if (nap_ns)
				__nanosleep(nap_ns);
}
