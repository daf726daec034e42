/* SPDX-License-Identifier: MIT */
/* The kernels of arithmetic: double precision, and halves alone and in pairs. */
#include <cuda_fp16.h>

/* Five results per pair of numbers: IEEE asks for every bit of each. */
extern "C" __global__ void doubles(const double *x, const double *y, double *out, unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= count)
		return;
	out[5 * i] = __dadd_rn(x[i], y[i]);
	out[5 * i + 1] = __dmul_rn(x[i], y[i]);
	out[5 * i + 2] = __ddiv_rn(x[i], y[i]);
	out[5 * i + 3] = __fma_rn(x[i], y[i], x[i]);
	out[5 * i + 4] = __dsqrt_rn(fabs(x[i]));
}

/* Conversion from float, sum, product, fused multiply-add, and conversion back. */
extern "C" __global__ void halves(const float *x, const float *y, unsigned short *out, float *back,
                                  unsigned count)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= count)
		return;
	__half a = __float2half_rn(x[i]), b = __float2half_rn(y[i]);
	__half fma = __hfma(a, b, a);
	out[3 * i] = __half_as_ushort(__hadd_rn(a, b));
	out[3 * i + 1] = __half_as_ushort(__hmul_rn(a, b));
	out[3 * i + 2] = __half_as_ushort(fma);
	back[i] = __half2float(fma);
}

/* Two at a time: each thread adds `step` to its pair, `rounds` times. */
extern "C" __global__ void half_pairs(__half2 *pairs, unsigned count, float step, unsigned rounds)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= count)
		return;
	__half2 value = pairs[i], add = __float2half2_rn(step);
	for (unsigned round = 0; round < rounds; round++)
		value = __hadd2(value, add);
	pairs[i] = value;
}

extern "C" __global__ void atomic_doubles(double *sum, double value)
{
	atomicAdd(sum, value);
}
