/* SPDX-License-Identifier: MIT */
/* The mathematical functions of the CUDA library; see functions.h and tests/functions.c. */
#include "functions.h"

#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)

#define STORE(call, reference, ulp, absolute) *out++ = (call);

extern "C" __global__ void functions(const float *in, float *out, int cases)
{
	float x = in[THREAD];
	out += THREAD * cases;
	FUNCTION_CASES(STORE)
}

#define STORE_DOUBLE(call, reference, ulp) *out++ = (call);

extern "C" __global__ void double_functions(const double *in, double *out, int cases)
{
	double x = in[THREAD];
	out += THREAD * cases;
	DOUBLE_FUNCTION_CASES(STORE_DOUBLE)
}
