/* SPDX-License-Identifier: MIT */
/*
 * Memory of an arena, and blocks of slabs, for other processes: the answers of cuIpcGetMemHandle,
 * cuIpcOpenMemHandle and cuIpcCloseMemHandle for them. The driver has no such handles for virtual
 * memory, and of a slab only one of the whole. server.c gives; import.c opens, keeps opened memory
 * and closes it.
 *
 * Memory given away stays on the device for good. Opened memory is charged to its owner, and to the
 * job when the owner has freed it or died (exported.h); another job's memory to the process that
 * opens it. It is good until it is closed, and goes with the context it was opened in. Thread-safe.
 */
#ifndef SPILLWAY_IPC_H
#define SPILLWAY_IPC_H

#include <stdbool.h>

#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/memory/alloc/ipc_calls.h"

/* --- memory of this process --- */

/*
 * Memory that is given away: of an arena, by now all on the device for good and exportable, or a
 * block of a slab of the driver's.
 */
struct ipc_gift {
	struct device *device;
	CUdeviceptr address; /* its first */
	size_t size;
	const CUipcMemHandle *of_slab; /* the driver's, of the slab; NULL: of an arena */
	uint64_t offset;               /* in the slab */
	_Atomic uint64_t
	    *number; /* its number, kept by the owner of the memory; 0: it was never given */
};
/* Makes the handle of it, always the same one. MAP_FAILED: no memory can be given now. */
CUresult ipc_give(const struct ipc_gift *gift, CUipcMemHandle *handle);
/*
 * Takes it back before the memory goes: no process may open it from now on, or is doing so when
 * this returns.
 */
void ipc_withdraw(_Atomic uint64_t *number);

/* --- memory of other processes --- */

/* Returns whether ipc_open() is to be asked: it is a handle of ipc_give(), of any process. */
bool ipc_is_ours(const CUipcMemHandle *handle);
/* Room that another job's memory lacks within the limit; device NULL: none. */
struct ipc_lack {
	struct device *device;
	uint64_t bytes;
};
/*
 * Maps it for the current context; once more in the same context is the same address, counted.
 * MAP_FAILED: the process that gave it has freed it, is gone, does not answer, or is another user's
 * or state directory's; INVALID_CONTEXT: it is this process's own; OUT_OF_MEMORY with *lack:
 * nothing is left of it, and it may be tried again; else the driver's answer.
 */
CUresult ipc_open(const struct context *context, const CUipcMemHandle *handle, unsigned int flags,
                  CUdeviceptr *address, struct ipc_lack *lack);
/*
 * Closes it. False: not opened by ipc_open(); the driver answers. Waits for work that may use it,
 * as the driver does. While a capture is active the driver's own call says whether it may be
 * closed, and it goes once the capture is over.
 */
bool ipc_close(CUdeviceptr address, CUresult (*native)(CUdeviceptr address), CUresult *result);
/* Releases memory that was opened in a context that is destroyed. */
void ipc_forget_context(CUcontext context);

/* Finds the opened memory around this address. */
bool ipc_find(CUdeviceptr address, struct ipc_place *place);

#endif
