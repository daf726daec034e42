/* SPDX-License-Identifier: MIT */
/* Products by the calls of cuBLAS: a handle, its settings, and the forms of GEMM. */
#include "tests/softgpu/cublas/blas.h"

#include <stdlib.h>

struct handle {
	CUstream stream;
	int pointer_mode, math_mode, atomics_mode;
};

/* Every function that is exported; they have no header here. */
#define CALL(name, params)      \
	EXPORT int name params; \
	EXPORT int name params

CALL(cublasCreate_v2, (struct handle * *handle))
{
	if (!handle)
		return BLAS_INVALID_VALUE;
	*handle = calloc(1, sizeof(**handle));
	return *handle ? BLAS_SUCCESS : BLAS_ALLOC_FAILED;
}

CALL(cublasDestroy_v2, (struct handle * handle))
{
	if (!handle)
		return BLAS_NOT_INITIALIZED;
	free(handle);
	return BLAS_SUCCESS;
}

CALL(cublasGetVersion_v2, (struct handle * handle, int *version))
{
	(void)handle;
	if (!version)
		return BLAS_INVALID_VALUE;
	*version = LIBRARY_VERSION;
	return BLAS_SUCCESS;
}

CALL(cublasGetProperty, (int which, int *value))
{
	if (!value || which < 0 || which > 2)
		return BLAS_INVALID_VALUE;
	*value = which == 0   ? LIBRARY_VERSION / 10000
	         : which == 1 ? LIBRARY_VERSION / 100 % 100
	                      : 0;
	return BLAS_SUCCESS;
}

EXPORT size_t cublasGetCudartVersion(void);
EXPORT size_t cublasGetCudartVersion(void)
{
	return LIBRARY_VERSION / 10;
}

EXPORT const char *cublasGetStatusString(int status);
EXPORT const char *cublasGetStatusString(int status)
{
	return status == BLAS_SUCCESS ? "success" : "not done by the software GPU";
}

EXPORT const char *cublasGetStatusName(int status);
EXPORT const char *cublasGetStatusName(int status)
{
	switch (status) {
	case BLAS_SUCCESS:
		return "CUBLAS_STATUS_SUCCESS";
	case BLAS_NOT_INITIALIZED:
		return "CUBLAS_STATUS_NOT_INITIALIZED";
	case BLAS_INVALID_VALUE:
		return "CUBLAS_STATUS_INVALID_VALUE";
	case BLAS_EXECUTION_FAILED:
		return "CUBLAS_STATUS_EXECUTION_FAILED";
	case BLAS_NOT_SUPPORTED:
		return "CUBLAS_STATUS_NOT_SUPPORTED";
	default:
		return "CUBLAS_STATUS_INTERNAL_ERROR";
	}
}

/* Settings that are kept, and of which products take note or need not. */
#define SETTING(set, get, type, field)                    \
	CALL(set, (struct handle * handle, type value))   \
	{                                                 \
		if (!handle)                              \
			return BLAS_NOT_INITIALIZED;      \
		handle->field = value;                    \
		return BLAS_SUCCESS;                      \
	}                                                 \
	CALL(get, (struct handle * handle, type * value)) \
	{                                                 \
		if (!handle)                              \
			return BLAS_NOT_INITIALIZED;      \
		if (!value)                               \
			return BLAS_INVALID_VALUE;        \
		*value = handle->field;                   \
		return BLAS_SUCCESS;                      \
	}
SETTING(cublasSetStream_v2, cublasGetStream_v2, CUstream, stream)
SETTING(cublasSetPointerMode_v2, cublasGetPointerMode_v2, int, pointer_mode)
SETTING(cublasSetMathMode, cublasGetMathMode, int, math_mode)
SETTING(cublasSetAtomicsMode, cublasGetAtomicsMode, int, atomics_mode)

/* Products need no memory of their own. */
CALL(cublasSetWorkspace_v2, (struct handle * handle, void *workspace, size_t size))
{
	(void)workspace, (void)size;
	return handle ? BLAS_SUCCESS : BLAS_NOT_INITIALIZED;
}

struct gemm {
	int trans_a, trans_b;
	long long m, n, k;
	const void *alpha, *beta;
	const void *a, *b;
	void *c;
	int type_a, type_b, type_c;
	long long lda, ldb, ldc;
	long long stride_a, stride_b, stride_c;
	int batches, compute;
	bool is_list;
};

