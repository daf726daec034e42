/* SPDX-License-Identifier: MIT */
/*
 * Memory that the mover moves, each kind behind the same functions: chunks of arenas
 * (movable_chunks.c), and physical memory that the program made itself (movable_own.c). A piece of
 * it is known by the address where it is mapped.
 *
 * The functions are the mover's alone. It calls all but has() and choose() with the kind's lock
 * held, which it also holds while it moves.
 */
#ifndef SPILLWAY_MOVABLE_H
#define SPILLWAY_MOVABLE_H

#include "core/budget/device.h"

enum { MOVES_MAX = 128 };

/* A piece whose physical memory is exchanged; the bytes come along (copy_window.c). */
struct move {
	CUdeviceptr address; /* mapped, `size` bytes, by `from` */
	size_t size;
	CUmemGenericAllocationHandle from, to; /* `to` is made by the caller */
	const CUmemAccessDesc *access;         /* the rights of the address's mapping */
	size_t accesses;
	/*
	 * Maps this memory at the other addresses where the address's is mapped. NULL: there are
	 * none. Returns whether the driver has done so.
	 */
	bool (*map_others)(const struct move *move, CUmemGenericAllocationHandle memory);
	CUdeviceptr scratch; /* where `to` is mapped meanwhile; moves_prepare()'s */
	bool is_done; /* `to` is mapped at the address and has the bytes; else all is as before */
	bool is_from_device; /* the caller's, as is all that follows */
	bool has_like;
	CUmemAllocationProp like; /* the properties it must have on the device */
	bool goes_on;             /* it moves together with the one before it */
	const struct movable_kind *kind;
};

/* A piece that may be moved. */
struct candidate {
	const struct movable_kind *kind;
	CUdeviceptr address;
	uint64_t size;
	CUdeviceptr run; /* the first address of what a kernel that is given an address here uses */
	CUdeviceptr
	    whole;      /* the first address of what moves together where allocations stay whole */
	uint64_t read;  /* bytes of this piece that it reads then, as far as is known */
	uint64_t rank;  /* placement_calls.rank(), or: */
	uint64_t order; /* in which it was considered */
};

struct choice {
	struct candidate of[MOVES_MAX];
	size_t count;
	uint64_t considered;
	bool hottest;
	CUdeviceptr except; /* this run is not considered; 0: all are */
	/* Where it is set it is given each that is considered, and none is kept. */
	void (*each)(void *cookie, const struct candidate *candidate);
	void *cookie;
	bool never_waits; /* where memory moves now nothing is considered, */
	bool has_missed;  /* which this says */
};

struct movable_kind {
	/*
	 * Returns whether what is mapped at the address is of this kind. Takes the lock where it
	 * needs it.
	 */
	bool (*has)(CUdeviceptr address);
	/* The lock of what is on a device. */
	void (*acquire)(struct device *device);
	void (*release)(struct device *device);
	/*
	 * Considers all that is on this tier and may leave it. Takes the lock, for short times
	 * where there is much.
	 */
	void (*choose)(struct device *device, enum segment_tier tier, struct choice *choice);
	/*
	 * Those that belong to what is mapped at the address and are not on the device, or not in
	 * memory made for export where that is wanted.
	 */
	void (*choose_at)(struct device *device, CUdeviceptr address, bool is_exportable,
	                  struct choice *choice);
	/*
	 * All that moves together with what is mapped at the address, where allocations stay whole;
	 * NULL: nothing moves.
	 */
	void (*choose_whole)(struct device *device, CUdeviceptr address, struct choice *choice);
	/*
	 * Says in *move what is mapped at move->address: everything but `to`. False: it cannot be
	 * moved, or not any more. pinned_too: even if it must stay where it is.
	 */
	bool (*look)(struct device *device, struct move *move, bool pinned_too);
	/* It is elsewhere now. */
	void (*moved)(struct device *device, const struct move *move, enum segment_tier to,
	              bool is_exportable);
	/* What is mapped at the address stays where it is from now on. */
	void (*pin)(struct device *device, CUdeviceptr address);
};

#define MOVABLE_RANK ((uint64_t)HEAT_WARM << 32)

/* Returns the enum heat in a rank. */
static inline unsigned int movable_heat(uint64_t rank)
{
	return (unsigned int)(rank >> 32);
}
/*
 * Returns whether candidates are compared by their ranks. The mover alone may ask for ranks. A
 * thread that adds up movable bytes compares none.
 */
static inline bool movable_is_ranked(const struct choice *choice)
{
	return !choice->each;
}
/* Takes a lock for a choice. Returns false where the choice never waits and the lock is taken. */
#define movable_acquire(choice, lock)                        \
	(!(choice)->never_waits ? (lock_acquire(lock), true) \
	                        : lock_try(lock) || ((choice)->has_missed = true, false))
/*
 * Keeps the MOVES_MAX coldest, or hottest, of those considered; after movable_end() in order. Of
 * equals the first considered stays, and comes first.
 */
void movable_begin(struct choice *choice, bool hottest);
void movable_consider(struct choice *choice, const struct candidate *candidate);
void movable_end(struct choice *choice);

/* Chunks of arenas, as a kind of memory that moves. */
extern const struct movable_kind movable_chunks;

/* The program's own physical memory, as a kind of memory that moves. */
extern const struct movable_kind movable_own;

#endif
