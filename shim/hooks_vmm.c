/* Virtual memory management: physical memory that the program makes itself, its addresses, multicast objects. */
#include "shim/shim.h"

#include "core/job.h"
#include "core/memory/measured.h"
#include "core/memory/physical.h"

/* --- physical memory --- */

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
	struct side_leaving object = {0};
	CUresult result;

	if (job_is_active()) /* a multicast object's */
		object = measured_leave((const void *)(uintptr_t)handle);
	result = PASSING_GATE(REAL(cuMemRelease)(handle));
	measured_left(&object, result == CUDA_SUCCESS);
	if (result == CUDA_SUCCESS && job_is_active())
		physical_released(handle);
	return result;
}

HOOK(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *handle, void *addr)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemRetainAllocationHandle)(handle, addr);

	if (result == CUDA_SUCCESS && handle && job_is_active())
		physical_retained(*handle, (CUdeviceptr)(uintptr_t)addr);
	return result;
}

/* To another process: what it may then have open must stay where it is. */
HOOK(cuMemExportToShareableHandle, void *shareableHandle, CUmemGenericAllocationHandle handle,
     CUmemAllocationHandleType handleType, unsigned long long flags)
{
	KEEP_ERRNO;
	CUresult result =
	    REAL(cuMemExportToShareableHandle)(shareableHandle, handle, handleType, flags);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_pin(handle);
	return result;
}

HOOK(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *handle, void *osHandle,
     CUmemAllocationHandleType shHandleType)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemImportFromShareableHandle)(handle, osHandle, shHandleType);
	struct context context;

	if (result == CUDA_SUCCESS && handle && job_is_active())
		physical_imported(context_current(&context) ? context.device : NULL, *handle);
	return result;
}

HOOK(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp *prop,
     CUmemGenericAllocationHandle handle)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemGetAllocationPropertiesFromHandle)(prop, handle);

	if (result == CUDA_SUCCESS && prop && job_is_active())
		physical_properties(handle, prop);
	return result;
}

HOOK(cuMemGetAllocationGranularity, size_t *granularity, const CUmemAllocationProp *prop,
     CUmemAllocationGranularity_flags option)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemGetAllocationGranularity)(granularity, prop, option);

	if (result == CUDA_SUCCESS && granularity && prop && job_is_active())
		*granularity = physical_granularity(job_devices(), prop, option, *granularity);
	return result;
}

/* --- addresses --- */

HOOK(cuMemAddressReserve, CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
     unsigned long long flags)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMemAddressReserve)(ptr, size, alignment, addr, flags);

	if (result == CUDA_SUCCESS && ptr && job_is_active())
		side_enter(&side_type_reservation, NULL, *ptr, size, 0);
	return result;
}

HOOK(cuMemAddressFree, CUdeviceptr ptr, size_t size)
{
	KEEP_ERRNO;
	struct side_leaving reservation = {0};
	CUresult result;

	if (job_is_active())
		reservation = side_leave(&side_type_reservation, ptr);
	result = PASSING_GATE(REAL(cuMemAddressFree)(ptr, size));
	side_left(&reservation, result == CUDA_SUCCESS);
	return result;
}

HOOK(cuMemMap, CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
     unsigned long long flags)
{
	KEEP_ERRNO;
	CUresult result = PASSING_GATE(REAL(cuMemMap)(ptr, size, offset, handle, flags));

	if (result == CUDA_SUCCESS && job_is_active())
		physical_mapped(ptr, size, handle);
	return result;
}

HOOK(cuMemUnmap, CUdeviceptr ptr, size_t size)
{
	KEEP_ERRNO;
	CUresult result = PASSING_GATE(REAL(cuMemUnmap)(ptr, size));

	if (result == CUDA_SUCCESS && job_is_active())
		physical_unmapped(ptr, size);
	return result;
}

HOOK(cuMemSetAccess, CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	KEEP_ERRNO;
	CUresult result = PASSING_GATE(REAL(cuMemSetAccess)(ptr, size, desc, count));

	if (result == CUDA_SUCCESS && desc && job_is_active())
		physical_accessed(ptr, size, desc, count);
	return result;
}

/* Tiles of sparse arrays, in stream order: the memory behind them cannot be replaced unseen. */
static CUresult pin_tiles(CUresult result, const CUarrayMapInfo *list, unsigned int count)
{
	KEEP_ERRNO;

	for (unsigned int i = 0; result == CUDA_SUCCESS && list && job_is_active() && i < count;
	     i++) {
		if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP)
			physical_pin(list[i].memHandle.memHandle);
	}
	return result;
}

HOOK(cuMemMapArrayAsync, CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	return pin_tiles(PASSING_GATE(REAL(cuMemMapArrayAsync)(mapInfoList, count, hStream)),
	                 mapInfoList, count);
}

HOOK(cuMemMapArrayAsync_ptsz, CUarrayMapInfo *mapInfoList, unsigned int count, CUstream hStream)
{
	return pin_tiles(PASSING_GATE(REAL(cuMemMapArrayAsync_ptsz)(mapInfoList, count, hStream)),
	                 mapInfoList, count);
}

/* A descriptor for the network card and its like, which keep addresses. */
HOOK(cuMemGetHandleForAddressRange, void *handle, CUdeviceptr dptr, size_t size,
     CUmemRangeHandleType handleType, unsigned long long flags)
{
	KEEP_ERRNO;
	CUresult result =
	    REAL(cuMemGetHandleForAddressRange)(handle, dptr, size, handleType, flags);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_pin_range(dptr, size);
	return result;
}

/* --- multicast objects: little memory of their own; what is bound to them must stay on its device --- */

HOOK(cuMulticastCreate, CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
	KEEP_ERRNO;
	struct measuring measuring = {0};
	CUresult result;
	bool made;

	if (job_is_active())
		measured_begin(&measuring);
	result = REAL(cuMulticastCreate)(mcHandle, prop);
	made = result == CUDA_SUCCESS && mcHandle;
	measured_end(&measuring, made ? (const void *)(uintptr_t)*mcHandle : NULL,
	             MEASURED_MOST_OBJECT);
	return result;
}

HOOK(cuMulticastBindMem, CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
     CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
     unsigned long long flags)
{
	KEEP_ERRNO;
	CUresult result =
	    REAL(cuMulticastBindMem)(mcHandle, mcOffset, memHandle, memOffset, size, flags);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_pin(memHandle);
	return result;
}

HOOK(cuMulticastBindAddr, CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
     CUdeviceptr memptr, size_t size, unsigned long long flags)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuMulticastBindAddr)(mcHandle, mcOffset, memptr, size, flags);

	if (result == CUDA_SUCCESS && job_is_active())
		physical_pin_range(memptr, size);
	return result;
}

/* What was bound stays pinned: it may be bound elsewhere, and few are ever unbound. */
GATED(cuMulticastUnbind, (CUmemGenericAllocationHandle, mcHandle), (CUdevice, dev),
      (size_t, mcOffset), (size_t, size))