static int gemm_run(const char *call, const struct handle *handle, const struct gemm *g)
{
	int scale = blas_scale_type(g->compute);
	if (!handle)
		return BLAS_NOT_INITIALIZED;
	if (g->m < 0 || g->n < 0 || g->k < 0 || g->batches < 0 || !g->alpha || !g->beta ||
	    g->trans_a < 0 || g->trans_a > OPERATION_C || g->trans_b < 0 ||
	    g->trans_b > OPERATION_C || g->lda < (g->trans_a == OPERATION_N ? g->m : g->k) ||
	    g->ldb < (g->trans_b == OPERATION_N ? g->k : g->n) || g->ldc < g->m)
		return BLAS_INVALID_VALUE;
	if (scale < 0 || g->type_a != g->type_b || handle->pointer_mode > 1)
		return blas_refuse(call, "of these types");
	struct product product = {
	    .a = blas_matrix(g->a, g->lda, g->trans_a, g->stride_a),
	    .b = blas_matrix(g->b, g->ldb, g->trans_b, g->stride_b),
	    .c = blas_matrix(g->c, g->ldc, OPERATION_N, g->stride_c),
	    .alpha = blas_factor(g->alpha, scale, handle->pointer_mode == 1),
	    .beta = blas_factor(g->beta, scale, handle->pointer_mode == 1),
	    .rows = g->m,
	    .columns = g->n,
	    .depth = g->k,
	    .batches = g->batches,
	};
	product.a.is_list = product.b.is_list = product.c.is_list = g->is_list;
	product.d = product.c;
	return blas_launch(&product, g->type_a, g->type_c, handle->stream);
}

#define SIZES                int trans_a, int trans_b, int m, int n, int k
#define GIVEN_SIZES          .trans_a = trans_a, .trans_b = trans_b, .m = m, .n = n, .k = k
#define GIVEN_PLACES         .a = a, .lda = lda, .b = b, .ldb = ldb, .c = c, .ldc = ldc
#define GIVEN_TYPES          .type_a = type_a, .type_b = type_b, .type_c = type_c, .compute = compute
#define ALL_TYPES(type, how) .type_a = (type), .type_b = (type), .type_c = (type), .compute = (how)

CALL(cublasGemmEx, (struct handle * handle, SIZES, const void *alpha, const void *a, int type_a,
                    int lda, const void *b, int type_b, int ldb, const void *beta, void *c,
                    int type_c, int ldc, int compute, int algorithm))
{
	(void)algorithm;
	return gemm_run(__func__, handle,
	                &(struct gemm){GIVEN_SIZES, GIVEN_PLACES, GIVEN_TYPES, .alpha = alpha,
	                               .beta = beta, .batches = 1});
}

CALL(cublasGemmStridedBatchedEx,
     (struct handle * handle, SIZES, const void *alpha, const void *a, int type_a, int lda,
      long long stride_a, const void *b, int type_b, int ldb, long long stride_b, const void *beta,
      void *c, int type_c, int ldc, long long stride_c, int batches, int compute, int algorithm))
{
	(void)algorithm;
	return gemm_run(__func__, handle,
	                &(struct gemm){GIVEN_SIZES, GIVEN_PLACES, GIVEN_TYPES, .alpha = alpha,
	                               .beta = beta, .stride_a = stride_a, .stride_b = stride_b,
	                               .stride_c = stride_c, .batches = batches});
}

CALL(cublasGemmBatchedEx,
     (struct handle * handle, SIZES, const void *alpha, const void *const *a, int type_a, int lda,
      const void *const *b, int type_b, int ldb, const void *beta, void *const *c, int type_c,
      int ldc, int batches, int compute, int algorithm))
{
	(void)algorithm;
	return gemm_run(__func__, handle,
	                &(struct gemm){GIVEN_SIZES, .a = a, .lda = lda, .b = b, .ldb = ldb,
	                               .c = (void *)c, .ldc = ldc, GIVEN_TYPES, .alpha = alpha,
	                               .beta = beta, .batches = batches, .is_list = true});
}

CALL(cublasSgemmEx,
     (struct handle * handle, SIZES, const float *alpha, const void *a, int type_a, int lda,
      const void *b, int type_b, int ldb, const float *beta, void *c, int type_c, int ldc))
{
	int compute = COMPUTE_32F;
	return gemm_run(__func__, handle,
	                &(struct gemm){GIVEN_SIZES, GIVEN_PLACES, GIVEN_TYPES, .alpha = alpha,
	                               .beta = beta, .batches = 1});
}

