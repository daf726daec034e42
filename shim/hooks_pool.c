/* SPDX-License-Identifier: MIT */
/*
 * Stream-ordered allocation, and its pools. An allocation or a free in a capture is a node of its
 * graph.
 */
#include "shim/shim.h"

#include "core/job/job.h"
#include "core/memory/uses/graph_memory.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/uses/pool.h"
#include "core/memory/uses/counted.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/managed.h"
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

/* Allocates managed memory, which is charged as such, and not with its pool. */
static CUresult allocate_managed(struct async_request *r, CUdeviceptr *dptr, struct pool *pool,
                                 CUmemLocation preferred)
{
	CUresult result = native(r, dptr);

	if (result == CUDA_SUCCESS)
		managed_made_by_pool(pool, *dptr, r->size, preferred);
	return result;
}

/* Allocates in the order of a stream. stream: as the pacer names it, with NULL replaced. */
static CUresult pool_do_allocate(struct async_request *r, CUdeviceptr *dptr, CUstream stream)
{
	KEEP_ERRNO;
	struct vmem_request request = {
	    .size = r->size, .native = native, .cookie = r, .stream = stream};
	CUmemLocation location;
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
	result = pool_is_managed(request.pool, &location)
	             ? allocate_managed(r, dptr, request.pool, location)
	             : allocate_acted_on(&request, dptr);
	pool_release(request.pool);
	return result;
}

BOTH(cuMemAllocAsync, cuMemAllocAsync_ptsz, (CUdeviceptr *, dptr), (size_t, bytesize),
     (CUstream, hStream))
{
	struct async_request r = {.size = bytesize, .stream = hStream, .alloc = real};

	return pool_do_allocate(&r, dptr, NAMED(hStream));
}

BOTH(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz, (CUdeviceptr *, dptr),
     (size_t, bytesize), (CUmemoryPool, pool), (CUstream, hStream))
{
	struct async_request r = {.size = bytesize,
	                          .pool = pool,
	                          .stream = hStream,
	                          .names_pool = true,
	                          .from_pool = real};

	return pool_do_allocate(&r, dptr, NAMED(hStream));
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

BOTH(cuMemFreeAsync, cuMemFreeAsync_ptsz, (CUdeviceptr, dptr), (CUstream, hStream))
{
	KEEP_ERRNO;
	struct async_free f = {hStream, real};
	const struct vmem_free how = {native_free_async, &f, NAMED(hStream)};

	if (!job_is_active() || is_capturing(how.wait))
		return PASSING_GATE(real(dptr, hStream));
	return vmem_free(dptr, &how);
}

/* --- the pools --- */

/* Returns the device on which a pool is; NULL: it is on none, or on none of the job's. */
static struct device *pool_device_of(const CUmemLocation *location)
{
	return location ? device_set_by_location(job_devices(), location) : NULL;
}

/*
 * Returns the device by which a pool is known. A managed one need not be on a device: its memory
 * counts where it is allocated.
 */
static struct device *device_for(const CUmemLocation *location, CUmemAllocationType type)
{
	struct device *device = pool_device_of(location);

	if (!device && location && type == CU_MEM_ALLOCATION_TYPE_MANAGED && job_devices()->count)
		device = &job_devices()->device[0];
	return device;
}

/* Learns of a pool that the program was given. */
static void pool_meet(const CUmemoryPool *pool, const CUmemLocation *location,
                      CUmemAllocationType type)
{
	if (pool && *pool)
		pool_met(device_for(location, type), *pool, type, location);
}

static void meet_on(const CUmemoryPool *pool, CUdevice device)
{
	const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};

	pool_meet(pool, &location, CU_MEM_ALLOCATION_TYPE_PINNED);
}

AFTER(cuMemPoolCreate, (CUmemoryPool *, pool), (const CUmemPoolProps *, poolProps))
{
	struct pool *known;

	if (!pool || !poolProps)
		return;
	pool_made(device_for(&poolProps->location, poolProps->allocType), *pool, poolProps);
	known = poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE ? pool_find(*pool) : NULL;
	if (known)
		pool_share(known);
	pool_release(known);
}

HOOK(cuMemPoolDestroy, CUmemoryPool pool)
{
	KEEP_ERRNO;
	struct leaving imported, own;
	CUresult result;

	if (!job_is_active())
		return PASSING_GATE(REAL(cuMemPoolDestroy)(pool));
	imported = context_leave_object(&counted_type_imported_memory, (uintptr_t)pool);
	own = pool_leave(pool);
	result = PASSING_GATE(REAL(cuMemPoolDestroy)(pool));
	counted_left(&imported, result == CUDA_SUCCESS);
	pool_left(&own, result == CUDA_SUCCESS);
	if (result == CUDA_SUCCESS)
		freed_waited();
	return result;
}

AFTER(cuDeviceGetDefaultMemPool, (CUmemoryPool *, pool_out), (CUdevice, dev))
{
	meet_on(pool_out, dev);
}

AFTER(cuDeviceGetMemPool, (CUmemoryPool *, pool), (CUdevice, dev))
{
	meet_on(pool, dev);
}

AFTER(cuDeviceSetMemPool, (CUdevice, dev), (CUmemoryPool, pool))
{
	meet_on(&pool, dev);
}

AFTER(cuMemGetDefaultMemPool, (CUmemoryPool *, pool_out), (CUmemLocation *, location),
      (CUmemAllocationType, type))
{
	pool_meet(pool_out, location, type);
}

AFTER(cuMemGetMemPool, (CUmemoryPool *, pool), (CUmemLocation *, location),
      (CUmemAllocationType, type))
{
	pool_meet(pool, location, type);
}

AFTER(cuMemSetMemPool, (CUmemLocation *, location), (CUmemAllocationType, type),
      (CUmemoryPool, pool))
{
	pool_meet(&pool, location, type);
}

/* The driver may keep less, by the bytes kept here. */
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

#define ANSWERS(symbol, answer)                                                                  \
	HOOK(symbol, CUmemoryPool pool, CUmemPool_attribute attr, void *value)                   \
	{                                                                                        \
		KEEP_ERRNO;                                                                      \
		struct pool *known = job_is_active() ? pool_find(pool) : NULL;                   \
		CUresult result = known ? answer(known, attr, value) : CUDA_ERROR_NOT_SUPPORTED; \
                                                                                                 \
		pool_release(known);                                                             \
		return result == CUDA_ERROR_NOT_SUPPORTED ? REAL(symbol)(pool, attr, value)      \
		                                          : result;                              \
	}

ANSWERS(cuMemPoolGetAttribute, pool_get_attribute)
ANSWERS(cuMemPoolSetAttribute, pool_set_attribute)

HOOK(cuDeviceGraphMemTrim, CUdevice device)
{
	KEEP_ERRNO;
	CUresult result = PASSING_GATE(REAL(cuDeviceGraphMemTrim)(device));

	if (job_is_active())
		graph_memory_settle();
	return result;
}

/* Rights to a pool are rights to memory that was spilled instead of being allocated from it. */
AFTER(cuMemPoolSetAccess, (CUmemoryPool, pool), (const CUmemAccessDesc *, map), (size_t, count))
{
	struct pool *known = map ? pool_find(pool) : NULL;

	for (size_t i = 0; known && i < count; i++) {
		struct device *reader = pool_device_of(&map[i].location);

		if (reader && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
			elastic_open_to(pool_device(known), reader);
	}
	pool_release(known);
}
