/* SPDX-License-Identifier: MIT */
/* The copies of bytes of one row of an array: a row of a copy in three dimensions. */
#include "tests/softgpu/array.h"
#include "tests/softgpu/work.h"

#define TO_ARRAY(array, offset) \
	.dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = (array), .dstXInBytes = (offset)
#define TO_HOST(pointer)   .dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = (pointer)
#define TO_DEVICE(address) .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = (address)
#define FROM_ARRAY(array, offset) \
	.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = (array), .srcXInBytes = (offset)
#define FROM_HOST(pointer)   .srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = (pointer)
#define FROM_DEVICE(address) .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = (address)

/* Returns whether an end is none, or an array of one row. */
static bool is_row(CUmemorytype type, CUarray array)
{
	return type != CU_MEMORYTYPE_ARRAY || array_is_row(array);
}

static CUresult copy_row(const char *call, CUstream handle, const CUDA_MEMCPY3D *what,
                         enum copy_timing timing)
{
	struct context *context;
	struct copy_side to, from;
	struct copy_shape shape;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	result = copy_read_3d(what, &to, &from, &shape);
	if (result != CUDA_SUCCESS)
		return leave(result);
	if (!is_row(what->dstMemoryType, what->dstArray) ||
	    !is_row(what->srcMemoryType, what->srcArray))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct stream *stream = stream_find(context, handle);
	return leave(stream ? copy_submit(stream, to, from, shape, timing)
	                    : CUDA_ERROR_INVALID_HANDLE);
}

#define COPY_ROW(timing, size, ...)                                                               \
	copy_row(                                                                                 \
	    call, stream,                                                                         \
	    &(const CUDA_MEMCPY3D){.WidthInBytes = (size), .Height = 1, .Depth = 1, __VA_ARGS__}, \
	    timing)

static CUresult cuMemcpyAtoH_v2_on(const char *call, CUstream stream, void *to, CUarray from,
                                   size_t offset, size_t size)
{
	return COPY_ROW(COPY_WAIT, size, TO_HOST(to), FROM_ARRAY(from, offset));
}
EXPORT_ON_DEFAULT(cuMemcpyAtoH_v2, (void *to, CUarray from, size_t offset, size_t size), to, from,
                  offset, size)

static CUresult cuMemcpyAtoHAsync_v2_on(const char *call, void *to, CUarray from, size_t offset,
                                        size_t size, CUstream stream)
{
	return COPY_ROW(COPY_ASYNC, size, TO_HOST(to), FROM_ARRAY(from, offset));
}
EXPORT_ON_STREAM(cuMemcpyAtoHAsync_v2,
                 (void *to, CUarray from, size_t offset, size_t size, CUstream stream), to, from,
                 offset, size, stream)

static CUresult cuMemcpyHtoA_v2_on(const char *call, CUstream stream, CUarray to, size_t offset,
                                   const void *from, size_t size)
{
	return COPY_ROW(COPY_WAIT, size, TO_ARRAY(to, offset), FROM_HOST(from));
}
EXPORT_ON_DEFAULT(cuMemcpyHtoA_v2, (CUarray to, size_t offset, const void *from, size_t size), to,
                  offset, from, size)

static CUresult cuMemcpyHtoAAsync_v2_on(const char *call, CUarray to, size_t offset,
                                        const void *from, size_t size, CUstream stream)
{
	return COPY_ROW(COPY_ASYNC, size, TO_ARRAY(to, offset), FROM_HOST(from));
}
EXPORT_ON_STREAM(cuMemcpyHtoAAsync_v2,
                 (CUarray to, size_t offset, const void *from, size_t size, CUstream stream), to,
                 offset, from, size, stream)

static CUresult cuMemcpyAtoD_v2_on(const char *call, CUstream stream, CUdeviceptr to, CUarray from,
                                   size_t offset, size_t size)
{
	return COPY_ROW(COPY_WAIT, size, TO_DEVICE(to), FROM_ARRAY(from, offset));
}
EXPORT_ON_DEFAULT(cuMemcpyAtoD_v2, (CUdeviceptr to, CUarray from, size_t offset, size_t size), to,
                  from, offset, size)

static CUresult cuMemcpyDtoA_v2_on(const char *call, CUstream stream, CUarray to, size_t offset,
                                   CUdeviceptr from, size_t size)
{
	return COPY_ROW(COPY_WAIT, size, TO_ARRAY(to, offset), FROM_DEVICE(from));
}
EXPORT_ON_DEFAULT(cuMemcpyDtoA_v2, (CUarray to, size_t offset, CUdeviceptr from, size_t size), to,
                  offset, from, size)

static CUresult cuMemcpyAtoA_v2_on(const char *call, CUstream stream, CUarray to, size_t to_offset,
                                   CUarray from, size_t from_offset, size_t size)
{
	return COPY_ROW(COPY_WAIT, size, TO_ARRAY(to, to_offset), FROM_ARRAY(from, from_offset));
}
EXPORT_ON_DEFAULT(cuMemcpyAtoA_v2,
                  (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size), to,
                  to_offset, from, from_offset, size)
