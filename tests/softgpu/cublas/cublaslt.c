/* SPDX-License-Identifier: MIT */
/*
 * Products by the calls of cuBLASLt: descriptions, their attributes, and the product itself with
 * bias, ReLU and GELU behind it. There is one algorithm, which needs no workspace.
 */
#include "tests/softgpu/cublas/blas.h"

#include <stdlib.h>
#include <string.h>

#define CALL(name, params)      \
	EXPORT int name params; \
	EXPORT int name params

/* A description fits into the header's opaque structures of 8 and of 23 words. */
struct layout {
	int32_t type, order, batches;
	int64_t rows, columns, leading, between;
};
struct operation {
	int32_t compute, scale, pointer_mode, trans_a, trans_b, epilogue, bias_type;
	const void *bias;
};
_Static_assert(sizeof(struct layout) <= 8 * 8 && sizeof(struct operation) <= 23 * 8, "opaque");

/* An attribute: its number in the header, and the field that has it. */
struct attribute {
	int number;
	size_t offset, size;
};
#define FIELD(structure, number, field)                                                           \
	{                                                                                         \
		number, offsetof(struct structure, field), sizeof(((struct structure *)0)->field) \
	}
static const struct attribute layout_attributes[] = {
    FIELD(layout, 0, type),    FIELD(layout, 1, order),
    FIELD(layout, 2, rows),    FIELD(layout, 3, columns),
    FIELD(layout, 4, leading), FIELD(layout, 5, batches),
    FIELD(layout, 6, between), {-1, 0, 0},
};
static const struct attribute operation_attributes[] = {
    FIELD(operation, 0, compute),
    FIELD(operation, 1, scale),
    FIELD(operation, 2, pointer_mode),
    FIELD(operation, 3, trans_a),
    FIELD(operation, 4, trans_b),
    FIELD(operation, 7, epilogue),
    FIELD(operation, 8, bias),
    FIELD(operation, 26, bias_type),
    {-1, 0, 0},
};

static const struct attribute *lt_attribute(const struct attribute *all, int number)
{
	while (all->number >= 0 && all->number != number)
		all++;
	return all->number == number ? all : NULL;
}

/* An attribute that products take no note of may be set to 0 only, its default. */
static int lt_set(const char *call, void *structure, const struct attribute *all, int number,
                  const void *value, size_t size)
{
	const struct attribute *attribute = lt_attribute(all, number);
	if (!structure || !value)
		return BLAS_INVALID_VALUE;
	if (!attribute) {
		for (size_t i = 0; i < size; i++) {
			if (((const char *)value)[i])
				return blas_refuse(call, "of this attribute");
		}
		return BLAS_SUCCESS;
	}
	if (size != attribute->size)
		return BLAS_INVALID_VALUE;
	memcpy((char *)structure + attribute->offset, value, size);
	return BLAS_SUCCESS;
}

static int lt_get(const char *call, const void *structure, const struct attribute *all, int number,
                  void *value, size_t size, size_t *written)
{
	const struct attribute *attribute = lt_attribute(all, number);
	if (!structure || (!value && !written))
		return BLAS_INVALID_VALUE;
	if (!attribute)
		return blas_refuse(call, "of this attribute");
	if (written)
		*written = attribute->size;
	if (value && size < attribute->size)
		return BLAS_INVALID_VALUE;
	if (value)
		memcpy(value, (const char *)structure + attribute->offset, attribute->size);
	return BLAS_SUCCESS;
}

CALL(cublasLtCreate, (void **handle))
{
	if (!handle)
		return BLAS_INVALID_VALUE;
	*handle = calloc(1, 64);
	return *handle ? BLAS_SUCCESS : BLAS_ALLOC_FAILED;
}

CALL(cublasLtDestroy, (void *handle))
{
	free(handle);
	return BLAS_SUCCESS;
}

EXPORT size_t cublasLtGetVersion(void);
EXPORT size_t cublasLtGetVersion(void)
{
	return LIBRARY_VERSION;
}

EXPORT size_t cublasLtGetCudartVersion(void);
EXPORT size_t cublasLtGetCudartVersion(void)
{
	return LIBRARY_VERSION / 10;
}

CALL(cublasLtGetProperty, (int which, int *value))
{
	if (!value || which < 0 || which > 2)
		return BLAS_INVALID_VALUE;
	*value = which == 0   ? LIBRARY_VERSION / 10000
	         : which == 1 ? LIBRARY_VERSION / 100 % 100
	                      : 0;
	return BLAS_SUCCESS;
}

