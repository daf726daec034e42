/* Allocation, free, and what the program is told of its memory. */
#include "shim/shim.h"

#include "core/job.h"
#include "core/memory/physical.h"
#include "core/memory/pointer.h"
#include "core/memory/vmem.h"

/* --- cuMemAlloc, cuMemAllocPitch, cuMemFree --- */

static CUresult native_alloc(void *cookie, CUdeviceptr *address)
{
	return REAL(cuMemAlloc_v2)(address, *(size_t *)cookie);
}

HOOK(cuMemAlloc_v2, CUdeviceptr *dptr, size_t bytesize)
{
	KEEP_ERRNO;
	struct vmem_request request = {bytesize, native_alloc, &bytesize};

	if (!job_is_active())
		return REAL(cuMemAlloc_v2)(dptr, bytesize);
	return vmem_allocate(&request, dptr);
}

struct pitch_request {
	size_t pitch, width, height;
	unsigned int element;
};

static CUresult native_alloc_pitch(void *cookie, CUdeviceptr *address)
{
	struct pitch_request *p = cookie;

	return REAL(cuMemAllocPitch_v2)(address, &p->pitch, p->width, p->height, p->element);
}

HOOK(cuMemAllocPitch_v2, CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
     unsigned int ElementSizeBytes)
{
	KEEP_ERRNO;

	/* Rows on 512 bytes satisfy every alignment the driver documents for pitched memory. */
	struct pitch_request pitch = {(WidthInBytes + 511) / 512 * 512, WidthInBytes, Height,
	                              ElementSizeBytes};
	struct vmem_request request = {0, native_alloc_pitch, &pitch};
	bool valid = ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16;
	CUresult result;

	if (!job_is_active() || !pPitch || !dptr || !valid || pitch.pitch < WidthInBytes ||
	    __builtin_mul_overflow(pitch.pitch, Height, &request.size))
		return REAL(cuMemAllocPitch_v2)(dptr, pPitch, WidthInBytes, Height,
		                                ElementSizeBytes);
	result = vmem_allocate(&request, dptr);
	if (result == CUDA_SUCCESS)
		*pPitch = pitch.pitch;
	return result;
}

static CUresult native_free(void *cookie, CUdeviceptr address)
{
	(void)cookie;
	return REAL(cuMemFree_v2)(address);
}

HOOK(cuMemFree_v2, CUdeviceptr dptr)
{
	KEEP_ERRNO;
	const struct vmem_free how = {.native = native_free};

	if (!job_is_active())
		return REAL(cuMemFree_v2)(dptr);
	return vmem_free(dptr, &how);
}

/* --- stream-ordered allocation --- */

typedef CUresult alloc_async(CUdeviceptr *dptr, size_t bytesize, CUstream hStream);
typedef CUresult alloc_from_pool(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream);
typedef CUresult free_async(CUdeviceptr dptr, CUstream hStream);

struct async_request {
	size_t size;
	CUmemoryPool pool;
	CUstream stream;
	alloc_async *alloc;         /* from the default pool */
	alloc_from_pool *from_pool; /* from `pool` */
};

static CUresult native_alloc_async(void *cookie, CUdeviceptr *address)
{
	struct async_request *r = cookie;

	return r->alloc(address, r->size, r->stream);
}

static CUresult native_alloc_from_pool(void *cookie, CUdeviceptr *address)
{
	struct async_request *r = cookie;

	return r->from_pool(address, r->size, r->pool, r->stream);
}

