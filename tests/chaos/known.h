/*
 * Faults that are known and not mended yet, and how the chaos goes around each. A switch goes when its fault does.
 */
#ifndef CHAOS_KNOWN_H
#define CHAOS_KNOWN_H

/*
 * Memory that other processes have open, or hold by a descriptor, leaves the job's count when its owner frees it or dies.
 * Until it stays there the opener has it counted as bytes that no limit refuses.
 */
#define EXPORTED_MEMORY_ESCAPES 1
/* A lowered limit is said to hold a moment before it does. Until it holds what is above it is only told. */
#define LOWERED_LIMIT_IS_EARLY 1
/* What another process has opened of a block that shares its slab is overwritten when the owner frees it and allocates again. */
#define OPENED_BLOCKS_ARE_REUSED 1

#endif
