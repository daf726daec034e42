/* SPDX-License-Identifier: MIT */
/* The kernels of occupancy: one that needs little, one with 16 KiB of shared memory. */

extern "C" __global__ void light(int *out)
{
	out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
}

extern "C" __global__ void heavy(int *out)
{
	__shared__ int cells[4096];
	for (unsigned i = threadIdx.x; i < 4096; i += blockDim.x)
		cells[i] = i ^ blockIdx.x;
	__syncthreads();
	out[blockIdx.x * blockDim.x + threadIdx.x] = cells[4095 - threadIdx.x];
}
