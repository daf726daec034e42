/* SPDX-License-Identifier: MIT */
/* Batches of copies: checked as a whole, then queued one after the other. */
#include "tests/softgpu/copy.h"

struct batch_copy {
	struct copy_side to, from;
	struct copy_shape shape;
	CUmemcpySrcAccessOrder order;
	unsigned int flags;
};

/* Reads copy number `index` of what the caller was given. */
typedef CUresult (*batch_reader)(const void *batch, size_t index, struct batch_copy *copy);

static CUresult check(struct batch_copy *copy)
{
	if (copy->order < CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
	    copy->order > CU_MEMCPY_SRC_ACCESS_ORDER_ANY ||
	    (copy->flags & ~(unsigned int)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE))
		return CUDA_ERROR_INVALID_VALUE;
	return copy_check(&copy->to, &copy->from, &copy->shape);
}

/* Sources on the host that the call must have read, or that are read in the order of the stream. */
static enum copy_timing timing_of(const struct batch_copy *copy)
{
	return copy->order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ? COPY_READ_NOW
	                                                                 : COPY_IN_ORDER;
}

static CUresult submit_batch(const char *call, CUstream handle, batch_reader read,
                             const void *batch, size_t count, size_t *failed)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (failed)
		*failed = SIZE_MAX; /* no copy in particular */
	if (handle == NULL || handle == CU_STREAM_LEGACY)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct stream *stream = stream_find(context, handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	for (int checked = 0; checked < 2; checked++) {
		for (size_t i = 0; i < count; i++) {
			struct batch_copy copy;
			result = read(batch, i, &copy);
			if (result == CUDA_SUCCESS)
				result = checked ? copy_submit(stream, copy.to, copy.from,
				                               copy.shape, timing_of(&copy))
				                 : check(&copy);
			if (result != CUDA_SUCCESS) {
				if (failed)
					*failed = i;
				return leave(result);
			}
		}
	}
	return leave(CUDA_SUCCESS);
}

struct plain_batch {
	const CUdeviceptr *to, *from;
	const size_t *sizes;
	const CUmemcpyAttributes *attributes;
	const size_t *first; /* the copy each of the attributes begins with */
	size_t attribute_count;
};

static CUresult read_plain(const void *cookie, size_t index, struct batch_copy *copy)
{
	const struct plain_batch *batch = cookie;
	size_t attribute = 0;
	while (attribute + 1 < batch->attribute_count && batch->first[attribute + 1] <= index)
		attribute++;
	*copy = (struct batch_copy){
	    .to = {.address = batch->to[index]},
	    .from = {.address = batch->from[index]},
	    .shape = {.width = batch->sizes[index], .height = 1, .depth = 1},
	    .order = batch->attributes[attribute].srcAccessOrder,
	    .flags = batch->attributes[attribute].flags,
	};
	return CUDA_SUCCESS;
}

static CUresult cuMemcpyBatchAsync_on(const char *call, CUdeviceptr *to, CUdeviceptr *from,
                                      size_t *sizes, size_t count, CUmemcpyAttributes *attributes,
                                      size_t *first, size_t attribute_count, size_t *failed,
                                      CUstream stream)
{
	if (!to || !from || !sizes || count == 0 || !attributes || !first || attribute_count == 0 ||
	    attribute_count > count || first[0] != 0 || first[attribute_count - 1] >= count)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 1; i < attribute_count; i++)
		if (first[i] <= first[i - 1])
			return CUDA_ERROR_INVALID_VALUE;
	struct plain_batch batch = {.to = to,
	                            .from = from,
	                            .sizes = sizes,
	                            .attributes = attributes,
	                            .first = first,
	                            .attribute_count = attribute_count};
	return submit_batch(call, stream, read_plain, &batch, count, failed);
}
EXPORT_ON_STREAM(cuMemcpyBatchAsync,
                 (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count,
                  CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
                  size_t *failed, CUstream stream),
                 to, from, sizes, count, attributes, first, attribute_count, failed, stream)

