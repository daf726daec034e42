/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory management: physical memory that the program makes itself, its addresses,
 * multicast objects.
 */
#include "shim/shim.h"

#include <stdlib.h>

#include "core/budget/network.h"
#include "core/budget/refusal.h"
#include "core/job/job.h"
#include "core/memory/arena/arena.h"
#include "core/memory/uses/measured.h"
#include "core/memory/alloc/own_memory.h"
#include "core/memory/arena/spare.h"
#include "core/memory/own/own.h"
#include "core/memory/alloc/pointer.h"

/*
 * --- physical memory ---
 *
 * A handle of ours is put into the driver's terms, used and booked within one passage of the gate,
 * because the mover may give it other memory.
 */

/* Returns whether the program has the address of cuMemAlloc: then it is nothing that was mapped. */
static bool is_of_arena(CUdeviceptr address)
{
	return job_is_active() && arena_at(address);
}

/*
 * Passes the gate, with the driver's handle in `handle` meanwhile; one of ours that is released is
 * a bad one.
 */
#define WITH_HANDLE(handle, call)                            \
	({                                                   \
		CUresult result_ = CUDA_ERROR_INVALID_VALUE; \
		gate_enter();                                \
		if (own_translate(&(handle)))                \
			result_ = (call);                    \
		gate_leave();                                \
		result_;                                     \
	})

HOOK(cuMemCreate, CUmemGenericAllocationHandle *handle, size_t size,
     const CUmemAllocationProp *prop, unsigned long long flags)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return REAL(cuMemCreate)(handle, size, prop, flags);
	refusal_site = __builtin_return_address(0);
	return own_memory_create(job_devices(), handle, size, prop, flags,
	                         network_keeps(__builtin_return_address(0)), REAL(cuMemCreate));
}

HOOK(cuMemRelease, CUmemGenericAllocationHandle handle)
{
	KEEP_ERRNO;
	struct leaving object = {0};
	struct own *memory = NULL;
	CUresult result;

	gate_enter();
	if (!own_release(handle, &result)) {
		if (job_is_active()) {
			memory = own_leave(handle);
			if (!memory) /* a multicast object's */
				object = measured_leave((const void *)(uintptr_t)handle);
		}
		result = REAL(cuMemRelease)(handle);
		measured_left(&object, result == CUDA_SUCCESS);
		own_left(memory, result == CUDA_SUCCESS);
	}
	gate_leave();
	return result;
}

HOOK(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *handle, void *addr)
{
	KEEP_ERRNO;
	CUresult result;

	if (is_of_arena((CUdeviceptr)(uintptr_t)addr))
		return CUDA_ERROR_INVALID_VALUE;
	gate_enter();
	result = REAL(cuMemRetainAllocationHandle)(handle, addr);
	if (result == CUDA_SUCCESS && handle && job_is_active())
		own_retained(handle, (CUdeviceptr)(uintptr_t)addr);
	gate_leave();
	return result;
}

/* To another process: memory that it may then have open must stay where it is. */
HOOK(cuMemExportToShareableHandle, void *shareableHandle, CUmemGenericAllocationHandle handle,
     CUmemAllocationHandleType handleType, unsigned long long flags)
{
	KEEP_ERRNO;
	CUmemGenericAllocationHandle real;
	CUresult result = CUDA_SUCCESS;

	if (job_is_active())
		result = own_memory_may_export(handle, handleType);
	if (result != CUDA_SUCCESS)
		return result;
	real = handle;
	result = WITH_HANDLE(
	    real, REAL(cuMemExportToShareableHandle)(shareableHandle, real, handleType, flags));
	if (result == CUDA_SUCCESS && shareableHandle && job_is_active())
		own_exported(job_devices(), handle, handleType, shareableHandle);
	return result;
}

HOOK(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *handle, void *osHandle,
     CUmemAllocationHandleType shHandleType)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemImportFromShareableHandle)(handle, osHandle, shHandleType);

	if (result == CUDA_SUCCESS && handle && job_is_active())
		result = own_memory_import(job_devices(), handle, osHandle, shHandleType);
	return result;
}

HOOK(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp *prop,
     CUmemGenericAllocationHandle handle)
{
	KEEP_ERRNO;
	CUmemGenericAllocationHandle real = handle;
	CUresult result =
	    WITH_HANDLE(real, REAL(cuMemGetAllocationPropertiesFromHandle)(prop, real));

	if (result == CUDA_SUCCESS && prop && job_is_active())
		own_properties(handle, prop);
	return result;
}

/*
 * Returns the granularity that memory of these properties needs so that it can be on the host as
 * well; `granularity` where it cannot be there.
 */
