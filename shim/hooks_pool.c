/*
 * Stream-ordered allocation, and the pools it draws from. What a capture allocates or frees is a
 * node of its graph.
 */
#include "shim/shim.h"

#include "core/job/job.h"
#include "core/memory/uses/graph_memory.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/uses/pool.h"
#include "core/memory/uses/side.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/free.h"
#include "shim/allocate.h"

typedef CUresult alloc_async(CUdeviceptr *dptr, size_t bytesize, CUstream hStream);
typedef CUresult alloc_from_pool(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream);
typedef CUresult free_async(CUdeviceptr dptr, CUstream hStream);

struct async_request {
	size_t size;
	CUmemoryPool pool;
	CUstream stream;
	bool names_pool;
	alloc_from_pool *from_pool; /* names_pool: from `pool` */
	alloc_async *alloc;         /* else: from the current pool */
};

static CUresult native(void *cookie, CUdeviceptr *address)
{
	struct async_request *r = cookie;

	return r->names_pool ? r->from_pool(address, r->size, r->pool, r->stream)
	                     : r->alloc(address, r->size, r->stream);
}

/*
 * Returns whether the stream is being captured: then allocations become graph nodes, and nothing is
 * allocated now.
 */
static bool is_capturing(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return REAL(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

/*
 * Returns the pool that cuMemAllocAsync draws from: of the stream's device, which need not be the
 * current one.
 */
static struct pool *current_pool(CUstream stream)
{
	struct context context;
	CUcontext of_stream;

	if (REAL(cuStreamGetCtx)(stream, &of_stream) == CUDA_SUCCESS &&
	    context_find(of_stream, &context))
		return pool_current(context.device);
	return context_current(&context) ? pool_current(context.device) : NULL;
}

/* Allocates in the order of a stream. stream: as the pacer names it, with NULL replaced. */
static CUresult allocate(struct async_request *r, CUdeviceptr *dptr, CUstream stream)
{
	KEEP_ERRNO;
	struct vmem_request request = {
	    .size = r->size, .native = native, .cookie = r, .stream = stream};
	CUresult result;

	if (!job_is_active() || !dptr || !r->size)
		return native(r, dptr);
	if (is_capturing(stream)) {
		graph_memory_expect();
		return native(r, dptr);
	}
	request.pool = r->names_pool ? pool_find(r->pool) : current_pool(stream);
	/* A pool that is not known is none of a device's; and there may be no pools at all. */
	if (!request.pool)
		return native(r, dptr);
	result = allocate_acted_on(&request, dptr);
	pool_release(request.pool);
	return result;
}

HOOK(cuMemAllocAsync, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct async_request r = {
	    .size = bytesize, .stream = hStream, .alloc = REAL(cuMemAllocAsync)};

	return allocate(&r, dptr, LEGACY(hStream));
}

HOOK(cuMemAllocAsync_ptsz, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	struct async_request r = {
	    .size = bytesize, .stream = hStream, .alloc = REAL(cuMemAllocAsync_ptsz)};

	return allocate(&r, dptr, PER_THREAD(hStream));
}

HOOK(cuMemAllocFromPoolAsync, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
     CUstream hStream)
{
	struct async_request r = {.size = bytesize,
	                          .pool = pool,
	                          .stream = hStream,
	                          .names_pool = true,
	                          .from_pool = REAL(cuMemAllocFromPoolAsync)};

	return allocate(&r, dptr, LEGACY(hStream));
}

HOOK(cuMemAllocFromPoolAsync_ptsz, CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
     CUstream hStream)
{
	struct async_request r = {.size = bytesize,
	                          .pool = pool,
	                          .stream = hStream,
	                          .names_pool = true,
	                          .from_pool = REAL(cuMemAllocFromPoolAsync_ptsz)};

	return allocate(&r, dptr, PER_THREAD(hStream));
}

struct async_free {
	CUstream stream;
	free_async *native;
};

static CUresult native_free_async(void *cookie, CUdeviceptr address)
{
	struct async_free *f = cookie;

	return PASSING_GATE(f->native(address, f->stream));
}

static CUresult release_async(CUdeviceptr dptr, struct async_free *f, CUstream stream)
{
	KEEP_ERRNO;
	const struct vmem_free how = {native_free_async, f, stream};

	if (!job_is_active() || is_capturing(stream))
		return PASSING_GATE(f->native(dptr, f->stream));
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

/* --- the pools --- */

/* Learns of a pool that the program was given; of which device, if of any, the location says. */
static CUresult learn(CUresult result, const CUmemoryPool *pool, const CUmemLocation *location,
                      bool is_new)
{
	KEEP_ERRNO;
	struct device *device;

	if (result != CUDA_SUCCESS || !job_is_active() || !pool || !*pool || !location ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return result;
	device = device_set_by_handle(job_devices(), location->id);
	if (!device)
		return result;
	if (is_new)
		pool_made(device, *pool);
	else
		pool_met(device, *pool);
	return result;
}

static CUresult learn_of_device(CUresult result, const CUmemoryPool *pool, CUdevice device)
{
	const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

	return learn(result, pool, &location, false);
}

/* Learns of a pool of any type: managed ones are on a device, too. */
static CUresult learn_typed(CUresult result, const CUmemoryPool *pool,
                            const CUmemLocation *location, CUmemAllocationType type)
{
	struct pool *known;

	learn(result, pool, location, false);
	if (result != CUDA_SUCCESS || type == CU_MEM_ALLOCATION_TYPE_PINNED || !pool ||
	    !job_is_active())
		return result;
	known = pool_find(*pool);
	if (known)
		pool_leave_to_driver(known);
	pool_release(known);
	return result;
}

HOOK(cuMemPoolCreate, CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	CUresult result = learn(REAL(cuMemPoolCreate)(pool, poolProps), pool,
	                        poolProps ? &poolProps->location : NULL, true);
	struct pool *known;

	if (result != CUDA_SUCCESS || !pool || !poolProps || !job_is_active())
		return result;
	known = pool_find(*pool);
	if (!known)
		return result;
	pool_bound(known, poolProps->maxSize);
	if (poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || poolProps->usage)
		pool_leave_to_driver(known);
	if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		pool_share(known);
	pool_release(known);
	return result;
}

HOOK(cuMemPoolDestroy, CUmemoryPool pool)
{
	KEEP_ERRNO;
	struct leaving imported, own;
	CUresult result;

	if (!job_is_active())
		return PASSING_GATE(REAL(cuMemPoolDestroy)(pool));
	imported = side_leave(&side_type_imported_memory, (uintptr_t)pool);
	own = pool_leave(pool);
	result = PASSING_GATE(REAL(cuMemPoolDestroy)(pool));
	side_left(&imported, result == CUDA_SUCCESS);
	pool_left(&own, result == CUDA_SUCCESS);
	if (result == CUDA_SUCCESS)
		freed_waited();
	return result;
}

HOOK(cuDeviceGetDefaultMemPool, CUmemoryPool *pool_out, CUdevice dev)
{
	return learn_of_device(REAL(cuDeviceGetDefaultMemPool)(pool_out, dev), pool_out, dev);
}

HOOK(cuDeviceGetMemPool, CUmemoryPool *pool, CUdevice dev)
{
	return learn_of_device(REAL(cuDeviceGetMemPool)(pool, dev), pool, dev);
}

HOOK(cuDeviceSetMemPool, CUdevice dev, CUmemoryPool pool)
{
	return learn_of_device(REAL(cuDeviceSetMemPool)(dev, pool), &pool, dev);
}

HOOK(cuMemGetDefaultMemPool, CUmemoryPool *pool_out, CUmemLocation *location,
     CUmemAllocationType type)
{
	return learn_typed(REAL(cuMemGetDefaultMemPool)(pool_out, location, type), pool_out,
	                   location, type);
}

HOOK(cuMemGetMemPool, CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	return learn_typed(REAL(cuMemGetMemPool)(pool, location, type), pool, location, type);
}

HOOK(cuMemSetMemPool, CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	return learn_typed(REAL(cuMemSetMemPool)(location, type, pool), &pool, location, type);
}

/* The driver may keep less, by what is kept here. */
HOOK(cuMemPoolTrimTo, CUmemoryPool pool, size_t minBytesToKeep)
{
	KEEP_ERRNO;
	struct pool *known = job_is_active() ? pool_find(pool) : NULL;
	size_t keep = minBytesToKeep;
	CUresult result;

	if (known) {
		uint64_t ours = pool_elastic_reserved(known);

		keep = keep > ours ? keep - ours : 0;
	}
	result = PASSING_GATE(REAL(cuMemPoolTrimTo)(pool, keep));
	if (known && result == CUDA_SUCCESS) {
		pools_settle();
		freed_trim(known, minBytesToKeep);
	}
	pool_release(known);
	return result;
}

HOOK(cuMemPoolGetAttribute, CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	KEEP_ERRNO;
	struct pool *known = job_is_active() ? pool_find(pool) : NULL;
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	if (known)
		result = pool_get_attribute(known, attr, value);
	pool_release(known);
	return result == CUDA_ERROR_NOT_SUPPORTED ? REAL(cuMemPoolGetAttribute)(pool, attr, value)
	                                          : result;
}

HOOK(cuMemPoolSetAttribute, CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	KEEP_ERRNO;
	struct pool *known = job_is_active() ? pool_find(pool) : NULL;
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	if (known)
		result = pool_set_attribute(known, attr, value);
	pool_release(known);
	return result == CUDA_ERROR_NOT_SUPPORTED ? REAL(cuMemPoolSetAttribute)(pool, attr, value)
	                                          : result;
}

HOOK(cuDeviceGraphMemTrim, CUdevice device)
{
	KEEP_ERRNO;
	CUresult result = PASSING_GATE(REAL(cuDeviceGraphMemTrim)(device));

	if (job_is_active())
		graph_memory_settle();
	return result;
}

/* Rights to a pool are rights to what was spilled instead of being allocated from it. */
HOOK(cuMemPoolSetAccess, CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemPoolSetAccess)(pool, map, count);
	struct pool *known;

	if (result != CUDA_SUCCESS || !map || !job_is_active())
		return result;
	known = pool_find(pool);
	for (size_t i = 0; known && i < count; i++) {
		struct device *reader =
		    map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE
		        ? device_set_by_handle(job_devices(), map[i].location.id)
		        : NULL;

		if (reader && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			elastic_open_to(pool_device(known), reader);
	}
	pool_release(known);
	return result;
}
