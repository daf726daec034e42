/* SPDX-License-Identifier: MIT */
/*
 * Small requests without an arena: blocks of slabs, where a slab is one allocation of the driver's.
 *
 * The driver takes 2 MiB for the first small allocation of a context and does not say when it takes
 * the next 2 MiB. A limit that is charged the requested bytes would be exceeded by up to 2 MiB for
 * each process. So a slab is charged whole, before the driver is asked, and its blocks cost nothing
 * more. For example, eight processes with 4 KiB each are charged 16 MiB, and the driver takes 16
 * MiB.
 *
 * A slab belongs to a context and goes with it. It knows its owners by their pointers alone, and
 * makes no room: the caller does. Thread-safe.
 */
#ifndef SPILLWAY_SMALL_H
#define SPILLWAY_SMALL_H

#include "core/base/deadline.h"
#include "core/budget/refusal.h"
#include "core/cuda/context.h"
#include "core/memory/arena/slab.h"

struct allocation;
struct device;

/* A request for up to SLAB_BLOCK_MAX bytes: the caller fills in all but the last three. */
struct small_making {
	size_t size;
	const struct context *context; /* the current one */
	struct allocation *owner;
	struct deadline *until; /* for a slab that another thread makes */
	struct lack lack;
	struct slab_maker maker;
	bool has_no_entry; /* a slab cannot be entered in the books: without one the driver serves
	                      it */
};

/*
 * Takes a block and sets *address on success. Returns CUDA_ERROR_OUT_OF_MEMORY where there is no
 * room; lack names the missing bytes. Another call goes on. It ends with success, or with
 * small_drop().
 */
CUresult small_take(struct small_making *making, CUdeviceptr *address);
void small_drop(struct small_making *making);
/* How a block comes back. */
struct small_giving {
	const struct allocation *owner;
	bool keeps; /* an empty slab, if it is the last of its class; else it goes to the driver */
	bool is_spent; /* it was given away: not handed out again while its slab lives */
};
/* Gives the block at this address back, if it is this owner's. */
void small_give(CUdeviceptr address, const struct small_giving *how);
/*
 * Makes the driver's handle of the slab around an address, by which other processes open all of it.
 * *offset: the address's in it. From then on the slab is charged until no process of the job can
 * hold it.
 */
CUresult small_export(CUdeviceptr address, CUipcMemHandle *handle, uint64_t *offset);
/* Returns whether the address lies in a slab. Takes no lock. */
bool small_holds(CUdeviceptr address);
/* Returns the owner of the block around an address if hold() agrees, which is called with a lock
 * held; or NULL. */
struct allocation *small_owner(CUdeviceptr address,
                               bool (*hold)(struct allocation *owner, CUdeviceptr address));
/* Makes `nobody` the owner of the block at this address, because its owner is gone. */
void small_disown(CUdeviceptr address, struct allocation *nobody);
/* Gives a device's empty slabs back to the driver. Returns their bytes. */
uint64_t small_trim(struct device *device);
/* Forgets the slabs of a context that the driver has destroyed. */
void small_forget_context(const struct context *context);

#endif
