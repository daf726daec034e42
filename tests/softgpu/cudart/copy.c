/* SPDX-License-Identifier: MIT */
/* Copies and fills. */
#include "tests/softgpu/cudart/cudart.h"

static bool kind_is_known(enum cudaMemcpyKind kind)
{
	return (unsigned int)kind <= cudaMemcpyDefault;
}

static CUmemorytype type_of(enum cudaMemcpyKind kind, bool destination)
{
	switch (kind) {
	case cudaMemcpyHostToHost:
		return CU_MEMORYTYPE_HOST;
	case cudaMemcpyHostToDevice:
		return destination ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	case cudaMemcpyDeviceToHost:
		return destination ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	case cudaMemcpyDeviceToDevice:
		return CU_MEMORYTYPE_DEVICE;
	default:
		return CU_MEMORYTYPE_UNIFIED;
	}
}

static CUresult copy(enum twin twin, void *to, const void *from, size_t size,
                     enum cudaMemcpyKind kind)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return driver.cuMemcpyHtoD[twin]((CUdeviceptr)to, from, size);
	case cudaMemcpyDeviceToHost:
		return driver.cuMemcpyDtoH[twin](to, (CUdeviceptr)from, size);
	case cudaMemcpyDeviceToDevice:
		return driver.cuMemcpyDtoD[twin]((CUdeviceptr)to, (CUdeviceptr)from, size);
	default:
		return driver.cuMemcpy[twin]((CUdeviceptr)to, (CUdeviceptr)from, size);
	}
}

static CUresult copy_async(enum twin twin, void *to, const void *from, size_t size,
                           enum cudaMemcpyKind kind, CUstream stream)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return driver.cuMemcpyHtoDAsync[twin]((CUdeviceptr)to, from, size, stream);
	case cudaMemcpyDeviceToHost:
		return driver.cuMemcpyDtoHAsync[twin](to, (CUdeviceptr)from, size, stream);
	case cudaMemcpyDeviceToDevice:
		return driver.cuMemcpyDtoDAsync[twin]((CUdeviceptr)to, (CUdeviceptr)from, size,
		                                      stream);
	default:
		return driver.cuMemcpyAsync[twin]((CUdeviceptr)to, (CUdeviceptr)from, size, stream);
	}
}

static cudaError_t cudaMemcpy_on(enum twin twin, void *to, const void *from, size_t size,
                                 enum cudaMemcpyKind kind)
{
	if (!kind_is_known(kind))
		return finish(cudaErrorInvalidMemcpyDirection);
	RUN(size ? copy(twin, to, from, size, kind) : CUDA_SUCCESS);
}
EXPORT_TWINS(cudaMemcpy, _ptds, (void *to, const void *from, size_t size, enum cudaMemcpyKind kind),
             to, from, size, kind)

static cudaError_t cudaMemcpyAsync_on(enum twin twin, void *to, const void *from, size_t size,
                                      enum cudaMemcpyKind kind, cudaStream_t stream)
{
	if (!kind_is_known(kind))
		return finish(cudaErrorInvalidMemcpyDirection);
	RUN(size ? copy_async(twin, to, from, size, kind, stream) : CUDA_SUCCESS);
}
EXPORT_TWINS(cudaMemcpyAsync, _ptsz,
             (void *to, const void *from, size_t size, enum cudaMemcpyKind kind,
              cudaStream_t stream),
             to, from, size, kind, stream)

/* The driver takes a host or a device pointer, by type; a unified one as a device pointer. */
static void set_side(CUmemorytype type, const void *pointer, CUmemorytype *side_type,
                     const void **host, CUdeviceptr *device)
{
	*side_type = type;
	if (type == CU_MEMORYTYPE_HOST)
		*host = pointer;
	else
		*device = (CUdeviceptr)pointer;
}

static int describe_2d(CUDA_MEMCPY2D *what, void *to, size_t to_pitch, const void *from,
                       size_t from_pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	if (!kind_is_known(kind))
		return cudaErrorInvalidMemcpyDirection;
	if (width > to_pitch || width > from_pitch)
		return cudaErrorInvalidPitchValue;
	*what = (CUDA_MEMCPY2D){
	    .srcPitch = from_pitch, .dstPitch = to_pitch, .WidthInBytes = width, .Height = height};
	const void *to_host = NULL;
	set_side(type_of(kind, false), from, &what->srcMemoryType, &what->srcHost,
	         &what->srcDevice);
	set_side(type_of(kind, true), to, &what->dstMemoryType, &to_host, &what->dstDevice);
	what->dstHost = (void *)to_host;
	return cudaSuccess;
}

static cudaError_t cudaMemcpy2D_on(enum twin twin, void *to, size_t to_pitch, const void *from,
                                   size_t from_pitch, size_t width, size_t height,
                                   enum cudaMemcpyKind kind)
{
	CUDA_MEMCPY2D what;
	int error = describe_2d(&what, to, to_pitch, from, from_pitch, width, height, kind);
	if (error != cudaSuccess)
		return finish(error);
	RUN(width && height ? driver.cuMemcpy2DUnaligned[twin](&what) : CUDA_SUCCESS);
}
EXPORT_TWINS(cudaMemcpy2D, _ptds,
             (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
              size_t height, enum cudaMemcpyKind kind),
             to, to_pitch, from, from_pitch, width, height, kind)

