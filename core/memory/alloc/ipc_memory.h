/* SPDX-License-Identifier: MIT */
/*
 * IPC memory at the front (ipc/ipc.h): an allocation that is given away comes to the device and
 * stays there, and what is opened of another job has room made for it. Thread-safe; may wait for
 * the mover, so neither is to be called inside the gate.
 */
#ifndef SPILLWAY_IPC_MEMORY_H
#define SPILLWAY_IPC_MEMORY_H

#include <stdbool.h>

#include "core/budget/device.h"
#include "core/cuda/context.h"

/*
 * Makes the handle of the allocation around an address, always the same one. Returns false if that
 * is no memory of an arena and no block of a slab; the driver answers then. *result: OUT_OF_MEMORY
 * where there is no room for all of it on the device, MAP_FAILED where it cannot be had now.
 */
bool ipc_memory_give(CUdeviceptr address, CUipcMemHandle *handle, CUresult *result);
/* Opens as ipc_open(), with room made where another job's memory lacks it. */
CUresult ipc_memory_open(const struct context *context, const CUipcMemHandle *handle,
                         unsigned int flags, CUdeviceptr *address);

#endif
