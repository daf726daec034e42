/* SPDX-License-Identifier: MIT */
/* The kernels of conditional: the device itself decides how often a part of a graph runs. */

/* x becomes x * 1664525 + i + salt */
extern "C" __global__ void stir(unsigned *x, unsigned count, unsigned salt)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count)
		x[i] = x[i] * 1664525u + i + salt;
}

/* Takes one round, and says whether more are left, and which way the next one goes. */
extern "C" __global__ void decide(unsigned *rounds, const unsigned *x,
                                  cudaGraphConditionalHandle again, cudaGraphConditionalHandle way)
{
	unsigned left = *rounds ? *rounds - 1 : 0;
	*rounds = left;
	cudaGraphSetConditional(way, x[0] % 3);
	cudaGraphSetConditional(again, left != 0);
}