static cudaError_t cudaMemcpy2DAsync_on(enum twin twin, void *to, size_t to_pitch, const void *from,
                                        size_t from_pitch, size_t width, size_t height,
                                        enum cudaMemcpyKind kind, cudaStream_t stream)
{
	CUDA_MEMCPY2D what;
	int error = describe_2d(&what, to, to_pitch, from, from_pitch, width, height, kind);
	if (error != cudaSuccess)
		return finish(error);
	RUN(width && height ? driver.cuMemcpy2DAsync[twin](&what, stream) : CUDA_SUCCESS);
}
EXPORT_TWINS(cudaMemcpy2DAsync, _ptsz,
             (void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream),
             to, to_pitch, from, from_pitch, width, height, kind, stream)

int describe_3d(CUDA_MEMCPY3D *what, const struct cudaMemcpy3DParms *parms)
{
	if (!parms)
		return cudaErrorInvalidValue;
	if (parms->srcArray || parms->dstArray)
		return cudaErrorNotSupported; /* there are no arrays here */
	if (!kind_is_known(parms->kind))
		return cudaErrorInvalidMemcpyDirection;
	*what = (CUDA_MEMCPY3D){
	    .srcXInBytes = parms->srcPos.x,
	    .srcY = parms->srcPos.y,
	    .srcZ = parms->srcPos.z,
	    .srcPitch = parms->srcPtr.pitch,
	    .srcHeight = parms->srcPtr.ysize,
	    .dstXInBytes = parms->dstPos.x,
	    .dstY = parms->dstPos.y,
	    .dstZ = parms->dstPos.z,
	    .dstPitch = parms->dstPtr.pitch,
	    .dstHeight = parms->dstPtr.ysize,
	    .WidthInBytes = parms->extent.width,
	    .Height = parms->extent.height,
	    .Depth = parms->extent.depth,
	};
	const void *to_host = NULL;
	set_side(type_of(parms->kind, false), parms->srcPtr.ptr, &what->srcMemoryType,
	         &what->srcHost, &what->srcDevice);
	set_side(type_of(parms->kind, true), parms->dstPtr.ptr, &what->dstMemoryType, &to_host,
	         &what->dstDevice);
	what->dstHost = (void *)to_host;
	return cudaSuccess;
}

static cudaError_t cudaMemcpy3D_on(enum twin twin, const struct cudaMemcpy3DParms *parms)
{
	CUDA_MEMCPY3D what;
	int error = describe_3d(&what, parms);
	if (error != cudaSuccess)
		return finish(error);
	RUN(driver.cuMemcpy3D[twin](&what));
}
EXPORT_TWINS(cudaMemcpy3D, _ptds, (const struct cudaMemcpy3DParms *parms), parms)

static cudaError_t cudaMemcpy3DAsync_on(enum twin twin, const struct cudaMemcpy3DParms *parms,
                                        cudaStream_t stream)
{
	CUDA_MEMCPY3D what;
	int error = describe_3d(&what, parms);
	if (error != cudaSuccess)
		return finish(error);
	RUN(driver.cuMemcpy3DAsync[twin](&what, stream));
}
EXPORT_TWINS(cudaMemcpy3DAsync, _ptsz, (const struct cudaMemcpy3DParms *parms, cudaStream_t stream),
             parms, stream)

static int both_contexts(int to_device, int from_device, CUcontext *to, CUcontext *from)
{
	int error = enter();
	if (error == cudaSuccess)
		error = primary_context(to_device, to);
	return error != cudaSuccess ? error : primary_context(from_device, from);
}

EXPORT cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device,
                                  size_t size)
{
	CUcontext to_context, from_context;
	int error = both_contexts(to_device, from_device, &to_context, &from_context);
	if (error == cudaSuccess && size)
		error = (int)driver.cuMemcpyPeer[LEGACY]((CUdeviceptr)to, to_context,
		                                         (CUdeviceptr)from, from_context, size);
	return finish(error);
}

EXPORT cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                       size_t size, cudaStream_t stream)
{
	CUcontext to_context, from_context;
	int error = both_contexts(to_device, from_device, &to_context, &from_context);
	if (error == cudaSuccess && size)
		error = (int)driver.cuMemcpyPeerAsync[LEGACY](
		    (CUdeviceptr)to, to_context, (CUdeviceptr)from, from_context, size, stream);
	return finish(error);
}

static cudaError_t cudaMemset_on(enum twin twin, void *to, int value, size_t size)
{
	RUN(size ? driver.cuMemsetD8[twin]((CUdeviceptr)to, (unsigned char)value, size)
	         : CUDA_SUCCESS);
}
EXPORT_TWINS(cudaMemset, _ptds, (void *to, int value, size_t size), to, value, size)

