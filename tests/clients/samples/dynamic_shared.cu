/* SPDX-License-Identifier: MIT */
/* The kernel of dynamic_shared: reverses pieces as long as shared memory holds. */

extern __shared__ int cells[];

extern "C" __global__ void reverse(const int *in, int *out, unsigned length)
{
	const int *from = in + blockIdx.x * length;
	int *to = out + blockIdx.x * length;

	for (unsigned i = threadIdx.x; i < length; i += blockDim.x)
		cells[i] = from[i];
	__syncthreads();
	for (unsigned i = threadIdx.x; i < length; i += blockDim.x)
		to[i] = cells[length - 1 - i];
}

/* How much there is, as the device sees it. */
extern "C" __global__ void dynamic_bytes(unsigned *out)
{
	unsigned size;
	asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(size));
	*out = size;
}
