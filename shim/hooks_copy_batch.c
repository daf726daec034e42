/* SPDX-License-Identifier: MIT */
/*
 * Batches of copies. The copies of a batch are in no order among themselves. Where one would wait
 * for the stream's work, because its memory is on the host, each is made by itself.
 */
#include "shim/sampled.h"
#include "shim/shape.h"

struct batch {
	CUstream stream; /* by its explicit name */
	size_t count;
	bool is_older;  /* the form of before CUDA 13, which tells the program in *failed */
	size_t *failed; /* which copy was refused; NULL: the program does not want to know */
	/* Fills in the shape of a copy. Returns false where the driver is to make it. */
	bool (*shape)(const struct batch *batch, size_t index, struct async_copy *shape);
	/* Has the driver make it, alone. */
	CUresult (*alone)(const struct batch *batch, size_t index);
	const void *of;
};

/* Returns whether it may be read after the call; else only the driver can read it in time. */
static bool is_read_later(CUmemcpySrcAccessOrder order)
{
	return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
	       order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

static bool shape_of(const struct batch *batch, size_t index, struct async_copy *shape)
{
	bool has_one = batch->shape(batch, index, shape) && shape_is_regular(shape);

	shape->stream = batch->stream;
	shape->is_in_order = true;
	return has_one;
}

/* Returns whether any copy would wait. Captured memory is kept where it is. */
static bool copy_batch_would_wait(const struct batch *batch)
{
	struct async_copy shape;

	for (size_t i = 0; i < batch->count; i++)
		if (shape_of(batch, i, &shape) && async_would_wait(&shape))
			return true;
	return false;
}

static CUresult make_each(const struct batch *batch)
{
	CUresult result = CUDA_SUCCESS;
	struct async_copy shape;

	for (size_t i = 0; i < batch->count && result == CUDA_SUCCESS; i++) {
		if (!shape_of(batch, i, &shape) || !async_copy(&shape, &result))
			result = PASSING_GATE(batch->alone(batch, i));
		if (result != CUDA_SUCCESS && batch->failed)
			*batch->failed = i;
	}
	return result;
}

/* Makes the batch copy by copy, if one of them would wait. Returns whether it did. */
static bool copy_batch_make(const struct batch *batch, CUresult *result)
{
	KEEP_ERRNO;
	bool is_ours = job_is_active() && copy_batch_would_wait(batch);

	if (is_ours)
		*result = make_each(batch);
	return is_ours;
}

/* --- of bytes --- */

struct plain {
	CUdeviceptr *to, *from;
	size_t *sizes;
	CUmemcpyAttributes *attributes;
	size_t *first; /* the copy that each of the attributes begins with */
	size_t attribute_count;
};

static CUmemcpyAttributes *attributes_of(const struct plain *plain, size_t index)
{
	size_t i = 0;

	while (i + 1 < plain->attribute_count && plain->first[i + 1] <= index)
		i++;
	return &plain->attributes[i];
}

static bool plain_shape(const struct batch *batch, size_t index, struct async_copy *shape)
{
	const struct plain *plain = batch->of;

	return shape_of_bytes(plain->to[index], plain->from[index], plain->sizes[index], shape) &&
	       is_read_later(attributes_of(plain, index)->srcAccessOrder);
}

static CUresult plain_alone(const struct batch *batch, size_t index)
{
	const struct plain *plain = batch->of;
	CUmemcpyAttributes *attributes = attributes_of(plain, index);
	size_t first = 0, failed;

	if (batch->is_older)
		return REAL(cuMemcpyBatchAsync)(&plain->to[index], &plain->from[index],
		                                &plain->sizes[index], 1, attributes, &first, 1,
		                                &failed, batch->stream);
	return REAL(cuMemcpyBatchAsync_v2)(&plain->to[index], &plain->from[index],
	                                   &plain->sizes[index], 1, attributes, &first, 1,
	                                   batch->stream);
}

static bool copy_batch_plain(const struct batch *batch, CUresult *result)
{
	const struct plain *of = batch->of;

	/* The driver refuses all else. */
	return of->to && of->from && of->sizes && of->attributes && of->first &&
	       of->attribute_count && of->attribute_count <= batch->count &&
	       copy_batch_make(batch, result);
}

/* Addresses that are none, or no device's, do no harm. */
static __attribute__((noinline)) void sampled_copies(const CUdeviceptr *a, const CUdeviceptr *b,
                                                     size_t count)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return;
	placement_tell(copied, a, count);
	placement_tell(copied, b, count);
}