static cudaError_t cudaMemsetAsync_on(enum twin twin, void *to, int value, size_t size,
                                      cudaStream_t stream)
{
	RUN(size ? driver.cuMemsetD8Async[twin]((CUdeviceptr)to, (unsigned char)value, size, stream)
	         : CUDA_SUCCESS);
}
EXPORT_TWINS(cudaMemsetAsync, _ptsz, (void *to, int value, size_t size, cudaStream_t stream), to,
             value, size, stream)

static cudaError_t cudaMemset2D_on(enum twin twin, void *to, size_t pitch, int value, size_t width,
                                   size_t height)
{
	RUN(width && height ? driver.cuMemsetD2D8[twin]((CUdeviceptr)to, pitch,
	                                                (unsigned char)value, width, height)
	                    : CUDA_SUCCESS);
}
EXPORT_TWINS(cudaMemset2D, _ptds, (void *to, size_t pitch, int value, size_t width, size_t height),
             to, pitch, value, width, height)

static cudaError_t cudaMemset2DAsync_on(enum twin twin, void *to, size_t pitch, int value,
                                        size_t width, size_t height, cudaStream_t stream)
{
	RUN(width && height
	        ? driver.cuMemsetD2D8Async[twin]((CUdeviceptr)to, pitch, (unsigned char)value,
	                                         width, height, stream)
	        : CUDA_SUCCESS);
}
EXPORT_TWINS(cudaMemset2DAsync, _ptsz,
             (void *to, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
             to, pitch, value, width, height, stream)

/* The part [offset, offset + size) of a variable. */
static int part_of(const void *symbol, size_t offset, size_t size, void **address)
{
	CUdeviceptr base;
	size_t whole;
	int error = variable_of(symbol, &base, &whole);
	if (error != cudaSuccess)
		return error;
	if (offset > whole || size > whole - offset)
		return cudaErrorInvalidValue;
	*address = (void *)(base + offset);
	return cudaSuccess;
}

static bool kind_goes(enum cudaMemcpyKind kind, enum cudaMemcpyKind direction)
{
	return kind == direction || kind == cudaMemcpyDeviceToDevice || kind == cudaMemcpyDefault;
}

static cudaError_t cudaMemcpyToSymbol_on(enum twin twin, const void *symbol, const void *from,
                                         size_t size, size_t offset, enum cudaMemcpyKind kind)
{
	void *to;
	if (!kind_goes(kind, cudaMemcpyHostToDevice))
		return finish(cudaErrorInvalidMemcpyDirection);
	int error = part_of(symbol, offset, size, &to);
	return error != cudaSuccess ? finish(error) : cudaMemcpy_on(twin, to, from, size, kind);
}
EXPORT_TWINS(cudaMemcpyToSymbol, _ptds,
             (const void *symbol, const void *from, size_t size, size_t offset,
              enum cudaMemcpyKind kind),
             symbol, from, size, offset, kind)

static cudaError_t cudaMemcpyFromSymbol_on(enum twin twin, void *to, const void *symbol,
                                           size_t size, size_t offset, enum cudaMemcpyKind kind)
{
	void *from;
	if (!kind_goes(kind, cudaMemcpyDeviceToHost))
		return finish(cudaErrorInvalidMemcpyDirection);
	int error = part_of(symbol, offset, size, &from);
	return error != cudaSuccess ? finish(error) : cudaMemcpy_on(twin, to, from, size, kind);
}
EXPORT_TWINS(cudaMemcpyFromSymbol, _ptds,
             (void *to, const void *symbol, size_t size, size_t offset, enum cudaMemcpyKind kind),
             to, symbol, size, offset, kind)

static cudaError_t cudaMemcpyToSymbolAsync_on(enum twin twin, const void *symbol, const void *from,
                                              size_t size, size_t offset, enum cudaMemcpyKind kind,
                                              cudaStream_t stream)
{
	void *to;
	if (!kind_goes(kind, cudaMemcpyHostToDevice))
		return finish(cudaErrorInvalidMemcpyDirection);
	int error = part_of(symbol, offset, size, &to);
	return error != cudaSuccess ? finish(error)
	                            : cudaMemcpyAsync_on(twin, to, from, size, kind, stream);
}
EXPORT_TWINS(cudaMemcpyToSymbolAsync, _ptsz,
             (const void *symbol, const void *from, size_t size, size_t offset,
              enum cudaMemcpyKind kind, cudaStream_t stream),
             symbol, from, size, offset, kind, stream)

static cudaError_t cudaMemcpyFromSymbolAsync_on(enum twin twin, void *to, const void *symbol,
                                                size_t size, size_t offset,
                                                enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *from;
	if (!kind_goes(kind, cudaMemcpyDeviceToHost))
		return finish(cudaErrorInvalidMemcpyDirection);
	int error = part_of(symbol, offset, size, &from);
	return error != cudaSuccess ? finish(error)
	                            : cudaMemcpyAsync_on(twin, to, from, size, kind, stream);
}
EXPORT_TWINS(cudaMemcpyFromSymbolAsync, _ptsz,
             (void *to, const void *symbol, size_t size, size_t offset, enum cudaMemcpyKind kind,
              cudaStream_t stream),
             to, symbol, size, offset, kind, stream)
