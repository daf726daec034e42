/* SPDX-License-Identifier: MIT */
/*
 * Slabs: pieces of 2 MiB cut into small blocks of one size class. Pure bookkeeping: the caller has
 * the memory. A slab is a chunk of an arena (elastic.h) or an allocation of the driver's (small.h).
 *
 * A block is aligned to 512 bytes, as the driver's are; of a block at most a fifth is wasted, above
 * 512 KiB, where a slab holds but two or three, a third. A slab's free blocks are a bitmap; slabs
 * of a class that have free blocks are a list, so that taking and giving cost the same however many
 * there are. Not thread-safe: a lock of the caller's guards it.
 */
#ifndef SPILLWAY_SLAB_H
#define SPILLWAY_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLAB_BYTES = 2 << 20, SLAB_BLOCK_MAX = 1 << 20, SLAB_CLASSES = 38 };

struct slab {
	struct slab *next, *prev; /* in its class's list while it has room, or else of the full */
	union {                   /* where it lies; the caller's to fill */
		uint32_t unit;    /* of the arena */
		void *place;      /* elsewhere */
	};
	uint32_t block_size;
	uint16_t class, blocks, used;
	uint16_t spent; /* blocks without an owner that are not allocated again */
	bool has_room;
	void **owners;       /* per block: the caller's pointer, NULL while free */
	uint64_t words;      /* a bit each: the word of the bitmap is not 0 */
	uint64_t bitmap[64]; /* 1: free */
};

struct slabs {
	struct slab *with_room[SLAB_CLASSES];
	struct slab *full;          /* a search for leaks does not look at the arena's tables */
	bool is_made[SLAB_CLASSES]; /* of this class a thread makes one */
	_Atomic uint32_t made; /* changes when one is, or cannot be: for threads that wait for it */
};

/*
 * Whether a request is the maker of a slab. One thread at a time is the maker of a class, so that
 * not each makes one. It stays the maker while room is made for the slab. A thread that has waited
 * too long for the maker sets `makes` itself and is no maker.
 */
struct slab_maker {
	bool makes; /* no slab has a block for it */
	bool is_held;
};
/* Returns whether the request is to make a slab of this class. The caller's lock is held. */
bool slab_maker_begin(struct slabs *slabs, unsigned int class, struct slab_maker *maker);
/* Is the maker no more, if the request was. The caller's lock is held. Returns whether to wake. */
bool slab_maker_end(struct slabs *slabs, unsigned int class, struct slab_maker *maker);
/* Wakes the requests that wait for a slab. No lock is held. */
void slab_maker_wake(struct slabs *slabs);

/* Returns the class of blocks for this many bytes (1 to SLAB_BLOCK_MAX). */
unsigned int slab_class(size_t size);
/* Returns the bytes that a request takes: a block, or above SLAB_BLOCK_MAX whole slabs. */
uint64_t slab_span(size_t size);

/*
 * Makes a slab of this class, all free, and enters it in the list; returns NULL without memory for
 * it. The caller gives it its chunk.
 */
struct slab *slab_create(struct slabs *slabs, unsigned int class);
/* Frees a slab without a block in use, and takes it out of the list. */
void slab_destroy(struct slabs *slabs, struct slab *slab);
/* Returns a slab of this class with a free block, or NULL. */
struct slab *slab_with_room(const struct slabs *slabs, unsigned int class);
/* Takes a block of a slab that has room, for this owner (not NULL). Returns its offset. */
uint32_t slab_take(struct slabs *slabs, struct slab *slab, void *owner);
/* Gives the block that begins at this offset back. Returns whether the slab is empty now. */
bool slab_give(struct slabs *slabs, struct slab *slab, uint32_t offset);
/*
 * Gives a block back as slab_give() does, but it is not allocated again while the slab lives:
 * another process may have it open, with its bytes.
 */
bool slab_spend(struct slab *slab, uint32_t offset);
/* Gives a taken block another owner (not NULL). */
void slab_set_owner(struct slab *slab, uint32_t offset, void *owner);
/*
 * Returns the owner, as slab_take() was told, of the block that holds this offset; NULL for a free
 * one or the rest at the end.
 */
void *slab_owner(const struct slab *slab, uint32_t offset);

#endif