/* Since 13.0 the caller is not told which copy was wrong. */
static CUresult cuMemcpyBatchAsync_v2_on(const char *call, CUdeviceptr *to, CUdeviceptr *from,
                                         size_t *sizes, size_t count,
                                         CUmemcpyAttributes *attributes, size_t *first,
                                         size_t attribute_count, CUstream stream)
{
	return cuMemcpyBatchAsync_on(call, to, from, sizes, count, attributes, first,
	                             attribute_count, NULL, stream);
}
EXPORT_ON_STREAM(cuMemcpyBatchAsync_v2,
                 (CUdeviceptr * to, CUdeviceptr *from, size_t *sizes, size_t count,
                  CUmemcpyAttributes *attributes, size_t *first, size_t attribute_count,
                  CUstream stream),
                 to, from, sizes, count, attributes, first, attribute_count, stream)

/* A batch of one, since 13.2. */
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t size,
                                     CUmemcpyAttributes *attributes, CUstream stream);
static CUresult cuMemcpyWithAttributesAsync_on(const char *call, CUdeviceptr to, CUdeviceptr from,
                                               size_t size, CUmemcpyAttributes *attributes,
                                               CUstream stream)
{
	size_t first = 0;
	return cuMemcpyBatchAsync_on(call, &to, &from, &size, 1, attributes, &first, 1, NULL,
	                             stream);
}
EXPORT_ON_STREAM(cuMemcpyWithAttributesAsync,
                 (CUdeviceptr to, CUdeviceptr from, size_t size, CUmemcpyAttributes *attributes,
                  CUstream stream),
                 to, from, size, attributes, stream)

/* One side; lengths of 0 mean that rows and layers follow one another. Elements are bytes. */
static CUresult read_operand(const CUmemcpy3DOperand *operand, const CUextent3D *extent,
                             struct copy_side *side)
{
	if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return CUDA_ERROR_INVALID_VALUE;
	size_t row = operand->op.ptr.rowLength ? operand->op.ptr.rowLength : extent->width;
	size_t rows = operand->op.ptr.layerHeight ? operand->op.ptr.layerHeight : extent->height;
	if (row < extent->width || rows < extent->height)
		return CUDA_ERROR_INVALID_VALUE;
	*side = (struct copy_side){.address = operand->op.ptr.ptr, .pitch = row};
	return __builtin_mul_overflow(row, rows, &side->slice) ? CUDA_ERROR_INVALID_VALUE
	                                                       : CUDA_SUCCESS;
}

static CUresult read_3d(const void *batch, size_t index, struct batch_copy *copy)
{
	const CUDA_MEMCPY3D_BATCH_OP *op = (const CUDA_MEMCPY3D_BATCH_OP *)batch + index;
	const CUextent3D *extent = &op->extent;
	if (extent->width == 0 || extent->height == 0 || extent->depth == 0)
		return CUDA_ERROR_INVALID_VALUE;
	*copy = (struct batch_copy){
	    .shape = {.width = extent->width, .height = extent->height, .depth = extent->depth},
	    .order = op->srcAccessOrder,
	    .flags = op->flags,
	};
	CUresult result = read_operand(&op->dst, extent, &copy->to);
	return result == CUDA_SUCCESS ? read_operand(&op->src, extent, &copy->from) : result;
}

static CUresult cuMemcpy3DBatchAsync_on(const char *call, size_t count, CUDA_MEMCPY3D_BATCH_OP *ops,
                                        size_t *failed, unsigned long long flags, CUstream stream)
{
	if (count == 0 || !ops || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return submit_batch(call, stream, read_3d, ops, count, failed);
}
EXPORT_ON_STREAM(cuMemcpy3DBatchAsync,
                 (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *failed,
                  unsigned long long flags, CUstream stream),
                 count, ops, failed, flags, stream)

static CUresult cuMemcpy3DBatchAsync_v2_on(const char *call, size_t count,
                                           CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags,
                                           CUstream stream)
{
	return cuMemcpy3DBatchAsync_on(call, count, ops, NULL, flags, stream);
}
EXPORT_ON_STREAM(cuMemcpy3DBatchAsync_v2,
                 (size_t count, CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags,
                  CUstream stream),
                 count, ops, flags, stream)

CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
                                       CUstream stream);
static CUresult cuMemcpy3DWithAttributesAsync_on(const char *call, CUDA_MEMCPY3D_BATCH_OP *op,
                                                 unsigned long long flags, CUstream stream)
{
	return cuMemcpy3DBatchAsync_on(call, 1, op, NULL, flags, stream);
}
EXPORT_ON_STREAM(cuMemcpy3DWithAttributesAsync,
                 (CUDA_MEMCPY3D_BATCH_OP * op, unsigned long long flags, CUstream stream), op,
                 flags, stream)
