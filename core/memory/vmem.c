/* The allocator. Rules: runs inside the user's process, within its calls. */
#include "core/memory/vmem.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "core/base/log.h"
#include "core/base/units.h"
#include "core/memory/allocation.h"
#include "core/memory/arena.h"
#include "core/memory/elastic.h"
#include "core/memory/graph_memory.h"
#include "core/memory/host_memory.h"
#include "core/memory/ordered.h"
#include "core/memory/quiet.h"
#include "core/memory/reported.h"
#include "core/memory/residency.h"
#include "core/memory/share.h"
#include "core/memory/side.h"
#include "core/memory/spare.h"
#include "core/memory/spilled.h"
#include "core/pace/capture.h"

/* For who would be refused otherwise, although it does not expect to wait. */
#define LAST_PATIENCE_NS 1000000000ull

static _Atomic bool is_elastic;

/* How the driver rounds: large requests to its 2 MiB pages, small ones to 512 bytes of a shared
 * page. */
static uint64_t driver_rounded(size_t size)
{
	uint64_t unit = size >= ((size_t)1 << 20) ? (uint64_t)2 << 20 : 512;

	return size > UINT64_MAX - unit ? size : (size + unit - 1) / unit * unit;
}

static uint64_t host_limit(struct device *device, const struct config_gpu *settings)
{
	return host_memory_limit(settings->host_limit, device_charged(device, SEGMENT_ON_HOST));
}

uint64_t vmem_host_limit(struct device *device)
{
	struct config_gpu settings = device_settings(device);

	return host_limit(device, &settings);
}

void vmem_start(bool elastic)
{
	atomic_store(&is_elastic, elastic);
}

bool vmem_is_elastic(void)
{
	return atomic_load_explicit(&is_elastic, memory_order_relaxed);
}

struct allocation *vmem_at(CUdeviceptr address)
{
	struct allocation *found = elastic_at(address);

	return found ? found : allocation_spilled_at(address);
}

bool vmem_is_gone(CUdeviceptr address)
{
	struct allocation *a;

	if (spilled_is_freed(address))
		return true;
	if (!arena_at(address))
		return false;
	a = elastic_at(address);
	if (a)
		resource_release(&a->resource);
	return !a;
}