EXPORT const char *cublasLtGetStatusString(int status);
EXPORT const char *cublasLtGetStatusString(int status)
{
	return status == BLAS_SUCCESS ? "success" : "not done by the software GPU";
}

EXPORT const char *cublasLtGetStatusName(int status);
EXPORT const char *cublasLtGetStatusName(int status)
{
	return status == BLAS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
	       : status == BLAS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
	                                      : "CUBLAS_STATUS_INVALID_VALUE";
}

CALL(cublasLtMatrixLayoutInit_internal, (struct layout * layout, size_t size, int type,
                                         uint64_t rows, uint64_t columns, int64_t leading))
{
	if (!layout || size < sizeof(*layout))
		return BLAS_INVALID_VALUE;
	*layout = (struct layout){.type = type,
	                          .batches = 1,
	                          .rows = (int64_t)rows,
	                          .columns = (int64_t)columns,
	                          .leading = leading};
	return BLAS_SUCCESS;
}

CALL(cublasLtMatrixLayoutCreate,
     (struct layout * *layout, int type, uint64_t rows, uint64_t columns, int64_t leading))
{
	if (!layout)
		return BLAS_INVALID_VALUE;
	*layout = malloc(sizeof(**layout));
	if (!*layout)
		return BLAS_ALLOC_FAILED;
	return cublasLtMatrixLayoutInit_internal(*layout, sizeof(**layout), type, rows, columns,
	                                         leading);
}

CALL(cublasLtMatrixLayoutDestroy, (struct layout * layout))
{
	free(layout);
	return BLAS_SUCCESS;
}

CALL(cublasLtMatrixLayoutSetAttribute,
     (struct layout * layout, int number, const void *value, size_t size))
{
	return lt_set(__func__, layout, layout_attributes, number, value, size);
}

CALL(cublasLtMatrixLayoutGetAttribute,
     (const struct layout *layout, int number, void *value, size_t size, size_t *written))
{
	return lt_get(__func__, layout, layout_attributes, number, value, size, written);
}

CALL(cublasLtMatmulDescInit_internal,
     (struct operation * operation, size_t size, int compute, int scale))
{
	if (!operation || size < sizeof(*operation))
		return BLAS_INVALID_VALUE;
	*operation =
	    (struct operation){.compute = compute, .scale = scale, .epilogue = 1, .bias_type = -1};
	return BLAS_SUCCESS;
}

CALL(cublasLtMatmulDescCreate, (struct operation * *operation, int compute, int scale))
{
	if (!operation)
		return BLAS_INVALID_VALUE;
	*operation = malloc(sizeof(**operation));
	if (!*operation)
		return BLAS_ALLOC_FAILED;
	return cublasLtMatmulDescInit_internal(*operation, sizeof(**operation), compute, scale);
}

CALL(cublasLtMatmulDescDestroy, (struct operation * operation))
{
	free(operation);
	return BLAS_SUCCESS;
}

CALL(cublasLtMatmulDescSetAttribute,
     (struct operation * operation, int number, const void *value, size_t size))
{
	return lt_set(__func__, operation, operation_attributes, number, value, size);
}

CALL(cublasLtMatmulDescGetAttribute,
     (const struct operation *operation, int number, void *value, size_t size, size_t *written))
{
	return lt_get(__func__, operation, operation_attributes, number, value, size, written);
}

/* A preference is a wish, and there is nothing to choose from. */
CALL(cublasLtMatmulPreferenceInit_internal, (void *preference, size_t size))
{
	if (!preference)
		return BLAS_INVALID_VALUE;
	memset(preference, 0, size);
	return BLAS_SUCCESS;
}

CALL(cublasLtMatmulPreferenceCreate, (void **preference))
{
	return cublasLtCreate(preference);
}

CALL(cublasLtMatmulPreferenceDestroy, (void *preference))
{
	return cublasLtDestroy(preference);
}

CALL(cublasLtMatmulPreferenceSetAttribute,
     (void *preference, int number, const void *value, size_t size))
{
	(void)number, (void)size;
	return preference && value ? BLAS_SUCCESS : BLAS_INVALID_VALUE;
}

/* The places of op(matrix), whose layout says whether it is stored by columns or by rows. */
static struct product_matrix lt_matrix(const void *address, const struct layout *layout,
                                       int operation)
{
	bool is_by_rows = layout->order == 1, is_transposed = operation != OPERATION_N;
	return blas_matrix(address, layout->leading,
	                   is_by_rows != is_transposed ? OPERATION_T : OPERATION_N,
	                   layout->between);
}

