/* SPDX-License-Identifier: MIT */
/*
 * Memory that processes give each other (cuIpcGetMemHandle): the functions by which the kernel
 * reaches core/modules/ipc. Without that module memory of arenas and slabs has no handles
 * (CUDA_ERROR_MAP_FAILED).
 */
#ifndef SPILLWAY_IPC_CALLS_H
#define SPILLWAY_IPC_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "core/cuda/context.h"

struct ipc_place {
	CUdeviceptr base;
	size_t size;
	struct context context; /* it was opened in, with the device that has the memory */
};

struct ipc_calls {
	/*
	 * Makes the handle of the allocation around an address, always the same one. Returns false
	 * if that is no memory of an arena and no block of a slab; the driver answers then.
	 * *result: OUT_OF_MEMORY where there is no room for all of it on the device, MAP_FAILED
	 * where it cannot be had now. May wait for the mover, so it is not called inside the gate.
	 */
	bool (*give)(CUdeviceptr address, CUipcMemHandle *handle, CUresult *result);
	/*
	 * Withdraws the memory with this number, which becomes 0: from now on no process opens it,
	 * or is doing so when this returns.
	 */
	void (*withdraw)(_Atomic uint64_t *number);
	/* Returns whether open() is to be asked: it is a handle of give(), of any process. */
	bool (*is_ours)(const CUipcMemHandle *handle);
	/* Maps it for the context, with room made where another job's memory lacks it. May wait. */
	CUresult (*open)(const struct context *context, const CUipcMemHandle *handle,
	                 unsigned int flags, CUdeviceptr *address);
	/*
	 * Closes it. False: not opened by open(); the driver answers. Waits for work that may use
	 * it, as the driver does. While a capture is active the driver's own call says whether it
	 * may be closed, and it goes once the capture is over.
	 */
	bool (*close)(CUdeviceptr address, CUresult (*native)(CUdeviceptr address),
	              CUresult *result);
	/* Finds the memory that was opened around this address. */
	bool (*find)(CUdeviceptr address, struct ipc_place *place);
};

/* NULL: the module is not built in. */
extern _Atomic(const struct ipc_calls *) ipc_calls;

/* Takes memory back before it goes. A number that is not 0 was set by the module. */
static inline void ipc_take_back(_Atomic uint64_t *number)
{
	if (atomic_load_explicit(number, memory_order_relaxed))
		atomic_load(&ipc_calls)->withdraw(number);
}

#endif
