/* SPDX-License-Identifier: MIT */
/* Memory: allocated, freed, described. */
#include <string.h>

#include "tests/softgpu/cudart/cudart.h"
#include "tests/softgpu/cudart/layouts.h"

/* The driver refuses sizes of 0, the runtime answers NULL. */
static cudaError_t nothing(void **pointer)
{
	int error = enter();
	if (error == cudaSuccess)
		*pointer = NULL;
	return finish(error);
}

EXPORT cudaError_t cudaMalloc(void **pointer, size_t size)
{
	if (!pointer)
		return finish(cudaErrorInvalidValue);
	if (size == 0)
		return nothing(pointer);
	RUN(driver.cuMemAlloc((CUdeviceptr *)pointer, size));
}

EXPORT cudaError_t cudaFree(void *pointer)
{
	RUN(pointer ? driver.cuMemFree((CUdeviceptr)pointer) : CUDA_SUCCESS);
}

EXPORT cudaError_t cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
	if (!pointer || !pitch)
		return finish(cudaErrorInvalidValue);
	if (width == 0 || height == 0) {
		*pitch = 0;
		return nothing(pointer);
	}
	RUN(driver.cuMemAllocPitch((CUdeviceptr *)pointer, pitch, width, height, 4));
}

EXPORT cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pointer, struct cudaExtent extent)
{
	if (!pointer)
		return finish(cudaErrorInvalidValue);
	struct cudaPitchedPtr made = {.xsize = extent.width, .ysize = extent.height};
	cudaError_t error =
	    cudaMallocPitch(&made.ptr, &made.pitch, extent.width, extent.height * extent.depth);
	if (error == cudaSuccess)
		*pointer = made;
	return error;
}

EXPORT cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned int flags)
{
	if (!pointer)
		return finish(cudaErrorInvalidValue);
	RUN(driver.cuMemAllocManaged((CUdeviceptr *)pointer, size, flags));
}

EXPORT cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned int flags)
{
	if (!pointer)
		return finish(cudaErrorInvalidValue);
	if (size == 0)
		return nothing(pointer);
	RUN(driver.cuMemHostAlloc(pointer, size, flags));
}

EXPORT cudaError_t cudaMallocHost(void **pointer, size_t size)
{
	return cudaHostAlloc(pointer, size, cudaHostAllocDefault);
}

EXPORT cudaError_t cudaFreeHost(void *pointer)
{
	RUN(pointer ? driver.cuMemFreeHost(pointer) : CUDA_SUCCESS);
}

EXPORT cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned int flags)
{
	RUN(driver.cuMemHostRegister(pointer, size, flags));
}

EXPORT cudaError_t cudaHostUnregister(void *pointer)
{
	RUN(driver.cuMemHostUnregister(pointer));
}

EXPORT cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned int flags)
{
	RUN(driver.cuMemHostGetDevicePointer((CUdeviceptr *)device, host, flags));
}

EXPORT cudaError_t cudaHostGetFlags(unsigned int *flags, void *pointer)
{
	RUN(driver.cuMemHostGetFlags(flags, pointer));
}

EXPORT cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
	RUN(driver.cuMemGetInfo(available, total));
}

static cudaError_t cudaMallocAsync_on(enum twin twin, void **pointer, size_t size,
                                      cudaStream_t stream)
{
	if (!pointer)
		return finish(cudaErrorInvalidValue);
	if (size == 0)
		return nothing(pointer);
	RUN(driver.cuMemAllocAsync[twin]((CUdeviceptr *)pointer, size, stream));
}
EXPORT_TWINS(cudaMallocAsync, _ptsz, (void **pointer, size_t size, cudaStream_t stream), pointer,
             size, stream)

static cudaError_t cudaMallocFromPoolAsync_on(enum twin twin, void **pointer, size_t size,
                                              cudaMemPool_t pool, cudaStream_t stream)
{
	if (!pointer)
		return finish(cudaErrorInvalidValue);
	if (size == 0)
		return nothing(pointer);
	RUN(driver.cuMemAllocFromPoolAsync[twin]((CUdeviceptr *)pointer, size, pool, stream));
}
EXPORT_TWINS(cudaMallocFromPoolAsync, _ptsz,
             (void **pointer, size_t size, cudaMemPool_t pool, cudaStream_t stream), pointer, size,
             pool, stream)