#define PLAIN(symbol, how, is_older, failed, ...)                                        \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                      \
	{                                                                                \
		const struct plain of = {dsts, srcs, sizes, attrs, attrsIdxs, numAttrs}; \
		const struct batch batch = {how(hStream), count,       is_older, failed, \
		                            plain_shape,  plain_alone, &of};             \
		CUresult result;                                                         \
                                                                                         \
		job_break();                                                             \
		if (!async_is_concerned() || !copy_batch_plain(&batch, &result))         \
			result = PASSING_GATE(FORWARD(symbol, __VA_ARGS__));             \
		return SAMPLED(result, sampled_copies(dsts, srcs, count));               \
	}
#define PLAIN_2(symbol, other, is_older, failed, ...)        \
	PLAIN(symbol, LEGACY, is_older, failed, __VA_ARGS__) \
	PLAIN(other, PER_THREAD, is_older, failed, __VA_ARGS__)

PLAIN_2(cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz, true, failIdx, (CUdeviceptr *, dsts),
        (CUdeviceptr *, srcs), (size_t *, sizes), (size_t, count), (CUmemcpyAttributes *, attrs),
        (size_t *, attrsIdxs), (size_t, numAttrs), (size_t *, failIdx), (CUstream, hStream))
PLAIN_2(cuMemcpyBatchAsync_v2, cuMemcpyBatchAsync_v2_ptsz, false, NULL, (CUdeviceptr *, dsts),
        (CUdeviceptr *, srcs), (size_t *, sizes), (size_t, count), (CUmemcpyAttributes *, attrs),
        (size_t *, attrsIdxs), (size_t, numAttrs), (CUstream, hStream))

/* A copy alone, with attributes of its own. */
static CUresult attributed_alone(const struct batch *batch, size_t index)
{
	const struct plain *plain = batch->of;

	return REAL(cuMemcpyWithAttributesAsync)(plain->to[index], plain->from[index],
	                                         plain->sizes[index], plain->attributes,
	                                         batch->stream);
}

#define ATTRIBUTED(symbol, how, ...)                                             \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                              \
	{                                                                        \
		size_t first = 0;                                                \
		const struct plain of = {&dst, &src, &size, attr, &first, 1};    \
		const struct batch batch = {.stream = how(hStream),              \
		                            .count = 1,                          \
		                            .shape = plain_shape,                \
		                            .alone = attributed_alone,           \
		                            .of = &of};                          \
		CUresult result;                                                 \
                                                                                 \
		job_break();                                                     \
		if (!async_is_concerned() || !copy_batch_plain(&batch, &result)) \
			result = PASSING_GATE(FORWARD(symbol, __VA_ARGS__));     \
		return SAMPLED(result, sampled_copies(&dst, &src, 1));           \
	}

ATTRIBUTED(cuMemcpyWithAttributesAsync, LEGACY, (CUdeviceptr, dst), (CUdeviceptr, src),
           (size_t, size), (CUmemcpyAttributes *, attr), (CUstream, hStream))
ATTRIBUTED(cuMemcpyWithAttributesAsync_ptsz, PER_THREAD, (CUdeviceptr, dst), (CUdeviceptr, src),
           (size_t, size), (CUmemcpyAttributes *, attr), (CUstream, hStream))

/* --- of rows --- */

/* Rows and layers without a length follow one another. Returns false where it is an array. */
static bool read_operand(const CUmemcpy3DOperand *operand, const CUextent3D *extent,
                         struct async_end *end)
{
	size_t row = operand->op.ptr.rowLength, rows = operand->op.ptr.layerHeight;

