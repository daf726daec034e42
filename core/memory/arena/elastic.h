/*
 * The elastic allocator: device memory in the arena, each chunk placed on its own, on the device within the limit
 * and on the host beyond it. Thread-safe.
 */
#ifndef SPILLWAY_ELASTIC_H
#define SPILLWAY_ELASTIC_H

#include "core/cuda/context.h"
#include "core/memory/arena/run.h"

struct allocation;

/*
 * An allocation that is not in the books yet, with a reference that is the caller's. until: of the request. CUDA_ERROR_OUT_OF_MEMORY: neither
 * side may take it; CUDA_ERROR_NOT_SUPPORTED: this device has no arena.
 */
CUresult elastic_allocate(const struct context *context, size_t size, enum run_place place,
                          struct deadline *until, struct allocation **allocation);
/* Pins the allocation at the address (its slab) for good if all of it is on the device. Whether it is. */
bool elastic_pin(struct device *device, CUdeviceptr address);
/* Whether the allocation lives in an arena. */
bool elastic_is(const struct allocation *allocation);
/* The allocation is gone without having been freed: its memory stays where it is, and nobody's. */
void elastic_disown(const struct allocation *allocation);
/* The allocation around an address of an arena, with a reference for the caller, or NULL. */
struct allocation *elastic_at(CUdeviceptr address);

/* What the driver would call its mapping: the chunks it lies in. Their bytes. */
uint64_t elastic_mapping(const struct allocation *allocation, CUdeviceptr *base);
/* Releases slabs that hold nothing. Their bytes. */
uint64_t elastic_trim(struct device *device);
/* Finds out whether allocations may be mixed, by memory of the arena. By the mover. */
void elastic_try_mixed(struct device *device);
/* Calls each() with every run that is mapped now, with the arena's lock held. */
void elastic_each_run(struct device *device,
                      void (*each)(void *cookie, CUdeviceptr address, uint64_t size), void *cookie);

/*
 * Brings what lies in [address, address + size) to the device and keeps it there for good: others know its addresses.
 * What is in no arena is let alone. Waits for the mover; not to be called inside the gate. CUDA_ERROR_OUT_OF_MEMORY and
 * CUDA_ERROR_NOT_READY as wanted_pin().
 */
CUresult elastic_pin_range(CUdeviceptr address, size_t size);

/* --- for export to another process (share.c) --- */

struct elastic_piece {
	CUmemGenericAllocationHandle handle; /* exportable */
	uint64_t size;
};
/*
 * Brings all chunks of the allocation (of its slab) to the device in physical memory that can be exported, and pins
 * them for good. Waits for the mover. CUDA_ERROR_OUT_OF_MEMORY: there is no room for it on the device;
 * CUDA_ERROR_NOT_READY: a capture or unfinished work does not let it be moved; MAP_FAILED: the driver does not.
 */
CUresult elastic_make_exportable(struct allocation *allocation);
/*
 * After it: the chunks in order of address, as far as there is room for them, and where in the first one the
 * allocation begins. How many there are.
 */
size_t elastic_pieces(const struct allocation *allocation, struct elastic_piece *pieces,
                      size_t room, uint64_t *offset);

#endif
