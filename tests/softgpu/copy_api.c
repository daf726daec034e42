/* SPDX-License-Identifier: MIT */
/* The cuMemcpy* calls; those of one row of an array are in copy_array.c. */
#include "tests/softgpu/array.h"
#include "tests/softgpu/work.h"

/* Enters and submits a copy of plain bytes. */
static CUresult copy_bytes(const char *call, CUstream handle, struct copy_side to,
                           struct copy_side from, size_t size, enum copy_timing timing)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(context, handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	struct copy_shape shape = {.width = size, .height = 1, .depth = 1};
	return leave(copy_submit(stream, to, from, shape, timing));
}

static struct copy_side device_side(CUdeviceptr address)
{
	return (struct copy_side){.address = address, .meant = MEANT_DEVICE};
}

static struct copy_side host_side(const void *pointer)
{
	return (struct copy_side){.address = (uint64_t)pointer, .meant = MEANT_HOST};
}

static struct copy_side any_side(CUdeviceptr address)
{
	return (struct copy_side){.address = address, .meant = MEANT_EITHER};
}

static CUresult cuMemcpy_on(const char *call, CUstream stream, CUdeviceptr to, CUdeviceptr from,
                            size_t size)
{
	return copy_bytes(call, stream, any_side(to), any_side(from), size, COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpy, (CUdeviceptr to, CUdeviceptr from, size_t size), to, from, size)

static CUresult cuMemcpyAsync_on(const char *call, CUdeviceptr to, CUdeviceptr from, size_t size,
                                 CUstream stream)
{
	return copy_bytes(call, stream, any_side(to), any_side(from), size, COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpyAsync, (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream),
                 to, from, size, stream)

static CUresult cuMemcpyHtoD_v2_on(const char *call, CUstream stream, CUdeviceptr to,
                                   const void *from, size_t size)
{
	return copy_bytes(call, stream, device_side(to), host_side(from), size, COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *from, size_t size), to, from, size)

static CUresult cuMemcpyDtoH_v2_on(const char *call, CUstream stream, void *to, CUdeviceptr from,
                                   size_t size)
{
	return copy_bytes(call, stream, host_side(to), device_side(from), size, COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpyDtoH_v2, (void *to, CUdeviceptr from, size_t size), to, from, size)

static CUresult cuMemcpyDtoD_v2_on(const char *call, CUstream stream, CUdeviceptr to,
                                   CUdeviceptr from, size_t size)
{
	return copy_bytes(call, stream, device_side(to), device_side(from), size, COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpyDtoD_v2, (CUdeviceptr to, CUdeviceptr from, size_t size), to, from, size)

static CUresult cuMemcpyHtoDAsync_v2_on(const char *call, CUdeviceptr to, const void *from,
                                        size_t size, CUstream stream)
{
	return copy_bytes(call, stream, device_side(to), host_side(from), size, COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpyHtoDAsync_v2,
                 (CUdeviceptr to, const void *from, size_t size, CUstream stream), to, from, size,
                 stream)

static CUresult cuMemcpyDtoHAsync_v2_on(const char *call, void *to, CUdeviceptr from, size_t size,
                                        CUstream stream)
{
	return copy_bytes(call, stream, host_side(to), device_side(from), size, COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr from, size_t size, CUstream stream),
                 to, from, size, stream)

static CUresult cuMemcpyDtoDAsync_v2_on(const char *call, CUdeviceptr to, CUdeviceptr from,
                                        size_t size, CUstream stream)
{
	return copy_bytes(call, stream, device_side(to), device_side(from), size, COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpyDtoDAsync_v2,
                 (CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream), to, from, size,
                 stream)

/*
 * Between devices the contexts say whose the memory is, as the addresses do, and whose earlier work
 * a copy that is not on a stream comes after.
 */
static CUresult copy_between_peers(const char *call, CUstream stream, CUdeviceptr to,
                                   CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                   size_t size, enum copy_timing timing)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct context *target = context_find(to_context), *source = context_find(from_context);
	bool known = target && source;
	if (known && timing == COPY_WAIT) {
		context_drain(target);
		source = context_find(from_context); /* the lock was released meanwhile */
		if (source)
			context_drain(source);
	}
	leave(CUDA_SUCCESS);
	if (!known)
		return CUDA_ERROR_INVALID_CONTEXT;
	return copy_bytes(call, stream, device_side(to), device_side(from), size, timing);
}

static CUresult cuMemcpyPeer_on(const char *call, CUstream stream, CUdeviceptr to,
                                CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                                size_t size)
{
	return copy_between_peers(call, stream, to, to_context, from, from_context, size,
	                          COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpyPeer,
                  (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                   size_t size),
                  to, to_context, from, from_context, size)

static CUresult cuMemcpyPeerAsync_on(const char *call, CUdeviceptr to, CUcontext to_context,
                                     CUdeviceptr from, CUcontext from_context, size_t size,
                                     CUstream stream)
{
	return copy_between_peers(call, stream, to, to_context, from, from_context, size,
	                          COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpyPeerAsync,
                 (CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                  size_t size, CUstream stream),
                 to, to_context, from, from_context, size, stream)

/* One end of a copy of rows or planes, as the caller describes it. */
struct end {
	CUmemorytype type;
	const void *host;
	CUdeviceptr device;
	CUarray array;
	uint64_t x, y, z, pitch, rows;
	bool has_planes;
};

#define END_2D(what, side, ...)                         \
	((struct end){.type = (what)->side##MemoryType, \
	              .host = (what)->side##Host,       \
	              .device = (what)->side##Device,   \
	              .array = (what)->side##Array,     \
	              .x = (what)->side##XInBytes,      \
	              .y = (what)->side##Y,             \
	              .pitch = (what)->side##Pitch,     \
	              __VA_ARGS__})
#define END_3D(what, side) \
	END_2D(what, side, .z = (what)->side##Z, .rows = (what)->side##Height, .has_planes = true)

static CUresult read_end(const struct end *end, const struct copy_shape *shape,
                         struct copy_side *side)
{
	/* A pitch of 0 means that rows follow one another. */
	uint64_t pitch = end->pitch ? end->pitch : end->x + shape->width;
	uint64_t rows = end->rows ? end->rows : end->y + shape->height;
	if (end->type == CU_MEMORYTYPE_ARRAY)
		return array_side(end->array, end->x, end->y, end->z, shape, side);
	if ((end->has_planes || shape->height > 1) && end->x + shape->width > pitch)
		return CUDA_ERROR_INVALID_VALUE;
	if (shape->depth > 1 && end->y + shape->height > rows)
		return CUDA_ERROR_INVALID_VALUE;
	switch (end->type) {
	case CU_MEMORYTYPE_HOST:
		*side = host_side(end->host);
		break;
	case CU_MEMORYTYPE_DEVICE:
		*side = device_side(end->device);
		break;
	case CU_MEMORYTYPE_UNIFIED:
		*side = any_side(end->device);
		break;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	side->address += (end->z * rows + end->y) * pitch + end->x;
	side->pitch = pitch;
	side->slice = end->has_planes ? pitch * rows : 0;
	return CUDA_SUCCESS;
}

static CUresult read_2d(const CUDA_MEMCPY2D *what, struct copy_side *to, struct copy_side *from,
                        struct copy_shape *shape)
{
	*shape =
	    (struct copy_shape){.width = what->WidthInBytes, .height = what->Height, .depth = 1};
	CUresult result = read_end(&END_2D(what, dst, .has_planes = false), shape, to);
	return result == CUDA_SUCCESS
	           ? read_end(&END_2D(what, src, .has_planes = false), shape, from)
	           : result;
}

CUresult copy_read_3d(const CUDA_MEMCPY3D *what, struct copy_side *to, struct copy_side *from,
                      struct copy_shape *shape)
{
	if (what->srcLOD || what->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	*shape = (struct copy_shape){
	    .width = what->WidthInBytes, .height = what->Height, .depth = what->Depth};
	CUresult result = read_end(&END_3D(what, dst), shape, to);
	return result == CUDA_SUCCESS ? read_end(&END_3D(what, src), shape, from) : result;
}

/* Enters, reads what is to be copied (2D, else 3D), and submits it. */
static CUresult copy_rows(const char *call, CUstream handle, const CUDA_MEMCPY2D *plane,
                          const CUDA_MEMCPY3D *solid, enum copy_timing timing)
{
	struct context *context;
	struct copy_side to, from;
	struct copy_shape shape;
	if (!plane && !solid)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	result =
	    plane ? read_2d(plane, &to, &from, &shape) : copy_read_3d(solid, &to, &from, &shape);
	if (result != CUDA_SUCCESS)
		return leave(result);
	struct stream *stream = stream_find(context, handle);
	return leave(stream ? copy_submit(stream, to, from, shape, timing)
	                    : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult cuMemcpy2D_v2_on(const char *call, CUstream stream, const CUDA_MEMCPY2D *what)
{
	return copy_rows(call, stream, what, NULL, COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *what), what)

#define cuMemcpy2DUnaligned_v2_on cuMemcpy2D_v2_on
EXPORT_ON_DEFAULT(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *what), what)

static CUresult cuMemcpy2DAsync_v2_on(const char *call, const CUDA_MEMCPY2D *what, CUstream stream)
{
	return copy_rows(call, stream, what, NULL, COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *what, CUstream stream), what, stream)

static CUresult cuMemcpy3D_v2_on(const char *call, CUstream stream, const CUDA_MEMCPY3D *what)
{
	return copy_rows(call, stream, NULL, what, COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *what), what)

static CUresult cuMemcpy3DAsync_v2_on(const char *call, const CUDA_MEMCPY3D *what, CUstream stream)
{
	return copy_rows(call, stream, NULL, what, COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *what, CUstream stream), what, stream)

/* The same between contexts: each must be there where memory of a device is meant. */
static CUresult copy_3d_between_peers(const char *call, CUstream stream,
                                      const CUDA_MEMCPY3D_PEER *what, enum copy_timing timing)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	/* Arrays know theirs. */
	bool known =
	    what &&
	    (what->srcMemoryType == CU_MEMORYTYPE_ARRAY || context_find(what->srcContext)) &&
	    (what->dstMemoryType == CU_MEMORYTYPE_ARRAY || context_find(what->dstContext));
	leave(CUDA_SUCCESS);
	if (!known)
		return what ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
	CUDA_MEMCPY3D plain = {
	    .srcXInBytes = what->srcXInBytes,
	    .srcY = what->srcY,
	    .srcZ = what->srcZ,
	    .srcLOD = what->srcLOD,
	    .srcMemoryType = what->srcMemoryType,
	    .srcHost = what->srcHost,
	    .srcDevice = what->srcDevice,
	    .srcArray = what->srcArray,
	    .srcPitch = what->srcPitch,
	    .srcHeight = what->srcHeight,
	    .dstXInBytes = what->dstXInBytes,
	    .dstY = what->dstY,
	    .dstZ = what->dstZ,
	    .dstLOD = what->dstLOD,
	    .dstMemoryType = what->dstMemoryType,
	    .dstHost = what->dstHost,
	    .dstDevice = what->dstDevice,
	    .dstArray = what->dstArray,
	    .dstPitch = what->dstPitch,
	    .dstHeight = what->dstHeight,
	    .WidthInBytes = what->WidthInBytes,
	    .Height = what->Height,
	    .Depth = what->Depth,
	};
	return copy_rows(call, stream, NULL, &plain, timing);
}

static CUresult cuMemcpy3DPeer_on(const char *call, CUstream stream, const CUDA_MEMCPY3D_PEER *what)
{
	return copy_3d_between_peers(call, stream, what, COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *what), what)

static CUresult cuMemcpy3DPeerAsync_on(const char *call, const CUDA_MEMCPY3D_PEER *what,
                                       CUstream stream)
{
	return copy_3d_between_peers(call, stream, what, COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *what, CUstream stream), what,
                 stream)