	if (operand->type != CU_MEMCPY_OPERAND_TYPE_POINTER)
		return false;
	end->address = operand->op.ptr.ptr;
	end->pitch = row ? row : extent->width;
	return !__builtin_mul_overflow(end->pitch, rows ? rows : extent->height, &end->slice);
}

static bool rows_shape(const struct batch *batch, size_t index, struct async_copy *shape)
{
	const CUDA_MEMCPY3D_BATCH_OP *op = (const CUDA_MEMCPY3D_BATCH_OP *)batch->of + index;

	shape->width = op->extent.width;
	shape->height = op->extent.height;
	shape->depth = op->extent.depth;
	return read_operand(&op->dst, &op->extent, &shape->to) &&
	       read_operand(&op->src, &op->extent, &shape->from) &&
	       is_read_later(op->srcAccessOrder);
}

static CUresult rows_alone(const struct batch *batch, size_t index)
{
	CUDA_MEMCPY3D_BATCH_OP op = ((const CUDA_MEMCPY3D_BATCH_OP *)batch->of)[index];
	size_t failed;

	if (batch->is_older)
		return REAL(cuMemcpy3DBatchAsync)(1, &op, &failed, 0, batch->stream);
	return REAL(cuMemcpy3DBatchAsync_v2)(1, &op, 0, batch->stream);
}

#define ROWS(symbol, how, is_older, failed, ...)                                        \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                     \
	{                                                                               \
		const struct batch batch = {how(hStream), numOps,     is_older, failed, \
		                            rows_shape,   rows_alone, opList};          \
		CUresult result;                                                        \
                                                                                        \
		job_break();                                                            \
		if (!async_is_concerned() || !opList || flags ||                        \
		    !copy_batch_make(&batch, &result))                                  \
			result = PASSING_GATE(FORWARD(symbol, __VA_ARGS__));            \
		return result;                                                          \
	}
#define ROWS_2(symbol, other, is_older, failed, ...)        \
	ROWS(symbol, LEGACY, is_older, failed, __VA_ARGS__) \
	ROWS(other, PER_THREAD, is_older, failed, __VA_ARGS__)

ROWS_2(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz, true, failIdx, (size_t, numOps),
       (CUDA_MEMCPY3D_BATCH_OP *, opList), (size_t *, failIdx), (unsigned long long, flags),
       (CUstream, hStream))
ROWS_2(cuMemcpy3DBatchAsync_v2, cuMemcpy3DBatchAsync_v2_ptsz, false, NULL, (size_t, numOps),
       (CUDA_MEMCPY3D_BATCH_OP *, opList), (unsigned long long, flags), (CUstream, hStream))

/* A copy alone. */
static CUresult rows_attributed_alone(const struct batch *batch, size_t index)
{
	CUDA_MEMCPY3D_BATCH_OP op = ((const CUDA_MEMCPY3D_BATCH_OP *)batch->of)[index];

	return REAL(cuMemcpy3DWithAttributesAsync)(&op, 0, batch->stream);
}

#define ATTRIBUTED_ROWS(symbol, how, ...)                                                       \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                             \
	{                                                                                       \
		const struct batch batch = {.stream = how(hStream),                             \
		                            .count = 1,                                         \
		                            .shape = rows_shape,                                \
		                            .alone = rows_attributed_alone,                     \
		                            .of = op};                                          \
		CUresult result;                                                                \
                                                                                                \
		job_break();                                                                    \
		if (!async_is_concerned() || !op || flags || !copy_batch_make(&batch, &result)) \
			result = PASSING_GATE(FORWARD(symbol, __VA_ARGS__));                    \
		return result;                                                                  \
	}

ATTRIBUTED_ROWS(cuMemcpy3DWithAttributesAsync, LEGACY, (CUDA_MEMCPY3D_BATCH_OP *, op),
                (unsigned long long, flags), (CUstream, hStream))
ATTRIBUTED_ROWS(cuMemcpy3DWithAttributesAsync_ptsz, PER_THREAD, (CUDA_MEMCPY3D_BATCH_OP *, op),
                (unsigned long long, flags), (CUstream, hStream))
