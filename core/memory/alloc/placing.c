/* Placing. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/placing.h"

#include <errno.h>

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/alloc/ordered.h"
#include "core/cuda/idle.h"
#include "core/budget/wanted.h"
#include "core/memory/alloc/room.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/alloc/vmem.h"
#include "core/cuda/capture.h"

/* How the driver rounds: large requests to its 2 MiB pages, small ones to 512 bytes of a shared
 * page. */
uint64_t placing_rounded(size_t size)
{
	uint64_t unit = size >= ((size_t)1 << 20) ? (uint64_t)2 << 20 : 512;

	return size > UINT64_MAX - unit ? size : (size + unit - 1) / unit * unit;
}

/* Counts out-of-memory answers that spill_after asks for before the first spill. */
static bool must_refuse_first(struct device *device, const struct config_gpu *settings)
{
	return statistics_get(&device->statistics->refusals) < settings->spill_after;
}

/* The host is full, too. */
static CUresult refuse_by_host(struct device *device)
{
	statistics_set(&device->statistics->spill_reason, SPILL_HOST_LIMIT);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The driver knows nothing of what it did not allocate. */
static CUresult free_nothing(void *cookie, CUdeviceptr address)
{
	(void)cookie;
	(void)address;
	return CUDA_ERROR_INVALID_VALUE;
}

/* Of a job whose memory is given to other devices behind the driver's back. */
static CUresult pin_new(struct device *device, CUdeviceptr address, struct deadline *until)
{
	CUresult result =
	    elastic_pin(device, address) ? CUDA_SUCCESS : wanted_pin(device, address, false, until);

	if (result != CUDA_SUCCESS) {
		log_once(
		    LOG_WARNING,
		    "gpu %d: pin_new: there is no room on the device for memory that must stay "
		    "there: the program gets out of memory",
		    device->id.ordinal);
		vmem_free(address, &(struct vmem_free){.native = free_nothing});
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return result;
}

/* Takes over the reference. */
static CUresult enter_elastic(struct allocation *a, const struct vmem_request *request,
                              CUdeviceptr *address)
{
	CUdeviceptr made = a->address;

	if (request->pool) {
		uint64_t before = a->pool_span;

		if (!a->pool) {
			pool_hold(request->pool);
			a->pool = request->pool;
		}
		a->pool_live = pool_rounded(request->size);
		a->pool_span = slab_span(request->size);
		pool_elastic(a->pool, (int64_t)a->pool_live, (int64_t)(a->pool_span - before));
	}
	if (allocation_enter(a) != 0) {
		a->backing.provider->release(&a->backing);
		resource_release(&a->resource);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*address = made;
	return CUDA_SUCCESS;
}

/* Others may open what is allocated from it. A pool grows by whole chunks. */
static void say_shared_pool(struct device *device, size_t size)
{
	const uint64_t chunk = (uint64_t)2 << 20;
	char bytes[32], enough[64];

	log_once(LOG_WARNING,
	         "gpu %d: %s of a pool that can be exported cannot be on the host, and the program "
	         "gets out of memory: what cannot leave the device fills memory_limit; %s",
	         device->id.ordinal, units_format_size(size, bytes, sizeof(bytes)),
	         room_enough(device, (size + chunk - 1) / chunk * chunk, enough, sizeof(enough)));
}

static CUresult spill(const struct context *context, const struct config_gpu *settings,
                      const struct vmem_request *request, enum spill_reason reason,
                      CUdeviceptr *address)
{
	size_t size = request->size;
	struct device *device = context->device;
	enum config_spill kind = (enum config_spill)settings->spill;
	struct backing backing = {0};
	struct allocation *a;
	uint64_t charged;
	char text[32];
	int error;

	if (kind == SPILL_OFF || must_refuse_first(device, settings))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (request->pool && pool_is_shared(request->pool)) {
		if (reason == SPILL_LIMIT)
			say_shared_pool(device, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	/* Where it can come back from. */
	if (!request->pool) {
		CUresult result = elastic_allocate(context, size, RUN_ON_HOST, request->until, &a);

		if (result == CUDA_SUCCESS)
			return enter_elastic(a, request, address);
		if (result != CUDA_ERROR_NOT_SUPPORTED)
			return refuse_by_host(device);
	}
	charged = provider_rounded(device, kind, size);
	error = room_charge_host(device, charged, request->until);
	if (error == -ENOSPC && !request->pool && spilled_wait())
		error = room_charge_host(device, charged, request->until);
	if (error == -ENOSPC) {
		log_once(LOG_WARNING,
		         "gpu %d: %s do not fit below host_limit: the program gets out of memory",
		         device->id.ordinal, units_format_size(charged, text, sizeof(text)));
		return refuse_by_host(device);
	}
	if (error)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (provider_allocate(device, kind, size, &backing) != CUDA_SUCCESS) {
		device_uncharge(device, SEGMENT_ON_HOST, charged);
		return refuse_by_host(device);
	}
	a = allocation_create(context, backing.address, size, SEGMENT_ON_HOST, charged);
	if (!a) {
		backing.provider->release(&backing);
		device_uncharge(device, SEGMENT_ON_HOST, charged);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	a->backing = backing;
	if (request->pool) {
		pool_hold(request->pool);
		a->pool = request->pool;
		pool_spilled(a->pool, charged);
	}
	if (allocation_enter(a) != 0) {
		backing.provider->release(&backing);
		resource_release(&a->resource); /* uncharges */
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	room_note_spill(device, charged, reason, a);
	*address = backing.address;
	return CUDA_SUCCESS;
}

/* What the driver made and what it is charged: by itself, or as a part of its pool. */
struct native {
	CUdeviceptr address;
	uint64_t charged, pool_live;
};

static CUresult enter_native(const struct context *context, const struct vmem_request *request,
                             const struct native *made)
{
	struct allocation *a = allocation_create(context, made->address, request->size,
	                                         SEGMENT_ON_DEVICE, made->charged);

	if (a && request->pool) {
		pool_hold(request->pool);
		a->pool = request->pool;
		a->pool_live = made->pool_live;
	}
	if (a && allocation_enter(a) == 0)
		return CUDA_SUCCESS;
	if (a)
		resource_release(&a->resource);
	else if (request->pool)
		pool_freed(request->pool, made->pool_live);
	else
		device_uncharge(context->device, SEGMENT_ON_DEVICE, made->charged);
	driver.cuMemFree_v2(made->address);
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult make_native(const struct context *context, const struct vmem_request *request,
                            struct native *made)
{
	CUresult result;

	if (request->pool) {
		struct pool_request from_pool = {request->size, request->stream, request->native,
		                                 request->cookie};

		made->charged = 0;
		return pool_allocate(request->pool, &from_pool, &made->address, &made->pool_live);
	}
	made->charged = placing_rounded(request->size);
	if (!device_can_hold(context->device, request->size)) {
		/* For the driver to judge; it is no peak of the job's. */
		result = request->native(request->cookie, &made->address);
		if (result == CUDA_SUCCESS)
			device_charge_taken(context->device, made->charged);
		return result;
	}
	if (device_charge(context->device, made->charged) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = request->native(request->cookie, &made->address);
	if (result != CUDA_SUCCESS)
		device_uncharge(context->device, SEGMENT_ON_DEVICE, made->charged);
	return result;
}

static enum spill_reason why_not_on_device(struct device *device, size_t size)
{
	uint64_t limit = device_limit(device), used = device_charged(device, SEGMENT_ON_DEVICE);

	return used > limit || placing_rounded(size) > limit - used ? SPILL_LIMIT
	                                                            : SPILL_DEVICE_FULL;
}

static bool is_beyond_limit(struct device *device, size_t size)
{
	return device_charged(device, SEGMENT_ON_DEVICE) + size > device_limit(device);
}

/* Captured allocations are the driver's business, and asking it for memory may disturb a capture. */
static bool may_be_elastic(const struct device *device, struct pool *pool)
{
	return pool_device(pool) == device && !capture_is_active() && pool_is_elastic(pool);
}

static CUresult make_elastic(const struct context *context, const struct config_gpu *settings,
                             const struct vmem_request *request, struct allocation **a)
{
	const struct wanted wanted = {request->size, request->size, request->until};
	struct device *device = context->device;

	/* The program wants to be told first, so that it gives back what it caches. */
	if (must_refuse_first(device, settings) && arena_of(device) &&
	    is_beyond_limit(device, request->size) &&
	    (!room_make(device, &wanted) || is_beyond_limit(device, request->size)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	return elastic_allocate(context, request->size, RUN_ON_DEVICE_FIRST, request->until, a);
}

static CUresult try_tiny(void)
{
	CUdeviceptr tiny;
	CUresult result = driver.cuMemAlloc_v2(&tiny, 1);

	if (result == CUDA_SUCCESS)
		driver.cuMemFree_v2(tiny);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

/*
 * What the driver thinks of allocating now: a capture may forbid it, and is invalidated by it; in a broken context nothing
 * is allocated, which the driver is left to say. Memory of the arena needs no context, and would not show it.
 */
static CUresult judge(const struct vmem_request *request)
{
	CUresult result;

	if (capture_sync_enter()) {
		result = driver.cuStreamQuery(CU_STREAM_LEGACY);
		capture_sync_leave();
		return result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY ||
		               quiet_is_refused(result) || try_tiny() == CUDA_SUCCESS
		           ? CUDA_SUCCESS
		           : CUDA_ERROR_NOT_SUPPORTED;
	}
	/* Of a pool it is allowed in other streams. */
	return request->pool ? CUDA_SUCCESS : try_tiny();
}

/* NOT_SUPPORTED: the driver's own allocation is asked instead. */
static CUresult allocate_elastic(const struct context *context, const struct config_gpu *settings,
                                 const struct vmem_request *request, CUdeviceptr *address)
{
	struct device *device = context->device;
	struct allocation *a;
	CUdeviceptr made;
	CUresult result;

	if (!vmem_is_elastic() || settings->spill == SPILL_OFF ||
	    !device_can_hold(device, request->size) ||
	    (request->pool && !may_be_elastic(device, request->pool)) || !arena_of(device))
		return CUDA_ERROR_NOT_SUPPORTED;
	result = judge(request);
	if (result != CUDA_SUCCESS)
		return result;
	a = request->pool ? ordered_take(request->pool, request->size, request->stream) : NULL;
	if (a) {
		a->context = *context;
		a->size = a->backing.size = request->size;
	} else {
		result = make_elastic(context, settings, request, &a);
		if (result != CUDA_SUCCESS)
			return result;
	}
	result = enter_elastic(a, request, &made);
	if (result == CUDA_SUCCESS && settings->pin_new)
		result = pin_new(device, made, request->until);
	if (result == CUDA_SUCCESS)
		*address = made;
	return result;
}

CUresult placing_serve(const struct context *context, const struct vmem_request *request,
                       CUdeviceptr *address)
{
	const struct wanted wanted = {request->size, request->size, request->until};
	struct config_gpu settings = device_settings(context->device);
	struct native made;
	CUresult result = allocate_elastic(context, &settings, request, address);

	if (result != CUDA_ERROR_NOT_SUPPORTED)
		return result;
	result = make_native(context, request, &made);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && room_make(context->device, &wanted))
		result = make_native(context, request, &made);
	/* A program that bounds its pool wants to be told. */
	if (result == CUDA_ERROR_OUT_OF_MEMORY && request->pool &&
	    pool_is_bounded(request->pool, request->size))
		return result;
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return spill(context, &settings, request,
		             why_not_on_device(context->device, request->size), address);
	if (result != CUDA_SUCCESS)
		return result;
	result = enter_native(context, request, &made);
	if (result == CUDA_SUCCESS)
		*address = made.address;
	return result;
}
