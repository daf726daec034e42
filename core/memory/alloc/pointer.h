/*
 * What the driver's pointer queries answer for spilled memory: the same as for cuMemAlloc's,
 * whatever the backing. Thread-safe.
 */
#ifndef SPILLWAY_POINTER_H
#define SPILLWAY_POINTER_H

#include <stdbool.h>

#include "core/cuda/driver.h"

/* False: not spilled memory, or an attribute the driver answers rightly; ask the driver. */
bool pointer_attribute(CUpointer_attribute attribute, CUdeviceptr address, void *data,
                       CUresult *result);
/* Whether the address is where the program has nothing any more, although the driver still knows it. */
bool vmem_is_gone(CUdeviceptr address);
/* It must be on its device and stay there. Not to be called inside the gate: waits for the mover. */
void pointer_pin(CUdeviceptr address, size_t size);
bool pointer_range(CUdeviceptr address, CUdeviceptr *base, size_t *size);

#endif
