/* SPDX-License-Identifier: MIT */
/*
 * Own memory: physical memory that the program makes itself with cuMemCreate.
 *
 * Charged while a handle or a mapping of it lives. Beyond the limit it is made on the host instead,
 * unless another node may reach it. Where there is an arena, the program gets a handle of ours for
 * it, which stays the same while the mover exchanges the memory behind the program's mappings. The
 * mover does that with memory that is mapped and has rights. Memory that has left the program's
 * hands (exported, bound, registered) stays where it is.
 *
 * Handles of ours are known by their value; all functions leave other handles as they are. A call
 * that takes a handle to the driver, and its consequences, are inside the gate. Thread-safe.
 *
 * PyTorch's expandable segments work this way; they ask for memory that can be exported, so that
 * moves until it is exported. A handle of ours has 0x5350 in its upper 16 bits, which no address
 * has. NCCL releases the handle right after mapping.
 */
#ifndef SPILLWAY_OWN_H
#define SPILLWAY_OWN_H

#include <stdbool.h>

#include "core/budget/device.h"

struct import;

/* No address looks like this, and no handle of a driver is known to. */
#define OWN_NAMES      ((CUmemGenericAllocationHandle)0x5350 << 48)
#define OWN_NAMES_MASK ((CUmemGenericAllocationHandle)0xffff << 48)

static inline bool own_is_ours(CUmemGenericAllocationHandle handle)
{
	return (handle & OWN_NAMES_MASK) == OWN_NAMES;
}

/*
 * Returns the device of memory on the host that cannot move as it is mapped and may be exported as
 * one of these types, and its size in *bytes. NULL: it is none such.
 */
struct device *own_unreadable_on_host(CUmemGenericAllocationHandle handle, unsigned int types,
                                      uint64_t *bytes);

struct own_made {
	struct device *device;
	enum segment_tier tier;
	uint64_t bytes;
	const CUmemAllocationProp *prop;
	bool moves; /* the program gets a handle of ours; else it stays where it was made */
	bool pins;  /* it never leaves the device */
};
/* Enters memory that was made and charged; *handle becomes the program's. */
void own_enter(const struct own_made *made, CUmemGenericAllocationHandle *handle);
/* Looks at the device's memory that has a name, with the books locked. */
typedef void own_look(void *cookie, const void *site, uint64_t bytes, uint64_t born_ns);
void own_walk(const struct device *device, own_look *look, void *cookie);
/* Puts the driver's handle in the place of one of ours. False: it was ours, and is released. */
bool own_translate(CUmemGenericAllocationHandle *handle);
/* Releases one of ours, with the answer in *result. False: it is not ours. */
bool own_release(CUmemGenericAllocationHandle handle, CUresult *result);
/*
 * Begins and ends its leaving, around the driver's call that releases one of its own. Until the
 * driver has agreed the memory is known and charged, and memory made under the same handle
 * meanwhile is not taken for it. Returns NULL where it is not known.
 */
struct own *own_leave(CUmemGenericAllocationHandle handle);
void own_left(struct own *leaving, bool gone);
/*
 * Counts mappings, before the driver is asked to unmap: mappings made there after this are not
 * meant.
 */
uint64_t own_mapped_so_far(void);

/*
 * To be called after the driver did each of these. Retaining and importing put our handle in the
 * place of the driver's where the memory has one.
 */
/*
 * Adds a handle that the program was given. address: in the mapping that the handle was asked for.
 */
void own_retained(CUmemGenericAllocationHandle *handle, CUdeviceptr address);
void own_mapped(CUdeviceptr address, size_t size, CUmemGenericAllocationHandle handle);
void own_unmapped(CUdeviceptr address, size_t size, uint64_t so_far);
void own_accessed(CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count);
/*
 * Marks a shareable handle of this type that was made of it: an importer recognises the memory by
 * it.
 */
void own_exported(struct device_set *devices, CUmemGenericAllocationHandle handle,
                  CUmemAllocationHandleType type, const void *shareable);

/*
 * Enters another's memory (alloc/own_memory.h). own_import_again() puts our handle in the place of
 * the driver's where the program has it already, and returns whether it has. own_enter_import()
 * enters it, charged for import->bytes. device NULL: it is of no known device. It returns whether
 * there was memory for the books.
 */
bool own_import_again(CUmemGenericAllocationHandle *handle);
bool own_enter_import(struct device *device, CUmemGenericAllocationHandle handle,
                      const struct import *import);
/*
 * Returns, before imported memory is mapped up to `end`, the device to which *bytes more are to be
 * charged for it, or NULL where nothing is. own_charged() notes that they are. own_not_mapped()
 * takes them back where the driver refuses.
 */
struct device *own_uncharged(CUmemGenericAllocationHandle handle, uint64_t end, uint64_t *bytes);
void own_charged(struct device *device, CUmemGenericAllocationHandle handle, uint64_t bytes);
void own_not_mapped(CUmemGenericAllocationHandle handle, uint64_t charged);

/*
 * Pins memory that must be on the device and stay there: before it is exported, bound to a
 * multicast object, mapped into an array, known to another device. Those at an address are all that
 * are mapped in the range. Not inside the gate: waits for the mover.
 *
 * types: handle types it is to be exported as; 0: another use. Memory that was not made for these
 * is let alone, for the driver to judge. Returns CUDA_ERROR_OUT_OF_MEMORY where it cannot come to
 * the device now.
 */
CUresult own_pin(CUmemGenericAllocationHandle handle, unsigned int types);
void own_pin_range(CUdeviceptr address, size_t size);

/* Returns the device of the mapping there, or NULL. */
struct device *own_device(CUdeviceptr address);
/* Returns in *prop the program's request, with any backing. False: as the driver answers. */
bool own_properties(CUmemGenericAllocationHandle handle, CUmemAllocationProp *prop);
/* Answers as pointer_attribute(), of memory that the driver has on the host. */
bool own_attribute(CUpointer_attribute attribute, CUdeviceptr address, void *data,
                   CUresult *result);

#endif
