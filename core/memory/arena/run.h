/* SPDX-License-Identifier: MIT */
/*
 * Runs: the chunks of one allocation, or of a slab, mapped one behind the other at addresses of the
 * arena.
 *
 * A run is placed and cleared while nobody knows of it: by who makes it, or after it was withdrawn.
 * Published, it is the mover's to move.
 */
#ifndef SPILLWAY_RUN_H
#define SPILLWAY_RUN_H

#include "core/budget/device.h"
#include "core/budget/refusal.h"
#include "core/budget/terms.h"
#include "core/memory/arena/arena.h"

/* The side on which new chunks are made. */
enum run_place { RUN_ON_DEVICE, RUN_ON_HOST };

/* A run that is being made: its chunks are mapped one after the other. Nobody else knows of it. */
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
 * Takes addresses for run->units units, and chunks for them, each charged to its side, and maps
 * them. Returns CUDA_ERROR_OUT_OF_MEMORY where there is no room; run->lack says for what. What it
 * has it keeps, and another call goes on. It ends with success, or with run_drop().
 */
CUresult run_place(struct run *run);
/* Gives back what a run has that is not made. */
void run_drop(struct run *run);
/*
 * Lets others find the run and its owner (an allocation or a slab) from here on. The arena's lock
 * is held.
 */
void run_publish(const struct run *run, enum chunk_kind kind, void *owner);
/*
 * Gives the right to a published run to who has come to reach the device's memory meanwhile. Who
 * comes to reach it after that finds the run by itself; see elastic_open_to().
 */
void run_open(const struct run *run);
/* Makes the units nobody's but the caller's from here on. The arena's lock is held. */
void run_withdraw(struct arena *arena, uint32_t first, uint32_t units);
/*
 * Returns the first unit of the run around an address, or the first unit of the chunk that follows
 * one in it; ADDRESS_NONE if there is none. The arena's lock is held.
 */
uint32_t run_first(const struct arena *arena, CUdeviceptr address);
uint32_t run_next(const struct arena *arena, uint32_t first, uint32_t unit);
/* Returns how many units the run has that begins with this one. The arena's lock is held. */
uint32_t run_units(const struct arena *arena, uint32_t first);
/* Keeps all chunks of the run around the address where they are. The arena's lock is held. */
void run_pin(struct arena *arena, CUdeviceptr address);
/*
 * Keeps a chunk that is on the device there (pin_new); run_unpin() ends that. The arena's lock is
 * held.
 */
void run_pin_new(struct arena *arena, struct unit *unit);
void run_unpin(struct arena *arena, struct unit *unit);
/*
 * Unmaps a run that nobody knows of any more, and gives its addresses back. Its memory becomes
 * spare, or without terms is released. What the driver refuses to unmap stays as it is, addresses
 * and charge too.
 */
void run_remove(struct arena *arena, uint32_t first, uint32_t units, const struct terms *terms);

/*
 * Reach: which devices reach a device's memory: itself, and the peers that its program has let
 * reach it. Thread-safe.
 *
 * Devices with access to a device's memory reach what it has spilled, too: enabling peer access,
 * or a right to a pool, opens the mappings.
 */

/* Returns the right of a device to read and write. */
CUmemAccessDesc reach_right(CUdevice device);
/*
 * Fills in the rights of the device itself and of its peers. Returns how many there are, at most
 * DEVICE_MAX.
 */
size_t reach_rights(const struct device *owner, CUmemAccessDesc rights[DEVICE_MAX]);

#endif
