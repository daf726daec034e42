/*
 * The chunks of an arena as a lookup table (core/registry/lookup_table.h): by any address in it, what the arena's own table
 * of units says now. Nothing is copied or kept, and it can only be read. In the device's registry it is "arena".
 */
#ifndef SPILLWAY_ARENA_VIEW_H
#define SPILLWAY_ARENA_VIEW_H

#include "core/memory/arena/arena.h"
#include "core/registry/lookup_table.h"

/* The value of an address. */
struct chunk_view {
	CUdeviceptr address; /* of the chunk around it */
	uint64_t bytes;
	enum chunk_kind kind; /* UNIT_OF_ALLOCATION or UNIT_OF_SLAB */
	enum segment_side side;
	unsigned int pins;
};

extern const struct resource_type arena_view_type;

/* One reference; NULL: no memory. The arena stays. */
struct lookup_table *arena_view_create(struct arena *arena);
/* Enters one into the registry of the arena's device. Without memory it is not there, and nothing else is wrong. */
void arena_view_register(struct arena *arena);

#endif