/* The forms whose matrices are all of one type. */
#define TYPED(letter, real, type, how)                                                             \
	CALL(cublas##letter##gemm_v2,                                                              \
	     (struct handle * handle, SIZES, const real *alpha, const real *a, int lda,            \
	      const real *b, int ldb, const real *beta, real *c, int ldc))                         \
	{                                                                                          \
		return gemm_run(__func__, handle,                                                  \
		                &(struct gemm){GIVEN_SIZES, GIVEN_PLACES, ALL_TYPES(type, how),    \
		                               .alpha = alpha, .beta = beta, .batches = 1});       \
	}                                                                                          \
	CALL(cublas##letter##gemmStridedBatched,                                                   \
	     (struct handle * handle, SIZES, const real *alpha, const real *a, int lda,            \
	      long long stride_a, const real *b, int ldb, long long stride_b, const real *beta,    \
	      real *c, int ldc, long long stride_c, int batches))                                  \
	{                                                                                          \
		return gemm_run(__func__, handle,                                                  \
		                &(struct gemm){GIVEN_SIZES, GIVEN_PLACES, ALL_TYPES(type, how),    \
		                               .alpha = alpha, .beta = beta, .stride_a = stride_a, \
		                               .stride_b = stride_b, .stride_c = stride_c,         \
		                               .batches = batches});                               \
	}                                                                                          \
	CALL(cublas##letter##gemmBatched,                                                          \
	     (struct handle * handle, SIZES, const real *alpha, const real *const *a, int lda,     \
	      const real *const *b, int ldb, const real *beta, real *const *c, int ldc,            \
	      int batches))                                                                        \
	{                                                                                          \
		return gemm_run(__func__, handle,                                                  \
		                &(struct gemm){GIVEN_SIZES, .a = a, .lda = lda, .b = b,            \
		                               .ldb = ldb, .c = (void *)c, .ldc = ldc,             \
		                               ALL_TYPES(type, how), .alpha = alpha, .beta = beta, \
		                               .batches = batches, .is_list = true});              \
	}
TYPED(S, float, TYPE_F32, COMPUTE_32F)
TYPED(D, double, TYPE_F64, COMPUTE_64F)
TYPED(H, uint16_t, TYPE_F16, COMPUTE_16F)

/* A matrix times a vector, whose elements lie STEP apart: a product with one column. */
static int gemv_run(const char *call, const struct handle *handle, int trans, long long m,
                    long long n, const void *alpha, const void *a, long long leading, const void *x,
                    long long x_step, const void *beta, void *y, long long y_step, int type)
{
	if (!handle)
		return BLAS_NOT_INITIALIZED;
	if (m < 0 || n < 0 || !alpha || !beta || trans < 0 || trans > OPERATION_C || leading < m ||
	    x_step == 0 || y_step == 0)
		return BLAS_INVALID_VALUE;
	if (x_step < 0 || y_step < 0 || handle->pointer_mode > 1)
		return blas_refuse(call, "backwards");
	struct product product = {
	    .a = blas_matrix(a, leading, trans, 0),
	    .b = {.address = x, .down = x_step},
	    .c = {.address = y, .down = y_step},
	    .d = {.address = y, .down = y_step},
	    .alpha = blas_factor(alpha, type, handle->pointer_mode == 1),
	    .beta = blas_factor(beta, type, handle->pointer_mode == 1),
	    .rows = trans == OPERATION_N ? m : n,
	    .columns = 1,
	    .depth = trans == OPERATION_N ? n : m,
	    .batches = 1,
	};
	return blas_launch(&product, type, type, handle->stream);
}

CALL(cublasSgemv_v2,
     (struct handle * handle, int trans, int m, int n, const float *alpha, const float *a, int lda,
      const float *x, int x_step, const float *beta, float *y, int y_step))
{
	return gemv_run(__func__, handle, trans, m, n, alpha, a, lda, x, x_step, beta, y, y_step,
	                TYPE_F32);
}

CALL(cublasDgemv_v2,
     (struct handle * handle, int trans, int m, int n, const double *alpha, const double *a,
      int lda, const double *x, int x_step, const double *beta, double *y, int y_step))
{
	return gemv_run(__func__, handle, trans, m, n, alpha, a, lda, x, x_step, beta, y, y_step,
	                TYPE_F64);
}
