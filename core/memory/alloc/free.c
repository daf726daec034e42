/* The front of freeing. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/free.h"

#include "core/budget/device.h"
#include "core/cuda/capture.h"
#include "core/cuda/idle.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/spare.h"
#include "core/memory/ipc/ipc.h"
#include "core/memory/uses/side.h"

void vmem_waited(void)
{
	freed_waited();
	pools_settle();
}

/* Frees an address that is in no books: it may be memory of another process's pool. */
static CUresult free_unknown(CUdeviceptr address, const struct vmem_free *how)
{
	struct leaving imported = {0};
	CUresult result;

	/* It is free already: the driver may still know it, and would give away what we do. */
	if (freed_has(address))
		return CUDA_ERROR_INVALID_VALUE;
	if (address)
		imported = side_leave(&side_type_imported_memory, address);
	result = how->native(how->cookie, address);
	side_left(&imported, result == CUDA_SUCCESS);
	return result;
}

/* Returns whether cuMemFree alone frees the memory: it was not allocated in stream order. */
static bool is_for_free_alone(CUdeviceptr address)
{
	struct allocation *a = address ? allocation_find(address) : NULL;
	bool found = a && a->backing.provider && !a->pool;

	if (a)
		resource_release(&a->resource);
	return found;
}

/* Lets memory of ours go that this thread took out of the books: now, or as soon as may be. */
static CUresult let_go(struct allocation *a, const struct vmem_free *how)
{
	ipc_withdraw(&a->shared_as);
	return freed_take_over(a, how->wait);
}

/*
 * Asks whether any memory may be freed now: while a capture is active the driver may refuse, with
 * the answer it gives.
 */
static CUresult may_free(const struct vmem_free *how)
{
	CUresult result = CUDA_SUCCESS;

	/* The driver says of any address what it thinks of freeing now; none of its own is odd. */
	if (capture_is_active())
		result = how->native(how->cookie, 1);
	return idle_is_refused(result) ? result : CUDA_SUCCESS;
}

/* Frees memory of ours. Of two threads that free the same the driver judges the second. */
static CUresult free_ours(const struct leaving *leaving, const struct vmem_free *how)
{
	struct allocation *a = (struct allocation *)leaving->resource;
	CUresult result = may_free(how);

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

/*
 * Takes what is at the address out of the books, if nobody need be asked whether it may go. Returns
 * NULL where the driver is to be asked.
 */
static struct allocation *take_ours(CUdeviceptr address)
{
	struct arena *arena = capture_is_active() ? NULL : arena_at(address);

	return arena ? allocation_take(arena->device, address) : NULL;
}

/* Asks the driver, which may own the memory, or may refuse. */
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
		freed_fence();
	else
		freed_settle();
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

/* Takes out of the books what went with a context, because the driver has freed it. */
static void leave_with_context(void *cookie, struct allocation *a)
{
	(void)cookie;
	if (!allocation_leave(a) || a->is_managed)
		return;
	ipc_withdraw(&a->shared_as);
	if (a->backing.provider->outlives_context)
		freed_postpone(a);
}

void vmem_forget_context(const struct context *context)
{
	allocation_each_of_ours(context, leave_with_context, NULL);
	freed_forget_context(context->handle);
}

void vmem_left_context(struct device_set *devices)
{
	for (int i = 0; i < devices->count; i++) {
		struct device *device = &devices->device[i];
		struct context context;

		if (context_of_device(device, &context))
			continue;
		freed_give_back(device);
		elastic_trim(device);
		spare_trim(device, SEGMENT_ON_DEVICE, true);
		spare_trim(device, SEGMENT_ON_HOST, true);
	}
}