/* Captured allocations become graph nodes: nothing is allocated now. */
static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return REAL(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/* stream: as the pacer names it, with NULL replaced. */
static CUresult allocate_async(const struct vmem_request *request, CUdeviceptr *dptr,
                               CUstream stream)
{
	KEEP_ERRNO;

	if (!job_is_active() || is_capturing(stream))
		return request->native(request->cookie, dptr);
	return vmem_allocate(request, dptr);
}

HOOK(cuMemAllocAsync, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct async_request r = {
	    .size = bytesize, .stream = hStream, .alloc = REAL(cuMemAllocAsync)};
	struct vmem_request request = {bytesize, native_alloc_async, &r};

	return allocate_async(&request, dptr, LEGACY(hStream));
}

HOOK(cuMemAllocAsync_ptsz, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct async_request r = {
	    .size = bytesize, .stream = hStream, .alloc = REAL(cuMemAllocAsync_ptsz)};
	struct vmem_request request = {bytesize, native_alloc_async, &r};

	return allocate_async(&request, dptr, PER_THREAD(hStream));
}

HOOK(cuMemAllocFromPoolAsync, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
     CUstream hStream)
{
	struct async_request r = {bytesize, pool, hStream, NULL, REAL(cuMemAllocFromPoolAsync)};
	struct vmem_request request = {bytesize, native_alloc_from_pool, &r};

	return allocate_async(&request, dptr, LEGACY(hStream));
}

HOOK(cuMemAllocFromPoolAsync_ptsz, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
     CUstream hStream)
{
	struct async_request r = {bytesize, pool, hStream, NULL,
	                          REAL(cuMemAllocFromPoolAsync_ptsz)};
	struct vmem_request request = {bytesize, native_alloc_from_pool, &r};

	return allocate_async(&request, dptr, PER_THREAD(hStream));
}

struct async_free {
	CUstream stream;
	free_async *native;
};

static CUresult native_free_async(void *cookie, CUdeviceptr address)
{
	struct async_free *f = cookie;

	return f->native(address, f->stream);
}

static CUresult release_async(CUdeviceptr dptr, struct async_free *f, CUstream stream)
{
	KEEP_ERRNO;
	const struct vmem_free how = {native_free_async, f, stream};

	if (!job_is_active() || is_capturing(stream))
		return f->native(dptr, f->stream);
	return vmem_free(dptr, &how);
}

HOOK(cuMemFreeAsync, CUdeviceptr dptr, CUstream hStream)
{
	struct async_free f = {hStream, REAL(cuMemFreeAsync)};

	return release_async(dptr, &f, LEGACY(hStream));
}

HOOK(cuMemFreeAsync_ptsz, CUdeviceptr dptr, CUstream hStream)
{
	struct async_free f = {hStream, REAL(cuMemFreeAsync_ptsz)};

	return release_async(dptr, &f, PER_THREAD(hStream));
}

/* --- physical memory of the application --- */

HOOK(cuMemCreate, CUmemGenericAllocationHandle *handle, size_t size,
     const CUmemAllocationProp *prop, unsigned long long flags)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return REAL(cuMemCreate)(handle, size, prop, flags);
	return physical_create(job_devices(), handle, size, prop, flags, REAL(cuMemCreate));
}

HOOK(cuMemRelease, CUmemGenericAllocationHandle handle)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemRelease)(handle);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_released(handle);
	return result;
}

HOOK(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *handle, void *addr)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemRetainAllocationHandle)(handle, addr);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_retained(*handle);
	return result;
}

HOOK(cuMemMap, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
     unsigned long long flags)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemMap)(ptr, size, offset, handle, flags);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_mapped(ptr, size, handle);
	return result;
}

HOOK(cuMemUnmap, CUdeviceptr ptr, size_t size)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemUnmap)(ptr, size);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_unmapped(ptr, size);
	return result;
}

/* --- what the program is told --- */

HOOK(cuMemGetInfo_v2, size_t *free, size_t *total)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemGetInfo_v2)(free, total);
	struct context context;

	if (result == CUDA_SUCCESS && free && total && job_is_active() && context_current(&context))
		vmem_reported_info(context.device, free, total);
	return result;
}

HOOK(cuDeviceTotalMem_v2, size_t *bytes, CUdevice dev)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuDeviceTotalMem_v2)(bytes, dev);

	if (result == CUDA_SUCCESS && job_is_active()) {
		struct device *device = device_set_by_handle(job_devices(), dev);

		if (device)
			*bytes = vmem_reported_total(device, *bytes);
	}
	return result;
}

HOOK(cuMemGetAddressRange_v2, CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	KEEP_ERRNO;

	if (job_is_active() && pointer_range(dptr, pbase, psize))
		return CUDA_SUCCESS;
	return REAL(cuMemGetAddressRange_v2)(pbase, psize, dptr);
}

HOOK(cuPointerGetAttribute, void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	KEEP_ERRNO;
	CUresult result;

	if (job_is_active() && pointer_attribute(attribute, ptr, data, &result))
		return result;
	return REAL(cuPointerGetAttribute)(data, attribute, ptr);
}

/* The driver answers all it knows; what depends on the backing is put right after. */
HOOK(cuPointerGetAttributes, unsigned int numAttributes, CUpointer_attribute *attributes,
     void **data, CUdeviceptr ptr)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuPointerGetAttributes)(numAttributes, attributes, data, ptr);
	CUresult ignored;

	if (result != CUDA_SUCCESS || !job_is_active())
		return result;
	for (unsigned int i = 0; i < numAttributes; i++) {
		if (attributes[i] == CU_POINTER_ATTRIBUTE_HOST_POINTER &&
		    pointer_range(ptr, NULL, NULL))
			*(void **)data[i] = NULL;
		else
			pointer_attribute(attributes[i], ptr, data[i], &ignored);
	}
	return result;
}
