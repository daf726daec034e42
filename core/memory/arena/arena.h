/* SPDX-License-Identifier: MIT */
/*
 * The arena: one large reserved range of addresses per device, in which every movable allocation
 * lives.
 *
 * unit    2 MiB of its addresses; everything about an address is found by one division
 * chunk   the unit of residency: one physical allocation of 1, 4 or 16 units, mapped here, on the
 *         device or the host
 * run     the chunks of one allocation, one behind the other; a slab is a run of one unit
 *
 * The table of units is never freed and addresses never change, so that a reader (heat) needs no
 * lock. A writer holds the arena's lock. A chunk's physical memory is exchanged by the mover alone,
 * with the gate closed.
 */
#ifndef SPILLWAY_ARENA_H
#define SPILLWAY_ARENA_H

#include "core/base/lock.h"
#include "core/budget/device.h"
#include "core/memory/arena/address_space.h"
#include "core/memory/arena/slab.h"
#include "core/registry/resource.h"

#define ARENA_UNIT ((uint64_t)2 << 20)
enum { ARENA_PART_UNITS = 32 }; /* of a part of a run, as heat has it (heat.h) */

struct allocation;

enum chunk_kind { UNIT_FREE, UNIT_OF_ALLOCATION, UNIT_OF_SLAB };

/* One unit. The fields of a chunk stand in its first unit. */
struct unit {
	CUmemGenericAllocationHandle handle; /* of the chunk */
	union {
		struct allocation *allocation;
		struct slab *slab;
	} owner;
	_Atomic uint32_t run;     /* the first unit of the run it is in */
	_Atomic uint32_t touched; /* of the first unit of a part of the run: heat.h */
	_Atomic uint8_t is_named; /* of that, too: it was a kernel's parameter */
	_Atomic uint8_t parts;    /* of the run's first unit: so many were, to 2 */
	uint16_t pins;            /* the chunk must stay where it is */
	uint8_t units;            /* of the chunk; 0: not the first of one */
	uint8_t kind;             /* enum chunk_kind */
	uint8_t tier;             /* enum segment_tier */
	uint8_t is_exportable;    /* the physical memory was made for export */
};

struct arena {
	struct device *device;
	CUdeviceptr base;
	uint64_t size;
	struct unit *units; /* size / ARENA_UNIT of them */
	uint32_t top;       /* no unit from here on was ever used */
	struct address_space space;
	struct slabs slabs;
	_Atomic uint64_t on_host; /* bytes on the host that could come back to the device */
	QUICK_LOCK_OF(ARENA) lock;
};

/* The addresses of each device's arena by ordinal, for look-ups without a lock; base 0: none. */
extern struct arena_range {
	_Atomic CUdeviceptr base, end;
	struct arena *arena;
} arena_ranges[DEVICE_MAX];

/*
 * Returns the device's arena, made at the first call. Returns NULL where it cannot be had (no
 * virtual memory management, none on the host, spill says otherwise), with the reason in the
 * statistics. Thread-safe.
 */
struct arena *arena_of(struct device *device);
/* Returns it if it has been made, else NULL. */
struct arena *arena_made(const struct device *device);
/* Returns the arena that holds the address, or NULL. Takes no lock. */
struct arena *arena_at(CUdeviceptr address);

static inline struct unit *arena_unit(const struct arena *arena, CUdeviceptr address)
{
	return &arena->units[(address - arena->base) / ARENA_UNIT];
}

/* The arena in the device's registry, by the name "arena": it says how many chunks there are. */
extern const struct resource_type arena_view_type;

#endif