static cudaError_t cudaFreeAsync_on(enum twin twin, void *pointer, cudaStream_t stream)
{
	RUN(pointer ? driver.cuMemFreeAsync[twin]((CUdeviceptr)pointer, stream) : CUDA_SUCCESS);
}
EXPORT_TWINS(cudaFreeAsync, _ptsz, (void *pointer, cudaStream_t stream), pointer, stream)

EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
	RUN(driver.cuMemPoolCreate(pool, (const CUmemPoolProps *)props));
}

EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	RUN(driver.cuMemPoolDestroy(pool));
}

EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
	RUN(driver.cuMemPoolTrimTo(pool, keep));
}

EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                           void *value)
{
	RUN(driver.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute,
                                           void *value)
{
	RUN(driver.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value));
}

EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
                                        size_t count)
{
	RUN(driver.cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)access, count));
}

EXPORT cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
                                        struct cudaMemLocation *location)
{
	RUN(driver.cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool, (CUmemLocation *)location));
}

EXPORT cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
                                                      enum cudaMemAllocationHandleType type,
                                                      unsigned int flags)
{
	RUN(driver.cuMemPoolExportToShareableHandle(handle, pool, (CUmemAllocationHandleType)type,
	                                            flags));
}

EXPORT cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
                                                        enum cudaMemAllocationHandleType type,
                                                        unsigned int flags)
{
	RUN(driver.cuMemPoolImportFromShareableHandle(pool, handle, (CUmemAllocationHandleType)type,
	                                              flags));
}

EXPORT cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *data, void *pointer)
{
	RUN(driver.cuMemPoolExportPointer((CUmemPoolPtrExportData *)data, (CUdeviceptr)pointer));
}

EXPORT cudaError_t cudaMemPoolImportPointer(void **pointer, cudaMemPool_t pool,
                                            struct cudaMemPoolPtrExportData *data)
{
	RUN(driver.cuMemPoolImportPointer((CUdeviceptr *)pointer, pool,
	                                  (CUmemPoolPtrExportData *)data));
}

CUmemLocation location_of(struct cudaMemLocation location)
{
	return (CUmemLocation){(CUmemLocationType)location.type, location.id};
}

EXPORT cudaError_t cudaMemAdvise(const void *pointer, size_t size, enum cudaMemoryAdvise advice,
                                 struct cudaMemLocation location)
{
	RUN(driver.cuMemAdvise((CUdeviceptr)pointer, size, (CUmem_advise)advice,
	                       location_of(location)));
}

static cudaError_t cudaMemPrefetchAsync_on(enum twin twin, const void *pointer, size_t size,
                                           struct cudaMemLocation location, unsigned int flags,
                                           cudaStream_t stream)
{
	RUN(driver.cuMemPrefetchAsync[twin]((CUdeviceptr)pointer, size, location_of(location),
	                                    flags, stream));
}
EXPORT_TWINS(cudaMemPrefetchAsync, _ptsz,
             (const void *pointer, size_t size, struct cudaMemLocation location, unsigned int flags,
              cudaStream_t stream),
             pointer, size, location, flags, stream)

#if CUDART_MAJOR != 12
/* Locations are laid out alike. */
_Static_assert(sizeof(struct cudaMemLocation) == sizeof(CUmemLocation), "a location");

static cudaError_t cudaMemPrefetchBatchAsync_on(enum twin twin, void **pointers, size_t *sizes,
                                                size_t count, struct cudaMemLocation *locations,
                                                size_t *first, size_t location_count,
                                                unsigned long long flags, cudaStream_t stream)
{
	RUN(driver.cuMemPrefetchBatchAsync[twin]((CUdeviceptr *)pointers, sizes, count,
	                                         (CUmemLocation *)locations, first, location_count,
	                                         flags, stream));
}
EXPORT_TWINS(cudaMemPrefetchBatchAsync, _ptsz,
             (void **pointers, size_t *sizes, size_t count, struct cudaMemLocation *locations,
              size_t *first, size_t location_count, unsigned long long flags, cudaStream_t stream),
             pointers, sizes, count, locations, first, location_count, flags, stream)