static size_t own_granularity(struct device_set *devices, const CUmemAllocationProp *prop,
                              CUmemAllocationGranularity_flags option, size_t granularity)
{
	struct chunk_source source;
	struct device *device = NULL;
	size_t on_host;

	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		device = device_set_by_handle(devices, prop->location.id);
	if (!device)
		return granularity;
	source = spare_source(device);
	on_host = chunk_granularity(&source, SEGMENT_ON_HOST, option);
	return on_host > granularity ? on_host : granularity;
}

AFTER(cuMemGetAllocationGranularity, (size_t *, granularity), (const CUmemAllocationProp *, prop),
      (CUmemAllocationGranularity_flags, option))
{
	if (granularity && prop)
		*granularity = own_granularity(job_devices(), prop, option, *granularity);
}

/* --- addresses --- */

AFTER(cuMemAddressReserve, (CUdeviceptr *, ptr), (size_t, size), (size_t, alignment),
      (CUdeviceptr, addr), (unsigned long long, flags))
{
	if (ptr)
		counted_enter(&counted_type_reservation, NULL, *ptr, size, 0);
}

HOOK(cuMemAddressFree, CUdeviceptr ptr, size_t size)
{
	KEEP_ERRNO;
	struct leaving reservation = {0};
	CUresult result;

	if (job_is_active())
		reservation = context_leave_object(&counted_type_reservation, ptr);
	result = PASSING_GATE(REAL(cuMemAddressFree)(ptr, size));
	counted_left(&reservation, result == CUDA_SUCCESS);
	return result;
}

HOOK(cuMemMap, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
     unsigned long long flags)
{
	KEEP_ERRNO;
	CUmemGenericAllocationHandle real = handle;
	CUresult result = CUDA_SUCCESS;
	uint64_t charged = 0;

	if (job_is_active() && offset <= UINT64_MAX - size)
		result = own_memory_may_map(handle, offset + size, &charged);
	if (result != CUDA_SUCCESS)
		return result;
	gate_enter();
	result = WITH_HANDLE(real, REAL(cuMemMap)(ptr, size, offset, real, flags));
	if (result == CUDA_SUCCESS && job_is_active())
		own_mapped(ptr, size, handle);
	gate_leave();
	if (result != CUDA_SUCCESS)
		own_not_mapped(handle, charged);
	return result;
}

HOOK(cuMemUnmap, CUdeviceptr ptr, size_t size)
{
	KEEP_ERRNO;
	CUresult result;
	uint64_t so_far;

	if (is_of_arena(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	gate_enter();
	so_far = own_mapped_so_far();
	result = REAL(cuMemUnmap)(ptr, size);
	if (result == CUDA_SUCCESS && job_is_active())
		own_unmapped(ptr, size, so_far);
	gate_leave();
	return result;
}

HOOK(cuMemSetAccess, CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	KEEP_ERRNO;
	CUresult result;

	if (is_of_arena(ptr))
		return CUDA_ERROR_INVALID_VALUE;
	gate_enter();
	result = REAL(cuMemSetAccess)(ptr, size, desc, count);
	if (result == CUDA_SUCCESS && desc && job_is_active())
		own_accessed(ptr, size, desc, count);
	gate_leave();
	return result;
}

/* Tiles of sparse arrays, in stream order: the memory behind them cannot be replaced unseen. */
static void pin_tiles(const CUarrayMapInfo *list, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			own_pin(list[i].memHandle.memHandle, 0);
	}
}

static bool vmm_is_ours(const CUarrayMapInfo *tile)
{
	return tile->memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
	       own_is_ours(tile->memHandle.memHandle);
}

/* Maps the list in the driver's terms. Inside the gate. */
static CUresult map_translated(__typeof__(&cuMemMapArrayAsync) map, const CUarrayMapInfo *list,
                               unsigned int count, CUstream stream)
{
	CUarrayMapInfo *real = malloc(count * sizeof(*real));
	CUresult result = CUDA_SUCCESS;

	if (!real)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned int i = 0; i < count; i++) {
		real[i] = list[i];
		if (vmm_is_ours(&real[i]) && !own_translate(&real[i].memHandle.memHandle))
			result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result == CUDA_SUCCESS)
		result = map(real, count, stream);
	free(real);
	return result;
}

BOTH(cuMemMapArrayAsync, cuMemMapArrayAsync_ptsz, (CUarrayMapInfo *, mapInfoList),
     (unsigned int, count), (CUstream, hStream))
{
	KEEP_ERRNO;
	bool translate = false;

	if (!mapInfoList || !job_is_active())
		return PASSING_GATE(real(mapInfoList, count, hStream));
	pin_tiles(mapInfoList, count);
	for (unsigned int i = 0; i < count; i++)
		translate |= vmm_is_ours(&mapInfoList[i]);
	return PASSING_GATE(translate ? map_translated(real, mapInfoList, count, hStream)
	                              : real(mapInfoList, count, hStream));
}

