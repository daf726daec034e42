/* SPDX-License-Identifier: MIT */
/*
 * Room for the program's own memory (own/own.h): made, or imported, it is charged, and memory in
 * the way goes first. Beyond the limit it is made on the host instead, unless another node may
 * reach it. For memory with a descriptor, other memory leaves the device first. Thread-safe; may
 * wait for the mover, so none is to be called inside the gate.
 */
#ifndef SPILLWAY_OWN_MEMORY_H
#define SPILLWAY_OWN_MEMORY_H

#include <stdbool.h>

#include "core/cuda/driver.h"

struct device_set;

/*
 * Makes own memory as cuMemCreate does; create: the driver's function. stays: with pin_new = auto
 * it must stay on the device.
 */
CUresult own_memory_create(struct device_set *devices, CUmemGenericAllocationHandle *handle,
                           size_t size, const CUmemAllocationProp *prop, unsigned long long flags,
                           bool stays, __typeof__(&cuMemCreate) create);
/*
 * Brings memory to the device, to stay there, before it is exported as one of these types. Returns
 * CUDA_ERROR_OUT_OF_MEMORY where it cannot come.
 */
CUresult own_memory_may_export(CUmemGenericAllocationHandle handle, unsigned int types);
/*
 * Charges another's memory. Where it is known to be the job's own, its owner is charged. Else this
 * process is charged, and gets out of memory where the limit has no room: at once where the size is
 * known, else when the memory is mapped.
 *
 * shareable, type: as they were given to the driver, which imported *handle. Refused, it is
 * released.
 */
CUresult own_memory_import(struct device_set *devices, CUmemGenericAllocationHandle *handle,
                           const void *shareable, CUmemAllocationHandleType type);
/*
 * Charges the missing bytes before the memory is mapped up to `end`. *charged: to be given to
 * own_not_mapped() where the driver refuses.
 */
CUresult own_memory_may_map(CUmemGenericAllocationHandle handle, uint64_t end, uint64_t *charged);

#endif
