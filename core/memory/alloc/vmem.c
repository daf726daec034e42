/* The allocator's front. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/vmem.h"

#include "core/memory/alloc/allocation.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/alloc/ordered.h"
#include "core/memory/alloc/placing.h"
#include "core/cuda/idle.h"
#include "core/budget/reported.h"
#include "core/memory/alloc/room.h"
#include "core/memory/ipc/ipc.h"
#include "core/memory/uses/side.h"
#include "core/memory/arena/spare.h"
#include "core/memory/alloc/freed.h"
#include "core/cuda/capture.h"
#include "core/state/event.h"

/* For who would be refused otherwise, although it does not expect to wait. */
#define LAST_PATIENCE_NS 1000000000ull

static _Atomic bool is_elastic;

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

void vmem_waited(void)
{
	spilled_poll();
	ordered_settle();
	pools_settle();
}

/* What the program is told in the end: it wants to be told so many times (spill_after). */
static void count_refusal(struct device *device, uint64_t bytes)
{
	struct statistics *s = device->statistics;

	statistics_add(&s->refusals, 1);
	event_note(.kind = EVENT_refusal, .device = device->id.ordinal, .a = bytes,
	           .b = device_limit(device), .c = statistics_get(&s->device_used));
}

/*
 * Before the program is refused, what it has freed goes: however long that takes, as if each free had waited; that is the
 * driver's wait for the program's own work, no patience of ours, and so not within the deadline. Who allocates in stream
 * order does not expect to wait.
 */
static bool wait_before_refusal(const struct context *context, const struct vmem_request *request)
{
	bool freed = false, is_pending;
	struct deadline last;

	if (!request->pool) {
		freed = spilled_wait();
		freed |= ordered_make_room(context->device, &is_pending) != 0;
		if (is_pending && !capture_is_active())
			quiet_wait(NULL);
	}
	last = deadline_within(request->until, request->pool ? LAST_PATIENCE_NS : 0);
	return room_wait_for_freed(context->device, request->size, &last) || freed;
}

CUresult vmem_allocate(const struct vmem_request *asked, CUdeviceptr *address)
{
	struct vmem_request request = *asked;
	struct context context;
	struct deadline until;
	CUresult result;

	if (!address || !request.size || !context_current(&context))
		return request.native(request.cookie, address);
	until = room_deadline(context.device, device_setting(context.device, pin_new));
	request.until = &until;
	if (request.pool)
		spilled_fence();
	else
		spilled_settle();
	result = placing_serve(&context, &request, address);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && wait_before_refusal(&context, &request))
		result = placing_serve(&context, &request, address);
	if (result == CUDA_ERROR_OUT_OF_MEMORY)
		count_refusal(context.device, request.size);
	return result;
}

/* Memory of another process's pool, perhaps. */
static CUresult free_unknown(CUdeviceptr address, const struct vmem_free *how)
{
	struct leaving imported = {0};
	CUresult result;

	if (address)
		imported = side_leave(&side_type_imported_memory, address);
	result = how->native(how->cookie, address);
	side_left(&imported, result == CUDA_SUCCESS);
	return result;
}

/* Not allocated in stream order: the driver frees such memory by cuMemFree alone. */
static bool is_for_free_alone(CUdeviceptr address)
{
	struct allocation *a = address ? allocation_find(address) : NULL;
	bool found = a && a->backing.provider && !a->pool;

	if (a)
		resource_release(&a->resource);
	return found;
}

/* Ours, out of the books by this thread: it goes now, or as soon as may be. */
static CUresult let_go(struct allocation *a, const struct vmem_free *how)
{
	CUresult result;

	ipc_withdraw(a);
	if (how->wait && elastic_is(a) && ordered_free(a, how->wait))
		return CUDA_SUCCESS;
	result = spilled_free(a, how->wait);
	if (elastic_is(a) && a->pool) {
		pool_elastic(a->pool, -(int64_t)a->pool_live, 0);
		a->pool_live = 0;
	}
	return result;
}

