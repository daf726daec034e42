/* SPDX-License-Identifier: MIT */
/*
 * The elastic allocator: memory in the arena, each chunk placed on its own, on the device or on the
 * host. It knows its owners by their pointers alone, makes no room and tells nobody: who asks does.
 * Thread-safe.
 */
#ifndef SPILLWAY_ELASTIC_H
#define SPILLWAY_ELASTIC_H

#include "core/base/deadline.h"
#include "core/memory/arena/run.h"

struct allocation;

/* A request for memory: the caller fills in the first three, elastic_begin() the rest. */
struct making {
	size_t size;
	struct allocation *owner;
	struct deadline *until; /* for a slab that another thread makes */

	struct run
	    run; /* place is the caller's to change between two calls; lack says what was wanting */
	uint64_t on_host; /* bytes that were placed there for it */
	struct slab_turn turn;
};

void elastic_begin(struct making *making, struct arena *arena, const struct terms *terms);
/*
 * Takes memory and sets *address on success. Returns CUDA_ERROR_OUT_OF_MEMORY where there is no
 * room; making->run.lack says for what. What it has it keeps, and another call goes on. It ends
 * with success, or with elastic_drop().
 */
CUresult elastic_take(struct making *making, CUdeviceptr *address);
void elastic_drop(struct making *making);
/*
 * Gives back the memory at its first address. is_spent: others may have it open, so nobody gets it
 * again. Returns whether that leaves room to which something may come back.
 */
bool elastic_give(struct device *device, CUdeviceptr address, bool is_spent);
/* Pins what is there (its slab) for good if all of it is on the device. Returns whether it is. */
bool elastic_pin(struct device *device, CUdeviceptr address);
/* Makes `nobody` the owner of what begins there, because its owner is gone: it stays there. */
void elastic_disown(CUdeviceptr address, struct allocation *nobody);
/*
 * Returns the owner of what is at an address of an arena if hold() agrees, which is called with the
 * arena's lock held; or NULL.
 */
struct allocation *elastic_owner(CUdeviceptr address,
                                 bool (*hold)(struct allocation *owner, CUdeviceptr address));

/* Releases slabs that hold nothing. Returns their bytes. */
uint64_t elastic_trim(struct device *device);
/*
 * Lets `reader` reach what `owner` allocates from now on, and what is in its arena already. A right
 * once given stays.
 */
void elastic_open_to(struct device *owner, struct device *reader);

/* --- for export to another process --- */

struct elastic_piece {
	CUmemGenericAllocationHandle handle; /* exportable */
	uint64_t size;
};
/*
 * Lists the chunks of what is at an address, in order, as far as there is room for them, and says
 * where in the first one the address is. Returns how many there are.
 */
size_t elastic_pieces(CUdeviceptr address, struct elastic_piece *pieces, size_t room,
                      uint64_t *offset);

#endif
