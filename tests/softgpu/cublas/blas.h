/* SPDX-License-Identifier: MIT */
/*
 * A small cuBLAS and cuBLASLt over any driver called libcuda.so.1: products of matrices alone.
 * Types and values are those of the libraries' headers of CUDA 12 and 13, which agree.
 */
#ifndef SOFTGPU_CUBLAS_BLAS_H
#define SOFTGPU_CUBLAS_BLAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "tests/softgpu/cublas/product.h"

#define EXPORT __attribute__((visibility("default")))

enum blas_status {
	BLAS_SUCCESS = 0,
	BLAS_NOT_INITIALIZED = 1,
	BLAS_ALLOC_FAILED = 3,
	BLAS_INVALID_VALUE = 7,
	BLAS_EXECUTION_FAILED = 13,
	BLAS_NOT_SUPPORTED = 15,
};

enum blas_operation { OPERATION_N = 0, OPERATION_T = 1, OPERATION_C = 2 };

/* How products are summed up (cublasComputeType_t). */
enum blas_compute {
	COMPUTE_16F = 64,
	COMPUTE_16F_PEDANTIC = 65,
	COMPUTE_32F = 68,
	COMPUTE_32F_PEDANTIC = 69,
	COMPUTE_64F = 70,
	COMPUTE_64F_PEDANTIC = 71,
	COMPUTE_32F_FAST_16F = 74,
	COMPUTE_32F_FAST_16BF = 75,
	COMPUTE_32F_FAST_TF32 = 77,
};

#define LIBRARY_VERSION 130000 /* as cublasGetVersion_v2() answers */

/* The type of alpha and beta for COMPUTE; -1: not supported here. */
int blas_scale_type(int compute);
/* A factor of that type at ADDRESS on the host, or in device memory. */
struct product_factor blas_factor(const void *address, int type, bool is_on_device);
/* The places of a matrix that is stored by columns, LEADING elements each, as OPERATION has it. */
struct product_matrix blas_matrix(const void *address, long long leading, int operation,
                                  long long between);
/* Launches a product of matrices of these types on STREAM. */
int blas_launch(const struct product *product, int from_type, int to_type, CUstream stream);
/* Says once that CALL is not supported for the reason, and answers that. */
int blas_refuse(const char *call, const char *reason);

#endif
