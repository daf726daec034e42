/* SPDX-License-Identifier: MIT */
/* The front of freeing. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/free.h"

#include "core/base/address_map.h"
#include "core/budget/device.h"
#include "core/cuda/capture.h"
#include "core/cuda/idle.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/small.h"
#include "core/memory/arena/spare.h"
#include "core/memory/alloc/ipc_calls.h"
#include "core/memory/uses/counted.h"

void vmem_waited(void)
{
	freed_waited();
	pools_settle();
}

/* Returns whether cuMemFree alone frees the memory: it was not allocated in stream order. */
static bool is_for_free_alone(CUdeviceptr address)
{
	struct allocation *a = allocation_find(address);
	bool found = a && a->backing.provider && !a->pool;

	if (a)
		resource_release(&a->resource);
	return found;
}

/*
 * Lets memory of ours go that this thread took out of the books: now, or as soon as may be. Takes
 * over the reference.
 */
static CUresult free_let_go(struct allocation *a, const struct vmem_free *how)
{
	CUresult result;

	ipc_take_back(&a->shared_as);
	result = freed_take_over(a, how->wait);
	resource_release(&a->resource);
	return result;
}

/*
 * Asks whether any memory may be freed now: while a capture is active the driver may refuse, with
 * the answer it gives.
 */
static CUresult may_free(const struct vmem_free *how)
{
	CUresult result = CUDA_SUCCESS;

	/*
	 * The driver answers for any address whether it may be freed now; none of its own is odd.
	 */
	if (capture_is_active())
		result = how->native(how->cookie, 1);
	return idle_is_refused(result) ? result : CUDA_SUCCESS;
}

/*
 * Lets the driver judge an address that is no allocation's. To it, the first address of a slab is
 * an allocation of its own, which would go with all its blocks.
 */
static CUresult let_driver_judge(CUdeviceptr address, const struct vmem_free *how)
{
	return small_holds(address) ? CUDA_ERROR_INVALID_VALUE : how->native(how->cookie, address);
}

/*
 * Frees memory of ours, and takes over the reference. Of two threads that free the same the driver
 * judges the second.
 */
static CUresult free_ours(const struct leaving *leaving, const struct vmem_free *how)
{
	struct allocation *a = (struct allocation *)leaving->resource;
	CUresult result = may_free(how);

	if (result == CUDA_SUCCESS && allocation_left(leaving, true))
		return free_let_go(a, how);
	if (result == CUDA_SUCCESS)
		result = let_driver_judge(a->address, how);
	else
		allocation_left(leaving, false);
	resource_release(&a->resource);
	return result;
}

/*
 * Frees managed memory, or memory of ours while a capture is active. The driver is asked in both
 * cases. It is not asked about memory that is free already, which it may still know.
 */
static CUresult free_asking(CUdeviceptr address, const struct vmem_free *how)
{
	struct leaving leaving = allocation_leaving(address);
	struct allocation *a = (struct allocation *)leaving.resource;
	CUresult result;

	if (!a)
		return freed_has(address) ? CUDA_ERROR_INVALID_VALUE
		                          : let_driver_judge(address, how);
	if (a->backing.provider)
		return free_ours(&leaving, how);
	result = how->native(how->cookie, address);
	if (allocation_left(&leaving, result == CUDA_SUCCESS) && how->wait && a->pool) {
		allocation_frees_itself(a);
		freed_take_over(a, how->wait);
	}
	resource_release(leaving.resource); /* still in the books, it is still charged */
	return result;
}

/* Frees memory in no known range: the driver's own, or memory of another process's pool. */
static CUresult free_driver_s(CUdeviceptr address, const struct vmem_free *how)
{
	struct before_leaving before;
	struct allocation *gone;
	struct leaving imported;
	CUresult result;

	if (freed_has(address))
		return CUDA_ERROR_INVALID_VALUE;
	context_before_leaving(&before);
	result = how->native(how->cookie, address);
	if (result != CUDA_SUCCESS || !address)
		return result;
	gone = allocation_take_before(address, &before);
	if (gone) {
		resource_release(&gone->resource);
	} else {
		imported = context_leave_object(&counted_type_imported_memory, address);
		counted_left(&imported, true);
	}
	return result;
}

CUresult vmem_free(CUdeviceptr address, const struct vmem_free *how)
{
	struct address_range range;
	struct allocation *ours = NULL;
	CUresult result;

	if (how->wait)
		freed_fence();
	else
		freed_settle();
	if (!address_map_find(address, &range)) {
		result = free_driver_s(address, how);
	} else if (how->wait && is_for_free_alone(address)) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		if (range.kind == ADDRESS_OF_ARENA && !capture_is_active())
			ours = allocation_take(((struct arena *)range.owner)->device, address);
		result = ours ? free_let_go(ours, how) : free_asking(address, how);
	}
	pools_settle();
	return result;
}

/* Takes memory that went with a context out of the books, because the driver has freed it. */
static void leave_with_context(void *cookie, struct allocation *a)
{
	(void)cookie;
	if (!allocation_leave(a) || a->is_managed)
		return;
	ipc_take_back(&a->shared_as);
	if (a->backing.provider->outlives_context)
		freed_postpone(a);
}

void vmem_forget_context(const struct context *context)
{
	small_forget_context(context);
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
