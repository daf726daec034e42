/* SPDX-License-Identifier: MIT */
/* Queries: the program is told of its memory as its job has it. */
#include "shim/shim.h"

#include "core/job/job.h"
#include "core/budget/network.h"
#include "core/budget/reported.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/alloc/pointer.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/small.h"
#include "core/memory/own/own.h"

static void report_info(struct device *device, size_t *free, size_t *total)
{
	struct reported memory = {.total = *total, .free = *free};

	report_memory(device, &memory);
	*total = memory.total;
	*free = memory.free;
}

/* Corrects the driver's answer, as far as the program asked: a figure without a pointer is NULL. */
static void tell_info(size_t *free, size_t *total)
{
	struct context context;
	size_t real_free, real_total;

	if (!context_current(&context))
		return;
	if (free && total) {
		report_info(context.device, free, total);
		return;
	}
	/* One is told by help of the other. */
	if (REAL(cuMemGetInfo_v2)(&real_free, &real_total) != CUDA_SUCCESS)
		return;
	report_info(context.device, &real_free, &real_total);
	if (free)
		*free = real_free;
	if (total)
		*total = real_total;
}

AFTER(cuMemGetInfo_v2, (size_t *, free), (size_t *, total))
{
	tell_info(free, total);
}

AFTER(cuDeviceTotalMem_v2, (size_t *, bytes), (CUdevice, dev))
{
	struct device *device = device_set_by_handle(job_devices(), dev);
	struct reported memory = {.total = *bytes};

	if (device && report_memory(device, &memory))
		*bytes = memory.total;
}

/*
 * Pins memory of ours, unless pin_new = no, where a library of the network asks about it. Does so
 * also where any caller asks whether a network may reach it, in a process that can register memory,
 * because registering follows unseen.
 */
static void keep_asked(CUdeviceptr address, const void *caller, bool is_for_network)
{
	const struct arena *arena;
	struct device *device;

	if (!is_for_network && network_is_stranger(caller))
		return;
	arena = arena_at(address);
	device = arena ? arena->device : own_device(address);
	/* The descriptors are looked at last, and never for the host's memory. */
	if (device && terms_of(device).settings.pin_new &&
	    (network_keeps(caller) || (is_for_network && network_is_open(""))))
		pointer_pin(address, 1);
}

/* Returns whether the program has nothing at the address, although the driver still knows it. */
static bool reported_is_gone(CUdeviceptr address)
{
	struct allocation *a;

	if (freed_has(address))
		return true;
	if (!arena_at(address) && !small_holds(address))
		return false;
	a = vmem_at(address);
	if (a)
		resource_release(&a->resource);
	return !a;
}

HOOK(cuMemGetAddressRange_v2, CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	KEEP_ERRNO;

	if (job_is_active())
		keep_asked(dptr, __builtin_return_address(0), false);
	if (job_is_active() && pointer_range(dptr, pbase, psize))
		return CUDA_SUCCESS;
	if (job_is_active() && reported_is_gone(dptr))
		return CUDA_ERROR_NOT_FOUND;
	return REAL(cuMemGetAddressRange_v2)(pbase, psize, dptr);
}

HOOK(cuPointerGetAttribute, void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	KEEP_ERRNO;
	CUresult result;

	/* Tokens are for a driver of other hardware, which keeps addresses. */
	if (job_is_active() && attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
		pointer_pin(ptr, 1);
	if (job_is_active())
		keep_asked(ptr, __builtin_return_address(0),
		           attribute == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE);
	if (job_is_active() && pointer_attribute(attribute, ptr, data, &result))
		return result;
	if (job_is_active() && reported_is_gone(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	return REAL(cuPointerGetAttribute)(data, attribute, ptr);
}

/* The driver answers all it knows; answers that depend on the backing are corrected after. */
HOOK(cuPointerGetAttributes, unsigned int numAttributes, CUpointer_attribute *attributes,
     void **data, CUdeviceptr ptr)
{
	KEEP_ERRNO;
	/* None of the driver's memory is at an odd address. */
	CUdeviceptr known = job_is_active() && reported_is_gone(ptr) ? 1 : ptr;
	CUresult result = REAL(cuPointerGetAttributes)(numAttributes, attributes, data, known);
	bool is_for_network = false;
	CUresult one;

	if (result != CUDA_SUCCESS || !job_is_active())
		return result;
	for (unsigned int i = 0; i < numAttributes; i++)
		is_for_network |= attributes[i] == CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE;
	keep_asked(ptr, __builtin_return_address(0), is_for_network);
	for (unsigned int i = 0; i < numAttributes; i++) {
		/* The list has NULL for an attribute without a value: those are pointers all. */
		if (pointer_attribute(attributes[i], ptr, data[i], &one) && one != CUDA_SUCCESS)
			*(void **)data[i] = NULL;
	}
	return result;
}

/* Memory that the program says other devices touch by themselves must stay where it is. */
HOOK(cuPointerSetAttribute, const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	KEEP_ERRNO;

	if (job_is_active() && attribute == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS && value) {
		pointer_pin(ptr, 1);
		if (pointer_keep_order(ptr, *(const int *)value != 0))
			return CUDA_SUCCESS;
	}
	return REAL(cuPointerSetAttribute)(value, attribute, ptr);
}