/* A descriptor for the network card and its like, which keep addresses. */
HOOK(cuMemGetHandleForAddressRange, void *handle, CUdeviceptr dptr, size_t size,
     CUmemRangeHandleType handleType, unsigned long long flags)
{
	KEEP_ERRNO;

	/* On the device, and there to stay, before it is asked for. */
	if (job_is_active())
		pointer_pin(dptr, size);
	return PASSING_GATE(
	    REAL(cuMemGetHandleForAddressRange)(handle, dptr, size, handleType, flags));
}

/*
 * --- multicast objects: little memory of their own; memory bound to them must stay on its device
 * ---
 */

HOOK(cuMulticastCreate, CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
	KEEP_ERRNO;
	struct measuring measuring = {0};
	CUresult result;
	bool made;

	if (job_is_active())
		measured_begin(&measuring, false);
	result = REAL(cuMulticastCreate)(mcHandle, prop);
	made = result == CUDA_SUCCESS && mcHandle;
	measured_end(&measuring, made ? (const void *)(uintptr_t)*mcHandle : NULL,
	             MEASURED_MOST_OBJECT);
	return result;
}

/* Binds memory that a handle names, which must stay on its device from now on. */
#define BINDS_MEMORY(symbol, ...)                                                         \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                       \
	{                                                                                 \
		KEEP_ERRNO;                                                               \
		CUresult pinned = job_is_active() ? own_pin(memHandle, 0) : CUDA_SUCCESS; \
                                                                                          \
		if (pinned != CUDA_SUCCESS)                                               \
			return pinned;                                                    \
		return WITH_HANDLE(memHandle, FORWARD(symbol, __VA_ARGS__));              \
	}

/* Binds memory at an address, likewise. */
#define BINDS_ADDRESS(symbol, address, size, ...)                  \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                \
	{                                                          \
		KEEP_ERRNO;                                        \
                                                                   \
		if (job_is_active())                               \
			pointer_pin(address, size);                \
		return PASSING_GATE(FORWARD(symbol, __VA_ARGS__)); \
	}

BINDS_MEMORY(cuMulticastBindMem, (CUmemGenericAllocationHandle, mcHandle), (size_t, mcOffset),
             (CUmemGenericAllocationHandle, memHandle), (size_t, memOffset), (size_t, size),
             (unsigned long long, flags))
BINDS_MEMORY(cuMulticastBindMem_v2, (CUmemGenericAllocationHandle, mcHandle), (CUdevice, dev),
             (size_t, mcOffset), (CUmemGenericAllocationHandle, memHandle), (size_t, memOffset),
             (size_t, size), (unsigned long long, flags))
BINDS_ADDRESS(cuMulticastBindAddr, memptr, size, (CUmemGenericAllocationHandle, mcHandle),
              (size_t, mcOffset), (CUdeviceptr, memptr), (size_t, size),
              (unsigned long long, flags))
BINDS_ADDRESS(cuMulticastBindAddr_v2, memptr, size, (CUmemGenericAllocationHandle, mcHandle),
              (CUdevice, dev), (size_t, mcOffset), (CUdeviceptr, memptr), (size_t, size),
              (unsigned long long, flags))

/* Bound memory stays pinned: it may be bound elsewhere, and few are ever unbound. */
GATED(cuMulticastUnbind, (CUmemGenericAllocationHandle, mcHandle), (CUdevice, dev),
      (size_t, mcOffset), (size_t, size))

/* --- logical endpoints: memory that other machines reach through the fabric, likewise --- */

BINDS_MEMORY(cuLogicalEndpointBindMem, (CUlogicalEndpointId, leId), (CUdevice, dev),
             (cuuint64_t, offset), (CUmemGenericAllocationHandle, memHandle),
             (cuuint64_t, memOffset), (cuuint64_t, size), (unsigned long long, flags))
BINDS_ADDRESS(cuLogicalEndpointBindAddr, (CUdeviceptr)(uintptr_t)ptr, size,
              (CUlogicalEndpointId, leId), (CUdevice, dev), (cuuint64_t, offset), (void *, ptr),
              (cuuint64_t, size), (unsigned long long, flags))
GATED(cuLogicalEndpointUnbind, (CUlogicalEndpointId, leId), (CUdevice, dev), (cuuint64_t, offset),
      (cuuint64_t, size))
