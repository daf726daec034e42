/* SPDX-License-Identifier: MIT */
/*
 * The elastic allocator: memory in the arena, each chunk placed on its own, on the device or on the
 * host. It knows its owners by their pointers alone, and makes no room: the caller does.
 * Thread-safe.
 */
#ifndef SPILLWAY_ELASTIC_H
#define SPILLWAY_ELASTIC_H

#include "core/base/deadline.h"
#include "core/budget/device.h"
#include "core/budget/refusal.h"
#include "core/budget/terms.h"
#include "core/memory/arena/arena.h"

/*
 * Runs: the chunks of one allocation, or of a slab, mapped one behind the other at addresses of the
 * arena.
 *
 * A run is placed and cleared while only its maker knows it, or after it was withdrawn. Published,
 * it is the mover's to move.
 */

/* The tier on which new chunks are made. */
enum run_place { RUN_ON_DEVICE, RUN_ON_HOST };

/* A run that is being made: its chunks are mapped one after the other. Only its maker knows it. */
struct run {
	struct arena *arena;
	const struct terms *terms;
	enum run_place place;  /* of the chunks that are still to be had; those that it has stay */
	uint32_t first, units; /* first: ADDRESS_NONE while it has no addresses */
	uint32_t done;         /* units that are mapped */
	uint64_t on_host;      /* bytes of them */
	struct lack lack;
	uint32_t reached_by; /* peers that have the right to it */
};

static inline CUdeviceptr run_address(const struct arena *arena, uint32_t unit)
{
	return arena->base + unit * ARENA_UNIT;
}
/*
 * Returns the first unit of the run around an address; ADDRESS_NONE if there is none. The arena's
 * lock is held.
 */
uint32_t run_first(const struct arena *arena, CUdeviceptr address);
/* Returns the first unit of the chunk that follows one in a run; likewise. */
static inline uint32_t run_next(const struct arena *arena, uint32_t first, uint32_t unit)
{
	uint32_t next = unit + arena->units[unit].units;

	/* The run ends where another begins, or nothing is mapped. */
	return next < arena->top && arena->units[next].kind != UNIT_FREE &&
	               arena->units[next].run == first
	           ? next
	           : ADDRESS_NONE;
}

/* Returns how many units the run has that begins with this one. The arena's lock is held. */
static inline uint32_t run_units(const struct arena *arena, uint32_t first)
{
	uint32_t units = 0;

	for (uint32_t i = first; i != ADDRESS_NONE; i = run_next(arena, first, i))
		units += arena->units[i].units;
	return units;
}
/* Keeps all chunks of the run around the address where they are. The arena's lock is held. */
void run_pin(struct arena *arena, CUdeviceptr address);
/*
 * Fills in the rights of the device itself and of its peers. Returns how many there are, at most
 * DEVICE_MAX.
 */
size_t reach_rights(const struct device *owner, CUmemAccessDesc rights[DEVICE_MAX]);

struct allocation;

/* A request for memory: the caller fills in the first three, elastic_begin() the rest. */
struct making {
	size_t size;
	struct allocation *owner;
	struct deadline *until; /* for a slab that another thread makes */

	struct run run; /* place is the caller's between two calls; lack names the missing bytes */
	uint64_t on_host; /* bytes that were placed there for it */
	struct slab_maker maker;
};

static inline void elastic_begin(struct making *m, struct arena *arena, const struct terms *terms)
{
	m->run = (struct run){.arena = arena, .terms = terms, .first = ADDRESS_NONE};
	m->on_host = 0;
	m->maker = (struct slab_maker){false, false};
	m->run.units =
	    m->size <= SLAB_BLOCK_MAX ? 1 : (uint32_t)((m->size + ARENA_UNIT - 1) / ARENA_UNIT);
}
/*
 * Takes memory and sets *address on success. Returns CUDA_ERROR_OUT_OF_MEMORY where there is no
 * room; making->run.lack names the missing bytes. It keeps its chunks, and another call goes on. It
 * ends with success, or with elastic_drop().
 */
CUresult elastic_take(struct making *making, CUdeviceptr *address);
void elastic_drop(struct making *making);
/*
 * Gives back the memory at its first address. is_spent: another process may have it open, so it is
 * not allocated again. Returns whether that leaves room to which memory may come back.
 */
bool elastic_give(struct device *device, CUdeviceptr address, bool is_spent);
/*
 * Pins the memory there (its slab) for good if all of it is on the device. Returns whether it is.
 */
bool elastic_pin(struct device *device, CUdeviceptr address);
/*
 * Makes `nobody` the owner of the memory that begins there, because its owner is gone: it stays
 * there.
 */
void elastic_disown(CUdeviceptr address, struct allocation *nobody);
/*
 * Returns the owner of an address of an arena if hold() agrees, which is called with the arena's
 * lock held; or NULL.
 */
struct allocation *elastic_owner(CUdeviceptr address,
                                 bool (*hold)(struct allocation *owner, CUdeviceptr address));

/* Releases slabs that hold nothing. Returns their bytes. */
uint64_t elastic_trim(struct device *device);
/*
 * Lets `reader` reach the memory that `owner` allocates from now on, and the memory in its arena
 * already. A right once given stays.
 */
void elastic_open_to(struct device *owner, struct device *reader);

/* --- for export to another process --- */

struct elastic_piece {
	CUmemGenericAllocationHandle handle; /* exportable */
	uint64_t size;
};
/*
 * Lists the chunks of the memory at an address, in order, as far as there is room for them, and
 * where in the first one the address is. Returns how many there are.
 */
size_t elastic_pieces(CUdeviceptr address, struct elastic_piece *pieces, size_t room,
                      uint64_t *offset);

#endif
