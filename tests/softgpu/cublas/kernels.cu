/* SPDX-License-Identifier: MIT */
/*
 * Products of matrices for the software GPU's cuBLAS: C = epilogue(alpha * A * B + beta * C). A
 * thread has four elements of a row of C; each is a sum in the order of k, with one rounding for
 * each product and sum (fma). `make ptx` makes kernels.ptx of it.
 */
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/softgpu/cublas/product.h"

template <typename T> static __device__ T *matrix(const struct product_matrix &what, int batch)
{
	T *base = (T *)what.address;
	if (what.is_list)
		return ((T **)what.address)[batch];
	return base + what.between * batch;
}

/* A factor that the host gave, or that is in device memory. */
template <typename Sum> static __device__ Sum factor(const struct product_factor &what)
{
	if (!what.address)
		return (Sum)what.value;
	switch (what.type) {
	case TYPE_F64:
		return (Sum) * (const double *)what.address;
	case TYPE_F16:
		return (Sum)(float)*(const __half *)what.address;
	default:
		return (Sum) * (const float *)what.address;
	}
}

static __device__ float bias_of(const struct product &p, long long row)
{
	switch (p.bias_type) {
	case TYPE_F64:
		return (float)((const double *)p.bias)[row];
	case TYPE_F16:
		return (float)((const __half *)p.bias)[row];
	case TYPE_BF16:
		return (float)((const __nv_bfloat16 *)p.bias)[row];
	default:
		return ((const float *)p.bias)[row];
	}
}

static __device__ float multiply_add(float a, float b, float c)
{
	return fmaf(a, b, c);
}

static __device__ double multiply_add(double a, double b, double c)
{
	return fma(a, b, c);
}

/* By tanh, as cuBLAS documents it; a function of its own, as it is long. */
static __noinline__ __device__ float gelu(float x)
{
	float inner = 0.7978845608f * fmaf(0.044715f * x * x, x, x);
	return 0.5f * x * (1.0f + tanhf(inner));
}

template <typename From, typename To, typename Sum>
static __device__ void multiply(const product &p)
{
	enum { COLUMNS = 4 };
	long long row = blockIdx.x * (long long)blockDim.x + threadIdx.x;
	long long first = blockIdx.y * (long long)COLUMNS;
	if (row >= p.rows)
		return;
	const From *a = matrix<const From>(p.a, blockIdx.z) + row * p.a.down;
	const From *b = matrix<const From>(p.b, blockIdx.z);
	Sum sums[COLUMNS] = {};
	const From *columns[COLUMNS];
	for (int c = 0; c < COLUMNS; c++) {
		long long column = first + c < p.columns ? first + c : p.columns - 1;
		columns[c] = b + column * p.b.along;
	}
#pragma unroll 1
	for (long long k = 0; k < p.depth; k++) {
		Sum left = (Sum)*a;
		a += p.a.along;
		for (int c = 0; c < COLUMNS; c++) {
			sums[c] = multiply_add(left, (Sum)*columns[c], sums[c]);
			columns[c] += p.b.down;
		}
	}
	Sum alpha = factor<Sum>(p.alpha), beta = factor<Sum>(p.beta);
	const To *before = matrix<const To>(p.c, blockIdx.z);
	To *after = matrix<To>(p.d, blockIdx.z);
	for (int c = 0; c < COLUMNS && first + c < p.columns; c++) {
		Sum value = alpha * sums[c];
		/* A factor of zero: C is not read, and may hold anything. */
		if (beta != 0)
			value = multiply_add(
			    beta, (Sum)before[row * p.c.down + (first + c) * p.c.along], value);
		if (p.epilogue & EPILOGUE_BIAS)
			value += (Sum)bias_of(p, row);
		if (p.epilogue & EPILOGUE_RELU)
			value = value > 0 ? value : (Sum)0;
		if (p.epilogue & EPILOGUE_GELU)
			value = (Sum)gelu((float)value);
		after[row * p.d.down + (first + c) * p.d.along] = (To)value;
	}
}

#define KERNEL(name, From, To, Sum)                      \
	extern "C" __global__ void name(const product p) \
	{                                                \
		multiply<From, To, Sum>(p);              \
	}
KERNEL(product_f32_f32, float, float, float)
KERNEL(product_f64_f64, double, double, double)
KERNEL(product_f16_f16, __half, __half, float)
KERNEL(product_f16_f32, __half, float, float)
KERNEL(product_bf16_bf16, __nv_bfloat16, __nv_bfloat16, float)
KERNEL(product_bf16_f32, __nv_bfloat16, float, float)