static cudaError_t cudaMemDiscardBatchAsync_on(enum twin twin, void **pointers, size_t *sizes,
                                               size_t count, unsigned long long flags,
                                               cudaStream_t stream)
{
	RUN(driver.cuMemDiscardBatchAsync[twin]((CUdeviceptr *)pointers, sizes, count, flags,
	                                        stream));
}
EXPORT_TWINS(cudaMemDiscardBatchAsync, _ptsz,
             (void **pointers, size_t *sizes, size_t count, unsigned long long flags,
              cudaStream_t stream),
             pointers, sizes, count, flags, stream)

static cudaError_t cudaMemDiscardAndPrefetchBatchAsync_on(
    enum twin twin, void **pointers, size_t *sizes, size_t count, struct cudaMemLocation *locations,
    size_t *first, size_t location_count, unsigned long long flags, cudaStream_t stream)
{
	RUN(driver.cuMemDiscardAndPrefetchBatchAsync[twin]((CUdeviceptr *)pointers, sizes, count,
	                                                   (CUmemLocation *)locations, first,
	                                                   location_count, flags, stream));
}
EXPORT_TWINS(cudaMemDiscardAndPrefetchBatchAsync, _ptsz,
             (void **pointers, size_t *sizes, size_t count, struct cudaMemLocation *locations,
              size_t *first, size_t location_count, unsigned long long flags, cudaStream_t stream),
             pointers, sizes, count, locations, first, location_count, flags, stream)
#endif

EXPORT cudaError_t cudaMemRangeGetAttribute(void *data, size_t data_size,
                                            enum cudaMemRangeAttribute attribute,
                                            const void *pointer, size_t size)
{
	RUN(driver.cuMemRangeGetAttribute(data, data_size, (CUmem_range_attribute)attribute,
	                                  (CUdeviceptr)pointer, size));
}

EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                            const void *pointer)
{
	if (!attributes)
		return finish(cudaErrorInvalidValue);
	/* What is not known to the driver leaves these as they are: it is plain host memory. */
	unsigned int type = 0, managed = 0;
	int device = cudaInvalidDeviceId;
	void *on_device = NULL, *on_host = NULL;
	CUpointer_attribute names[] = {
	    CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
	    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
	    CU_POINTER_ATTRIBUTE_HOST_POINTER,
	};
	void *values[] = {&type, &managed, &device, &on_device, &on_host};
	int error = enter();
	if (error == cudaSuccess)
		error = (int)driver.cuPointerGetAttributes(sizeof(names) / sizeof(*names), names,
		                                           values, (CUdeviceptr)pointer);
	if (error != cudaSuccess)
		return finish(error);
	struct cudaPointerAttributes a = {
	    .type = managed                        ? cudaMemoryTypeManaged
	            : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
	            : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
	                                           : cudaMemoryTypeUnregistered,
	    .device = device,
	    .devicePointer = on_device,
	    .hostPointer = on_host,
	};
	memcpy(attributes, &a, SIZE_cudaPointerAttributes);
	return cudaSuccess;
}

EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer)
{
	RUN(driver.cuIpcGetMemHandle((CUipcMemHandle *)handle, (CUdeviceptr)pointer));
}

EXPORT cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle,
                                        unsigned int flags)
{
	union {
		cudaIpcMemHandle_t runtime;
		CUipcMemHandle driver;
	} same = {handle};
	RUN(driver.cuIpcOpenMemHandle((CUdeviceptr *)pointer, same.driver, flags));
}

EXPORT cudaError_t cudaIpcCloseMemHandle(void *pointer)
{
	RUN(driver.cuIpcCloseMemHandle((CUdeviceptr)pointer));
}

/* There are no textures, but this cannot say so: it answers a structure. */
EXPORT struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                          enum cudaChannelFormatKind kind)
{
	return (struct cudaChannelFormatDesc){x, y, z, w, kind};
}
