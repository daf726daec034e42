/* SPDX-License-Identifier: MIT */
/*
 * Memory and pools of other processes, and ours given to them. Another's memory is in the books.
 */
#include "shim/shim.h"

#include "core/base/log.h"
#include "core/job/job.h"
#include "core/memory/alloc/allocation.h"
#include "core/budget/exported.h"
#include "core/memory/uses/pool.h"
#include "core/memory/alloc/reclaim.h"
#include "core/budget/refusal.h"
#include "core/memory/alloc/ipc_calls.h"
#include "core/memory/uses/counted.h"

/*
 * Returns whether it is memory that has handles of ours alone, where the module that makes them is
 * not built in. A handle of the driver's would be of the whole slab, and open at its first block.
 */
static bool cannot_be_given(CUdeviceptr dptr)
{
	struct allocation *a = allocation_in_arena(dptr);
	bool is_ours;

	if (!a)
		a = allocation_in_slab(dptr);
	is_ours = a && !a->pool; /* pools have export calls of their own */
	if (a)
		resource_release(&a->resource);
	if (is_ours)
		log_once(LOG_WARNING,
		         "memory cannot be given to another process (cuIpcGetMemHandle) without "
		         "the module 'ipc', which is not built in");
	return is_ours;
}

/*
 * Memory of an arena and blocks of slabs have handles of ours, any other on the host none. The
 * program is told what is true, the device has no room for this, by a status the call may answer.
 */
HOOK(cuIpcGetMemHandle, CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
	KEEP_ERRNO;
	const struct ipc_calls *ipc = atomic_load(&ipc_calls);
	struct context context;
	struct refused refused;
	struct allocation *a;
	CUresult result;

	if (!job_is_active() || !context_current(&context))
		return REAL(cuIpcGetMemHandle)(pHandle, dptr);
	if (ipc && ipc->give(dptr, pHandle, &result))
		return result;
	if (!ipc && cannot_be_given(dptr))
		return CUDA_ERROR_MAP_FAILED;
	a = allocation_mapped_at(dptr, false);
	if (a) {
		refused = refusal_of_unmovable(a->context.device, a->size);
		refusal_note(a->context.device, REFUSED_GIVE, &refused);
		resource_release(&a->resource);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = REAL(cuIpcGetMemHandle)(pHandle, dptr);
	if (result == CUDA_SUCCESS) {
		a = allocation_find(dptr);
		if (a) {
			allocation_exported(a, pHandle, sizeof(*pHandle));
			resource_release(&a->resource);
		}
	}
	return result;
}

/* Enters memory that was opened by a handle: the job has it already, or is charged for it now. */
static CUresult opened_by_handle(CUresult result, const CUipcMemHandle *handle,
                                 const CUdeviceptr *dptr)
{
	KEEP_ERRNO;
	struct counted_import known = {0};
	struct context context;
	struct refused refused;
	struct import import;
	CUdeviceptr base;
	size_t size;

	if (result != CUDA_SUCCESS || !dptr || !job_is_active() || !context_current(&context) ||
	    counted_is_open_again(&context, *dptr))
		return result;
	if (REAL(cuMemGetAddressRange_v2)(&base, &size, *dptr) == CUDA_SUCCESS)
		known.bytes = size;
	import = imported_read_name(context.device, handle, sizeof(*handle));
	known.imported_as = import.key;
	if (!import.key && known.bytes) {
		/* A small one lies in a block of 2 MiB, which stays while it is open here. */
		known.charged = allocation_rounded(known.bytes, true);
		if (reclaim_for_good(context.device, known.charged) != 0) {
			REAL(cuIpcCloseMemHandle)(*dptr);
			refused = refusal_of_unmovable(context.device, known.charged);
			refusal_note(context.device, REFUSED_IMPORT, &refused);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	counted_enter_import(&context, *dptr, &known);
	return result;
}

/*
 * Opens memory of which the handle is ours. Without a context the driver says so, whosever handle
 * it is. Returns false where the driver is to be asked.
 */
static bool open_ours(CUdeviceptr *pdptr, const CUipcMemHandle *handle, unsigned int flags,
                      CUresult *result)
{
	KEEP_ERRNO;
	const struct ipc_calls *ipc = atomic_load(&ipc_calls);
	struct context context;

	if (!job_is_active() || !ipc || !ipc->is_ours(handle) || !context_current(&context))
		return false;
	*result = ipc->open(&context, handle, flags, pdptr);
	return true;
}

#define OPENS(symbol)                                                                        \
	HOOK(symbol, CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)          \
	{                                                                                    \
		CUresult result;                                                             \
                                                                                             \
		if (open_ours(pdptr, &handle, Flags, &result))                               \
			return result;                                                       \
		return opened_by_handle(REAL(symbol)(pdptr, handle, Flags), &handle, pdptr); \
	}

OPENS(cuIpcOpenMemHandle)
OPENS(cuIpcOpenMemHandle_v2)

HOOK(cuIpcCloseMemHandle, CUdeviceptr dptr)
{
	KEEP_ERRNO;
	const struct ipc_calls *ipc = atomic_load(&ipc_calls);
	struct leaving leaving = {0};
	struct context context;
	CUresult result;

	if (job_is_active() && ipc && context_current(&context) &&
	    ipc->close(dptr, REAL(cuIpcCloseMemHandle), &result))
		return result;
	if (job_is_active())
		leaving = context_leave_object(&counted_type_ipc_mapping, dptr);
	result = PASSING_GATE(REAL(cuIpcCloseMemHandle)(dptr));
	counted_left(&leaving, result == CUDA_SUCCESS);
	return result;
}

/* --- pools --- */

AFTER(cuMemPoolExportToShareableHandle, (void *, handle_out), (CUmemoryPool, pool),
      (CUmemAllocationHandleType, handleType), (unsigned long long, flags))
{
	struct pool *known = pool_find(pool);

	if (known)
		pool_share(known);
	pool_release(known);
}

AFTER(cuMemPoolImportFromShareableHandle, (CUmemoryPool *, pool_out), (void *, handle),
      (CUmemAllocationHandleType, handleType), (unsigned long long, flags))
{
	if (pool_out)
		counted_enter(&counted_type_imported_memory, NULL, (uintptr_t)*pool_out, 0, 0);
}

AFTER(cuMemPoolExportPointer, (CUmemPoolPtrExportData *, shareData_out), (CUdeviceptr, ptr))
{
	struct allocation *a = allocation_find(ptr);

	if (a) {
		a->is_shared = true;
		resource_release(&a->resource);
	}
}

/* Enters memory that was opened. How much it is, the driver says. */
AFTER(cuMemPoolImportPointer, (CUdeviceptr *, ptr_out), (CUmemoryPool, pool),
      (CUmemPoolPtrExportData *, shareData))
{
	CUdeviceptr base;
	size_t size;

	if (!ptr_out)
		return;
	if (REAL(cuMemGetAddressRange_v2)(&base, &size, *ptr_out) != CUDA_SUCCESS)
		size = 0;
	counted_enter(&counted_type_imported_memory, NULL, *ptr_out, size, 0);
}
