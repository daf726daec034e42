/* SPDX-License-Identifier: MIT */
/*
 * A plan: which pieces of memory go where, with the physical memory they go to. It is carried out
 * slice by slice, in copy windows (copy_window.h); the memory is made ahead while the program
 * works, and while earlier slices are copied. There is one mover, and so one plan at a time.
 */
#ifndef SPILLWAY_PLAN_H
#define SPILLWAY_PLAN_H

#include "core/memory/move/movable.h"
#include "core/memory/arena/spare.h"

/*
 * Sets the kinds of memory that there are to move, ended by NULL. To be called once, before
 * anything is planned.
 */
void plan_kinds(const struct movable_kind *const *kinds);
/* Returns the kind of the memory mapped at the address, or NULL. */
const struct movable_kind *plan_kind_at(CUdeviceptr address);

struct plan {
	struct move moves[MOVES_MAX];
	size_t count;
	size_t made;               /* the first so many have memory to go to */
	const struct terms *terms; /* it was made under */
	enum segment_tier to;
	bool is_exportable, pins;
	bool is_whole;   /* no allocation in part; plan_fill() decides */
	bool spares_go;  /* room is wanted: freed memory is not kept */
	bool is_gentle;  /* the program works at least half of the time meanwhile */
	bool is_patient; /* it is begun at an idle point, or not at all */
	bool has_time;   /* all its memory is made before it is begun */
	bool (*is_wanted)(struct device *device); /* still; NULL: always */
	uint64_t host_limit;                      /* when it was begun; for plan_make_soon() */
	enum move_pending lacks;                  /* why there was no more memory to move to */
	/* The result. */
	uint64_t moved;     /* bytes */
	uint64_t closed_ns; /* for which the gate was held */
};

/*
 * Chooses movable memory of any kind: the coldest of the device's tier, or the hottest of the
 * host's. except: nothing of this run; 0: of any.
 */
void plan_choose(struct device *device, enum segment_tier tier, CUdeviceptr except,
                 struct choice *choice);
/* Calls this with each movable piece on this tier, of any kind. */
void plan_each(struct device *device, enum segment_tier tier,
               void (*each)(void *cookie, const struct candidate *candidate), void *cookie);
/*
 * Adds up how many bytes are movable and on this tier, of any kind. It does not wait for running
 * moves, but returns false. Any thread.
 */
bool plan_movable_now(struct device *device, enum segment_tier tier, uint64_t *bytes);
/* Adds the chosen memory, `bytes` of it, as far as it can be moved now. */
void plan_fill(struct plan *plan, struct device *device, const struct choice *choice,
               uint64_t bytes);
/*
 * Makes the memory that one more move goes to: below the limit of the moment on the device, below
 * host_limit on the host. Returns false where nothing is to be made, or can be: plan->lacks has the
 * reason, and moves without memory are left out.
 */
bool plan_make(struct plan *plan, struct device *device);
/*
 * Makes it where that is expected to take no longer than this, with the locks held. Returns false
 * where it has not.
 */
bool plan_make_soon(struct plan *plan, struct device *device, uint64_t ns);
/* Returns how many moves have memory to go to, and so have those that move together with them. */
static inline size_t plan_ready(const struct plan *plan)
{
	size_t ready = plan->made;

	while (ready < plan->count && plan->moves[ready].goes_on)
		ready--;
	return ready;
}
/* Returns the physical memory of a move on this tier: the memory it leaves there, or needs. */
static inline struct chunk plan_memory(const struct move *m, enum segment_tier tier)
{
	const CUmemAllocationProp *like =
	    m->has_like && tier == SEGMENT_ON_DEVICE ? &m->like : NULL;

	return (struct chunk){.size = m->size, .tier = tier, .like = like};
}
/* Drops a move: the memory it was to go to is free. */
void plan_drop(const struct plan *plan, struct device *device, const struct move *move);
/* Leaves out the moves from this one on. */
void plan_cut(struct plan *plan, struct device *device, size_t count);

/*
 * Takes the locks of all kinds, and gives them back, around carrying it out, so that nothing else
 * changes.
 */
void plan_lock(struct device *device);
void plan_unlock(struct device *device);
/*
 * Returns how many of the first `count` moves are still as planned, with the locks held; they are
 * put first.
 */
size_t plan_check(struct plan *plan, struct device *device, size_t count);

#endif
