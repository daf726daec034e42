/* SPDX-License-Identifier: MIT */
/*
 * Moving mapped memory: the physical memory behind addresses is exchanged, the bytes come along.
 *
 * Used by the mover thread alone. moves_prepare() and moves_finish() may run while the program
 * works; moves_run() only while the gate is seized and nothing runs on any device.
 */
#ifndef SPILLWAY_MOVE_H
#define SPILLWAY_MOVE_H

#include "core/budget/device.h"

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

/* Other work while the device copies. */
struct meanwhile {
	/* Does one more piece, which takes at most so long. Returns false when there is none. */
	bool (*work)(struct meanwhile *meanwhile, uint64_t ns);
	uint64_t copied_ns; /* the copies took so long */
	uint64_t copy_ns;   /* the copies take so long at the least, as far as is known */
};

enum { MOVES_MAX = 128 };

/*
 * Maps the new memory where it can be copied to. How many of the moves are ready (the first so
 * many). Memory that the program made may be of any size, and cannot be mapped in parts: it is
 * moved alone, however long the copy takes.
 */
size_t moves_prepare(struct device *device, struct move *moves, size_t count);
/* Copies, working meanwhile, and exchanges. A failed move is as it was before. */
CUresult moves_run(struct device *device, struct move *moves, size_t count,
                   struct meanwhile *meanwhile);
/* Removes the mappings of moves_prepare(). */
void moves_finish(struct device *device, struct move *moves, size_t count);
#endif
