/* The cuMemcpy* calls. Copies with arrays are not supported; there are no arrays. */
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

/* One side of a copy of rows or planes; the offset of its first byte is added to the address. */
static CUresult pitched_side(struct copy_side *side, CUmemorytype type, const void *host,
                             CUdeviceptr device, uint64_t offset)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		*side = host_side(host);
		break;
	case CU_MEMORYTYPE_DEVICE:
		*side = device_side(device);
		break;
	case CU_MEMORYTYPE_UNIFIED:
		*side = any_side(device);
		break;
	case CU_MEMORYTYPE_ARRAY:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	side->address += offset;
	return CUDA_SUCCESS;
}

static CUresult submit_pitched(const char *call, CUstream handle, struct copy_side to,
                               struct copy_side from, struct copy_shape shape,
                               enum copy_timing timing)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(context, handle);
	return leave(stream ? copy_submit(stream, to, from, shape, timing)
	                    : CUDA_ERROR_INVALID_HANDLE);
}

static CUresult copy_2d(const char *call, CUstream stream, const CUDA_MEMCPY2D *what,
                        enum copy_timing timing)
{
	struct copy_side to, from;
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	/* A pitch of 0 means that rows follow one another. */
	uint64_t to_pitch =
	    what->dstPitch ? what->dstPitch : what->dstXInBytes + what->WidthInBytes;
	uint64_t from_pitch =
	    what->srcPitch ? what->srcPitch : what->srcXInBytes + what->WidthInBytes;
	if (what->Height > 1 && (what->dstXInBytes + what->WidthInBytes > to_pitch ||
	                         what->srcXInBytes + what->WidthInBytes > from_pitch))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = pitched_side(&to, what->dstMemoryType, what->dstHost, what->dstDevice,
	                               what->dstY * to_pitch + what->dstXInBytes);
	if (result == CUDA_SUCCESS)
		result = pitched_side(&from, what->srcMemoryType, what->srcHost, what->srcDevice,
		                      what->srcY * from_pitch + what->srcXInBytes);
	if (result != CUDA_SUCCESS)
		return result;
	to.pitch = to_pitch;
	from.pitch = from_pitch;
	struct copy_shape shape = {.width = what->WidthInBytes, .height = what->Height, .depth = 1};
	return submit_pitched(call, stream, to, from, shape, timing);
}

static CUresult cuMemcpy2D_v2_on(const char *call, CUstream stream, const CUDA_MEMCPY2D *what)
{
	return copy_2d(call, stream, what, COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *what), what)

#define cuMemcpy2DUnaligned_v2_on cuMemcpy2D_v2_on
EXPORT_ON_DEFAULT(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *what), what)

static CUresult cuMemcpy2DAsync_v2_on(const char *call, const CUDA_MEMCPY2D *what, CUstream stream)
{
	return copy_2d(call, stream, what, COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *what, CUstream stream), what, stream)

CUresult copy_read_3d(const CUDA_MEMCPY3D *what, struct copy_side *to, struct copy_side *from,
                      struct copy_shape *shape)
{
	if (what->srcLOD || what->dstLOD)
		return CUDA_ERROR_INVALID_VALUE;
	uint64_t to_pitch =
	    what->dstPitch ? what->dstPitch : what->dstXInBytes + what->WidthInBytes;
	uint64_t from_pitch =
	    what->srcPitch ? what->srcPitch : what->srcXInBytes + what->WidthInBytes;
	uint64_t to_rows = what->dstHeight ? what->dstHeight : what->dstY + what->Height;
	uint64_t from_rows = what->srcHeight ? what->srcHeight : what->srcY + what->Height;
	if (what->dstXInBytes + what->WidthInBytes > to_pitch ||
	    what->srcXInBytes + what->WidthInBytes > from_pitch ||
	    (what->Depth > 1 &&
	     (what->dstY + what->Height > to_rows || what->srcY + what->Height > from_rows)))
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result =
	    pitched_side(to, what->dstMemoryType, what->dstHost, what->dstDevice,
	                 (what->dstZ * to_rows + what->dstY) * to_pitch + what->dstXInBytes);
	if (result == CUDA_SUCCESS)
		result = pitched_side(from, what->srcMemoryType, what->srcHost, what->srcDevice,
		                      (what->srcZ * from_rows + what->srcY) * from_pitch +
		                          what->srcXInBytes);
	if (result != CUDA_SUCCESS)
		return result;
	to->pitch = to_pitch;
	to->slice = to_pitch * to_rows;
	from->pitch = from_pitch;
	from->slice = from_pitch * from_rows;
	*shape = (struct copy_shape){
	    .width = what->WidthInBytes, .height = what->Height, .depth = what->Depth};
	return CUDA_SUCCESS;
}

static CUresult copy_3d(const char *call, CUstream stream, const CUDA_MEMCPY3D *what,
                        enum copy_timing timing)
{
	struct copy_side to, from;
	struct copy_shape shape;
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = copy_read_3d(what, &to, &from, &shape);
	return result == CUDA_SUCCESS ? submit_pitched(call, stream, to, from, shape, timing)
	                              : result;
}

static CUresult cuMemcpy3D_v2_on(const char *call, CUstream stream, const CUDA_MEMCPY3D *what)
{
	return copy_3d(call, stream, what, COPY_WAIT);
}
EXPORT_ON_DEFAULT(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *what), what)

static CUresult cuMemcpy3DAsync_v2_on(const char *call, const CUDA_MEMCPY3D *what, CUstream stream)
{
	return copy_3d(call, stream, what, COPY_ASYNC);
}
EXPORT_ON_STREAM(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *what, CUstream stream), what, stream)

/* The same between contexts: each must be there where memory of a device is meant. */
static CUresult copy_3d_between_peers(const char *call, CUstream stream,
                                      const CUDA_MEMCPY3D_PEER *what, enum copy_timing timing)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	bool known = what && context_find(what->srcContext) && context_find(what->dstContext);
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
	return copy_3d(call, stream, &plain, timing);
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
