/* SPDX-License-Identifier: MIT */
/*
 * A product of matrices as the kernels take it. An element of row i and column j is `down` * i +
 * `along` * j elements behind the first one. So transposed matrices, and those stored by rows, are
 * no cases of their own.
 */
#ifndef SOFTGPU_CUBLAS_PRODUCT_H
#define SOFTGPU_CUBLAS_PRODUCT_H

/* As in cudaDataType. */
enum { TYPE_F32 = 0, TYPE_F64 = 1, TYPE_F16 = 2, TYPE_BF16 = 14 };
/* As in cublasLtEpilogue_t, which has 1 for none. */
enum { EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 };

struct product_matrix {
	const void *address;   /* of the first matrix, or of a list of addresses */
	long long down, along; /* elements */
	long long between;     /* elements from one matrix of a batch to the next */
	int is_list;
};

struct product_factor {
	const void *address; /* in device memory; NULL: the value */
	double value;
	int type;
};

struct product {
	struct product_matrix a, b, c, d;
	struct product_factor alpha, beta;
	const void *bias; /* an element for each row */
	long long rows, columns, depth;
	int batches;
	int bias_type, epilogue;
};

#endif
