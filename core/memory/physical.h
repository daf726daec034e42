/*
 * Physical memory the application makes itself with cuMemCreate.
 *
 * Charged while a handle or a mapping of it lives. Beyond the limit it is made on the host instead,
 * unless it is to be exported, which only device memory can. Thread-safe.
 */
#ifndef SPILLWAY_PHYSICAL_H
#define SPILLWAY_PHYSICAL_H

#include <stdbool.h>

#include "core/driver.h"

struct device;
struct device_set;

/* create is the driver's cuMemCreate. */
CUresult physical_create(struct device_set *devices, CUmemGenericAllocationHandle *handle,
                         size_t size, const CUmemAllocationProp *prop, unsigned long long flags,
                         __typeof__(&cuMemCreate) create);
/* To be called after the driver did each of these. */
void physical_released(CUmemGenericAllocationHandle handle);
/* address: in the mapping that the handle was asked for */
void physical_retained(CUmemGenericAllocationHandle handle, CUdeviceptr address);
void physical_mapped(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle);
void physical_unmapped(CUdeviceptr address, size_t size);
void physical_accessed(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                       size_t count);
/* Another's memory, whose owner is charged. device: as far as it is known, NULL else. */
void physical_imported(struct device *device, CUmemGenericAllocationHandle handle);

/*
 * It must stay where it is: exported, bound to a multicast object, mapped into an array, known to another device.
 * Those at an address are all that are mapped in the range.
 */
void physical_pin(CUmemGenericAllocationHandle handle);
void physical_pin_range(CUdeviceptr address, size_t size);

/* What the program asked for, whatever the backing. False: as the driver says. */
bool physical_properties(CUmemGenericAllocationHandle handle, CUmemAllocationProp *prop);
/*
 * The granularity that memory of these properties needs so that it can be on the host as well; `granularity` where
 * it cannot be there.
 */
size_t physical_granularity(struct device_set *devices, const CUmemAllocationProp *prop,
                            CUmemAllocationGranularity_flags option, size_t granularity);

#endif
