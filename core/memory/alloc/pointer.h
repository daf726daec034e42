/* SPDX-License-Identifier: MIT */
/*
 * Pointer queries: the driver's answers for spilled memory, the same as for cuMemAlloc's, with any
 * backing. Thread-safe.
 */
#ifndef SPILLWAY_POINTER_H
#define SPILLWAY_POINTER_H

#include <stdbool.h>

#include "core/cuda/driver.h"

/*
 * Answers an attribute of spilled memory. Returns false if it is no spilled memory, or an attribute
 * that the driver answers rightly; then the driver is to be asked.
 */
bool pointer_attribute(CUpointer_attribute attribute, CUdeviceptr address, void *data,
                       CUresult *result);
/*
 * Brings the memory there to its device, where it must stay. Waits for the mover, so it is not to
 * be called inside the gate.
 */
void pointer_pin(CUdeviceptr address, size_t size);
/*
 * Remembers whether synchronous calls that touch the memory are to be in order with the host, which
 * drivers refuse for virtual memory (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS). Returns false if it lies in
 * no arena, and the driver is to be asked.
 */
bool pointer_keep_order(CUdeviceptr address, bool on);
/* Returns whether either address is in memory of which that was asked: one load where none is. */
bool pointer_is_in_order(CUdeviceptr one, CUdeviceptr other);
bool pointer_range(CUdeviceptr address, CUdeviceptr *base, size_t *size);

#endif