/* One of two threads that free the same has it; the driver judges the other. */
static CUresult free_ours(const struct leaving *leaving, const struct vmem_free *how)
{
	struct allocation *a = (struct allocation *)leaving->resource;
	CUresult result = spilled_may_free(how);

	if (result != CUDA_SUCCESS)
		allocation_left(leaving, false);
	else if (allocation_left(leaving, true))
		result = let_go(a, how);
	else
		result = how->native(how->cookie, a->address);
	return result;
}

static CUresult free_driver_s(const struct leaving *leaving, const struct vmem_free *how)
{
	CUresult result = how->native(how->cookie, leaving->object);

	allocation_left(leaving, result == CUDA_SUCCESS);
	return result;
}

/* Takes what is at the address out of the books, if nobody need be asked whether it may go. NULL: ask. */
static struct allocation *take_ours(CUdeviceptr address)
{
	struct arena *arena = capture_is_active() ? NULL : arena_at(address);

	return arena ? allocation_take(arena->device, address) : NULL;
}

/* Asks the driver, whose it is or who may refuse. */
static CUresult free_asking(CUdeviceptr address, const struct vmem_free *how)
{
	struct leaving leaving = {0};
	const struct allocation *a;
	CUresult result;

	if (address)
		leaving = allocation_leaving(address);
	a = (const struct allocation *)leaving.resource;
	if (!a)
		return free_unknown(address, how);
	result = a->backing.provider ? free_ours(&leaving, how) : free_driver_s(&leaving, how);
	resource_release(leaving.resource); /* still in the books, it is still charged */
	return result;
}

CUresult vmem_free(CUdeviceptr address, const struct vmem_free *how)
{
	struct allocation *ours;
	CUresult result;

	if (how->wait)
		spilled_fence();
	else
		spilled_settle();
	if (how->wait && is_for_free_alone(address))
		return CUDA_ERROR_INVALID_VALUE;
	ours = take_ours(address);
	if (ours) {
		result = let_go(ours, how);
		resource_release(&ours->resource);
	} else {
		result = free_asking(address, how);
	}
	pools_settle();
	return result;
}

/* The driver has freed with the context what does not outlive it. */
static void leave_with_context(void *cookie, struct allocation *a)
{
	(void)cookie;
	if (!allocation_leave(a) || a->is_managed)
		return;
	ipc_withdraw(a);
	if (a->backing.provider->outlives_context)
		spilled_postpone(a);
}

void vmem_forget_context(const struct context *context)
{
	ordered_forget_context(context->handle);
	allocation_each_of_ours(context, leave_with_context, NULL);
	spilled_forget_context(context->handle);
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

/* A program that looks before it allocates may end here, and nothing else would show why. */
static void note_told(struct device *device, const struct config_gpu *settings, uint64_t hardware,
                      uint64_t total)
{
	if (reported_hides_host(settings, hardware, total))
		statistics_add(&device->statistics->told_limit, 1);
}

uint64_t vmem_reported_total(struct device *device, uint64_t hardware)
{
	struct config_gpu settings = device_settings(device);
	uint64_t total =
	    reported_total(&settings, hardware, device_charged(device, SEGMENT_ON_HOST));

	note_told(device, &settings, hardware, total);
	return total;
}

bool vmem_reported_memory(struct device *device, struct reported *memory)
{
	struct config_gpu settings = device_settings(device);
	uint64_t hardware = memory->total;

	if (!reported_memory(&settings, device_charged(device, SEGMENT_ON_DEVICE),
	                     device_charged(device, SEGMENT_ON_HOST), memory))
		return false;
	note_told(device, &settings, hardware, memory->total);
	return true;
}

void vmem_reported_info(struct device *device, size_t *free, size_t *total)
{
	struct reported memory = {.total = *total, .free = *free};

	vmem_reported_memory(device, &memory);
	*total = memory.total;
	*free = memory.free;
}