static int lt_describe(const char *call, const struct operation *o, const struct layout *a,
                       const struct layout *b, const struct layout *c, const struct layout *d,
                       struct product *product)
{
	const int known = EPILOGUE_RELU | EPILOGUE_BIAS | EPILOGUE_GELU | 1;
	if (!o || !a || !b || !c || !d)
		return BLAS_INVALID_VALUE;
	int64_t depth = o->trans_a == OPERATION_N ? a->columns : a->rows;
	if (d->rows != (o->trans_a == OPERATION_N ? a->rows : a->columns) ||
	    d->columns != (o->trans_b == OPERATION_N ? b->columns : b->rows) ||
	    depth != (o->trans_b == OPERATION_N ? b->rows : b->columns) || c->rows != d->rows ||
	    c->columns != d->columns)
		return BLAS_INVALID_VALUE;
	if (blas_scale_type(o->compute) < 0 || blas_scale_type(o->compute) != o->scale ||
	    o->pointer_mode > 1 || a->type != b->type || c->type != d->type)
		return blas_refuse(call, "of these types");
	if (a->order > 1 || b->order > 1 || c->order > 1 || d->order > 1)
		return blas_refuse(call, "of this order of elements");
	if (o->epilogue & ~known)
		return blas_refuse(call, "with this epilogue");
	*product = (struct product){
	    .a = lt_matrix(NULL, a, o->trans_a),
	    .b = lt_matrix(NULL, b, o->trans_b),
	    .c = lt_matrix(NULL, c, OPERATION_N),
	    .d = lt_matrix(NULL, d, OPERATION_N),
	    .bias = o->bias,
	    .rows = d->rows,
	    .columns = d->columns,
	    .depth = depth,
	    .batches = d->batches,
	    .bias_type = o->bias_type < 0 ? d->type : o->bias_type,
	    .epilogue = o->epilogue,
	};
	return BLAS_SUCCESS;
}

struct heuristic {
	uint64_t algorithm[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

CALL(cublasLtMatmulAlgoGetHeuristic,
     (void *handle, const struct operation *operation, const struct layout *a,
      const struct layout *b, const struct layout *c, const struct layout *d,
      const void *preference, int most, struct heuristic *results, int *count))
{
	struct product product;
	(void)handle, (void)preference;
	if (most < 1 || !results || !count)
		return BLAS_INVALID_VALUE;
	*count = 0;
	int status = lt_describe(__func__, operation, a, b, c, d, &product);
	if (status != BLAS_SUCCESS)
		return status;
	results[0] = (struct heuristic){.waves = 1};
	*count = 1;
	return BLAS_SUCCESS;
}

CALL(cublasLtMatmulAlgoCheck,
     (void *handle, const struct operation *operation, const struct layout *a,
      const struct layout *b, const struct layout *c, const struct layout *d,
      const uint64_t *algorithm, struct heuristic *result))
{
	int count;
	(void)algorithm;
	return cublasLtMatmulAlgoGetHeuristic(handle, operation, a, b, c, d, NULL, 1, result,
	                                      &count);
}

CALL(cublasLtMatmul,
     (void *handle, const struct operation *operation, const void *alpha, const void *a,
      const struct layout *a_layout, const void *b, const struct layout *b_layout, const void *beta,
      const void *c, const struct layout *c_layout, void *d, const struct layout *d_layout,
      const void *algorithm, void *workspace, size_t workspace_size, CUstream stream))
{
	struct product product = {.bias = NULL};
	(void)handle, (void)algorithm, (void)workspace, (void)workspace_size;
	if (!alpha || !beta)
		return BLAS_INVALID_VALUE;
	int status =
	    lt_describe(__func__, operation, a_layout, b_layout, c_layout, d_layout, &product);
	if (status != BLAS_SUCCESS)
		return status;
	if ((product.epilogue & EPILOGUE_BIAS) && !product.bias)
		return BLAS_INVALID_VALUE;
	product.a.address = a;
	product.b.address = b;
	product.c.address = c;
	product.d.address = d;
	product.alpha = blas_factor(alpha, operation->scale, operation->pointer_mode == 1);
	product.beta = blas_factor(beta, operation->scale, operation->pointer_mode == 1);
	return blas_launch(&product, a_layout->type, d_layout->type, stream);
}
