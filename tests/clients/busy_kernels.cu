/* The kernel of gpu_busy: keeps the device busy for a time in proportion to `loops`. */

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