/* What was freed while work was to be done on it: until so many bytes came back, or nothing more can. */
static bool wait_for_freed(struct device *device, uint64_t bytes, uint64_t patience_ns)
{
	const struct timespec pause = {.tv_nsec = 50000};
	uint64_t before = spilled_came_back(), got = 0, waited = 0;
	int saved = errno, cancel;
	bool is_pending;

	/* The caller may hold a lock, or addresses that nobody knows of yet. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (;;) {
		spilled_fence();
		got += ordered_make_room(device, &is_pending);
		if (got + spilled_came_back() - before >= bytes || waited >= patience_ns ||
		    !(spilled_is_pending() || is_pending) || capture_is_active())
			break;
		nanosleep(&pause, NULL);
		waited += (uint64_t)pause.tv_nsec;
	}
	pthread_setcancelstate(cancel, NULL);
	errno = saved;
	return got + spilled_came_back() - before != 0;
}

bool vmem_make_room(struct device *device, uint64_t bytes)
{
	bool pools = pools_make_room(device), graphs = graph_memory_make_room(device);

	return wait_for_freed(device, bytes, device_settings(device).demote_deadline) || pools ||
	       graphs;
}

void vmem_waited(void)
{
	spilled_poll();
	ordered_settle();
	pools_settle();
}

/* The limit may fall, or others may take what was made free. */
enum { ROOM_TRIES = 3 };

int vmem_charge(struct device *device, uint64_t bytes)
{
	uint64_t limit = device_limit(device);
	int error = device_charge(device, SEGMENT_ON_DEVICE, bytes, limit);

	if (error && vmem_make_room(device, bytes))
		error = device_charge(device, SEGMENT_ON_DEVICE, bytes, limit);
	return error;
}

bool vmem_demote_for(struct device *device, uint64_t bytes)
{
	return bytes <= device_limit(device) && residency_make_room(device, bytes);
}

int vmem_charge_for_good(struct device *device, uint64_t bytes)
{
	int error = vmem_charge(device, bytes);

	for (int tries = 0; error && tries < ROOM_TRIES && vmem_demote_for(device, bytes); tries++)
		error = vmem_charge(device, bytes);
	return error;
}

int vmem_charge_host(struct device *device, uint64_t bytes)
{
	int error = device_charge(device, SEGMENT_ON_HOST, bytes, vmem_host_limit(device));

	if (error && spare_trim(device, SEGMENT_ON_HOST, true))
		error = device_charge(device, SEGMENT_ON_HOST, bytes, vmem_host_limit(device));
	return error;
}

void vmem_note_spill(struct device *device, uint64_t bytes, enum spill_reason reason)
{
	struct statistics *s = device->statistics;
	char size[32];

	statistics_add(&s->spills, 1);
	statistics_add(&s->spilled_bytes, bytes);
	statistics_set(&s->spill_reason, reason);
	log_once(LOG_INFO, "gpu %d: first spill to host memory, %s (%s)", device->id.ordinal,
	         units_format_size(bytes, size, sizeof(size)),
	         reason == SPILL_LIMIT ? "memory_limit reached" : "device full");
}

/* Counts out-of-memory answers that spill_after asks for before the first spill. */
static bool must_refuse_first(struct device *device, const struct config_gpu *settings)
{
	return statistics_get(&device->statistics->refusals) < settings->spill_after;
}

static CUresult refuse(struct device *device, enum spill_reason reason)
{
	statistics_add(&device->statistics->refusals, 1);
	if (reason != SPILL_NONE)
		statistics_set(&device->statistics->spill_reason, reason);
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
static CUresult pin_new(struct device *device, CUdeviceptr address)
{
	CUresult result =
	    elastic_pin(device, address) ? CUDA_SUCCESS : residency_pin(device, address, false);

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
		a->pool_span = elastic_span(request->size);
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

	if (kind == SPILL_OFF || must_refuse_first(device, settings) ||
	    (request->pool && pool_is_shared(request->pool)))
		return refuse(device, SPILL_NONE);
	/* Where it can come back from. */
	if (!request->pool) {
		CUresult result = elastic_allocate(context, size, RUN_ON_HOST, &a);

		if (result == CUDA_SUCCESS)
			return enter_elastic(a, request, address);
		if (result != CUDA_ERROR_NOT_SUPPORTED)
			return refuse(device, SPILL_HOST_LIMIT);
	}
	charged = provider_rounded(device, kind, size);
	error = device_charge(device, SEGMENT_ON_HOST, charged, host_limit(device, settings));
	if (error == -ENOSPC && !request->pool && spilled_wait())
		error =
		    device_charge(device, SEGMENT_ON_HOST, charged, host_limit(device, settings));
	if (error == -ENOSPC) {
		log_once(LOG_WARNING,
		         "gpu %d: %s do not fit below host_limit: the program gets out of memory",
		         device->id.ordinal, units_format_size(charged, text, sizeof(text)));
		return refuse(device, SPILL_HOST_LIMIT);
	}
	if (error)
		return refuse(device, SPILL_NONE);
	if (provider_allocate(device, kind, size, &backing) != CUDA_SUCCESS) {
		device_uncharge(device, SEGMENT_ON_HOST, charged);
		return refuse(device, SPILL_HOST_LIMIT);
	}
	a = allocation_create(context, backing.address, size, SEGMENT_ON_HOST, charged);
	if (!a) {
		backing.provider->release(&backing);
		device_uncharge(device, SEGMENT_ON_HOST, charged);
		return refuse(device, SPILL_NONE);
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
		return refuse(device, SPILL_NONE);
	}
	vmem_note_spill(device, charged, reason);
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

static CUresult make_native(const struct context *context, uint64_t limit,
                            const struct vmem_request *request, struct native *made)
{
	CUresult result;

	if (request->pool) {
		struct pool_request from_pool = {request->size, request->stream, request->native,
		                                 request->cookie};

		made->charged = 0;
		return pool_allocate(request->pool, &from_pool, limit, &made->address,
		                     &made->pool_live);
	}
	made->charged = driver_rounded(request->size);
	if (!device_can_hold(context->device, request->size)) {
		/* For the driver to judge; it is no peak of the job's. */
		result = request->native(request->cookie, &made->address);
		if (result == CUDA_SUCCESS)
			device_charge_taken(context->device, made->charged);
		return result;
	}
	if (device_charge(context->device, SEGMENT_ON_DEVICE, made->charged, limit) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = request->native(request->cookie, &made->address);
	if (result != CUDA_SUCCESS)
		device_uncharge(context->device, SEGMENT_ON_DEVICE, made->charged);
	return result;
}

static enum spill_reason why_not_on_device(struct device *device, uint64_t limit, size_t size)
{
	uint64_t used = device_charged(device, SEGMENT_ON_DEVICE);

	return used > limit || driver_rounded(size) > limit - used ? SPILL_LIMIT
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
	struct device *device = context->device;
	CUresult result;

	/* The program wants to be told first, so that it gives back what it caches. */
	if (must_refuse_first(device, settings) && arena_of(device) &&
	    is_beyond_limit(device, request->size) &&
	    (!vmem_make_room(device, request->size) || is_beyond_limit(device, request->size)))
		return refuse(device, SPILL_NONE);
	result = elastic_allocate(context, request->size, RUN_ON_DEVICE_FIRST, a);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? refuse(device, SPILL_NONE) : result;
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
		result = pin_new(device, made);
	if (result == CUDA_SUCCESS)
		*address = made;
	return result == CUDA_ERROR_OUT_OF_MEMORY ? refuse(device, SPILL_NONE) : result;
}

static CUresult allocate(const struct context *context, const struct vmem_request *request,
                         CUdeviceptr *address)
{
	struct config_gpu settings = device_settings(context->device);
	uint64_t limit = device_limit_by(context->device, &settings);
	struct native made;
	CUresult result = allocate_elastic(context, &settings, request, address);

	if (result != CUDA_ERROR_NOT_SUPPORTED)
		return result;
	result = make_native(context, limit, request, &made);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && vmem_make_room(context->device, request->size))
		result = make_native(context, limit, request, &made);
	/* A program that bounds its pool wants to be told. */
	if (result == CUDA_ERROR_OUT_OF_MEMORY && request->pool &&
	    pool_is_bounded(request->pool, request->size))
		return result;
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		return spill(context, &settings, request,
		             why_not_on_device(context->device, limit, request->size), address);
	if (result != CUDA_SUCCESS)
		return result;
	result = enter_native(context, request, &made);
	if (result == CUDA_SUCCESS)
		*address = made.address;
	return result;
}

/*
 * Before the program is refused, what it has freed goes: however long that takes, as if each free had waited. Who
 * allocates in stream order does not expect to wait.
 */
static bool wait_before_refusal(const struct context *context, const struct vmem_request *request)
{
	bool freed = false, is_pending;

	if (!request->pool) {
		freed = spilled_wait();
		freed |= ordered_make_room(context->device, &is_pending) != 0;
		if (is_pending && !capture_is_active())
			quiet_wait(NULL);
	}
	return wait_for_freed(context->device, request->size,
	                      request->pool ? LAST_PATIENCE_NS : 0) ||
	       freed;
}

CUresult vmem_allocate(const struct vmem_request *request, CUdeviceptr *address)
{
	struct context context;
	CUresult result;

	if (!address || !request->size || !context_current(&context))
		return request->native(request->cookie, address);
	if (request->pool)
		spilled_fence();
	else
		spilled_settle();
	result = allocate(&context, request, address);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && wait_before_refusal(&context, request))
		result = allocate(&context, request, address);
	return result;
}

bool vmem_took(CUdeviceptr address, size_t size)
{
	struct context context;
	struct allocation *a;
	uint64_t charged = driver_rounded(size);

	if (!context_current(&context))
		return true;
	if (vmem_charge_for_good(context.device, charged) != 0) {
		refuse(context.device, SPILL_NONE);
		return false;
	}
	a = allocation_create(&context, address, size, SEGMENT_ON_DEVICE, charged);
	if (!a) {
		device_uncharge(context.device, SEGMENT_ON_DEVICE, charged);
		return false;
	}
	if (allocation_enter(a) == 0)
		return true;
	resource_release(&a->resource);
	return false;
}

/* Memory of another process's pool, perhaps. */
static CUresult free_unknown(CUdeviceptr address, const struct vmem_free *how)
{
	struct side_leaving imported = {0};
	CUresult result;

	if (address)
		imported = side_leave(&side_type_imported_memory, address);
	result = how->native(how->cookie, address);
	side_left(&imported, result == CUDA_SUCCESS);
	return result;
}

CUresult vmem_free(CUdeviceptr address, const struct vmem_free *how)
{
	struct allocation *a = address ? allocation_find(address) : NULL;
	CUresult result;
	bool gone;

	if (how->wait)
		spilled_fence();
	else
		spilled_settle();
	if (!a)
		return free_unknown(address, how);
	/* Not allocated in stream order: the driver frees such memory by cuMemFree alone. */
	if (how->wait && a->backing.provider && !a->pool) {
		resource_release(&a->resource);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!allocation_leave(a)) { /* freed twice at once: the driver judges the second */
		resource_release(&a->resource);
		return how->native(how->cookie, address);
	}
	share_withdraw(a);
	if (how->wait && elastic_is(a) && ordered_free(a, how->wait)) {
		result = CUDA_SUCCESS;
		gone = true;
	} else if (a->backing.provider) {
		gone = spilled_free(a, how, &result);
		if (gone && elastic_is(a) && a->pool) {
			pool_elastic(a->pool, -(int64_t)a->pool_live, 0);
			a->pool_live = 0;
		}
	} else {
		result = how->native(how->cookie, address);
		gone = result == CUDA_SUCCESS;
	}
	if (!gone) { /* still there, so still charged */
		resource_hold(&a->resource);
		if (allocation_enter(a) != 0)
			resource_release(&a->resource);
	}
	resource_release(&a->resource);
	pools_settle();
	return result;
}

struct leaving {
	bool alive;
};

static void leave_with_context(void *cookie, struct allocation *a)
{
	const struct leaving *leaving = cookie;

	if (!allocation_leave(a) || a->is_managed)
		return; /* the driver frees managed memory itself */
	share_withdraw(a);
	if (leaving->alive)
		spilled_leave(a);
	else if (a->backing.provider->outlives_context)
		a->backing.provider->release(&a->backing);
}

void vmem_leave_context(CUcontext handle, bool alive)
{
	struct leaving leaving = {alive};
	struct context context;

	ordered_leave_context(handle);
	if (context_find(handle, &context))
		allocation_each_of_ours(&context, leave_with_context, &leaving);
	spilled_settle_context(handle, alive);
}

void vmem_left_context(struct device_set *devices)
{
	for (int i = 0; i < devices->count; i++) {
		struct device *device = &devices->device[i];
		struct context context;

		if (context_of_device(device, &context))
			continue;
		spilled_fence();
		ordered_make_room(device, NULL);
		elastic_trim(device);
		spare_trim(device, SEGMENT_ON_DEVICE, true);
		spare_trim(device, SEGMENT_ON_HOST, true);
	}
}

uint64_t vmem_reported_total(struct device *device, uint64_t hardware)
{
	struct config_gpu settings = device_settings(device);

	return reported_total(&settings, hardware, device_charged(device, SEGMENT_ON_HOST));
}

void vmem_reported_info(struct device *device, size_t *free, size_t *total)
{
	struct config_gpu settings = device_settings(device);
	struct reported memory = {.total = *total, .free = *free};

	reported_memory(&settings, device_charged(device, SEGMENT_ON_DEVICE),
	                device_charged(device, SEGMENT_ON_HOST), &memory);
	*total = memory.total;
	*free = memory.free;
}
