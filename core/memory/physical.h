/*
 * Physical memory the application makes itself with cuMemCreate.
 *
 * Charged while a handle or a mapping of it lives. Beyond the limit it is made on the host instead,
 * unless it is to be exported, which only device memory can. Thread-safe.
 */
#ifndef SPILLWAY_PHYSICAL_H
#define SPILLWAY_PHYSICAL_H

#include "core/driver.h"

struct device_set;

/* create is the driver's cuMemCreate. */
CUresult physical_create(struct device_set *devices, CUmemGenericAllocationHandle *handle,
                         size_t size, const CUmemAllocationProp *prop, unsigned long long flags,
                         __typeof__(&cuMemCreate) create);
/* To be called after the driver did each of these. */
void physical_released(CUmemGenericAllocationHandle handle);
void physical_retained(CUmemGenericAllocationHandle handle);
void physical_mapped(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle);
void physical_unmapped(CUdeviceptr address, size_t size);

#endif
