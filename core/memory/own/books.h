/* SPDX-License-Identifier: MIT */
/*
 * The books of the program's own memory, for the files of this room and movable_own.c alone.
 * All with the lock held.
 *
 * name    the handle that the program knows. It is ours where the memory can be moved, else the
 *         driver's
 * handle  the driver's, of the memory that it is now; of ours we hold one reference as long as it
 *         has a name or mapping
 */
#ifndef SPILLWAY_OWN_BOOKS_H
#define SPILLWAY_OWN_BOOKS_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/budget/device.h"
#include "core/budget/exported.h"
#include "core/memory/own/own.h"

struct mapped_range {
	CUdeviceptr address;
	size_t size;
	struct own *own;
	uint64_t number;             /* mappings are numbered as they are made, from 1 */
	uint16_t readable, writable; /* by which devices, a bit each */
	struct mapped_range *next;   /* of the same memory */
};

struct own {
	CUmemGenericAllocationHandle name, handle;
	struct device *device;
	enum segment_tier tier;
	uint64_t bytes, born_ns;
	const void *site;     /* the program's call that made it (refusal.h) */
	uint64_t charged;     /* to this process; for imported memory, where the job has not paid */
	uint64_t exported_as; /* a key; 0: it was not exported, or is not followed */
	uint64_t imported_as; /* a key: a process of the job is charged for it; 0: none is */
	unsigned int handles; /* how often the program has it */
	unsigned int
	    leaving;   /* calls that ask the driver to release one of them; they keep this record */
	bool is_named; /* is in own_by_name */
	struct mapped_range *mappings;
	CUmemAllocationProp asked; /* by the program */
	bool imported;             /* another's */
	bool is_weightless;        /* no memory of a device */
	bool pinned;               /* must stay where it is */
	bool is_counted;           /* in the statistics of memory that must stay on the device */
	UT_hash_handle hh;
};

typedef LOCK_OF(OWN) own_lock_type;
extern own_lock_type own_lock;
extern struct own *own_by_name;
extern _Atomic size_t own_imports; /* that are in the books; mostly none. Read without the lock */

/* Finds it by the program's handle; NULL: none. */
struct own *own_find(CUmemGenericAllocationHandle name);
/* Enters it by its name, and takes it out. Returns whether there was memory for it. */
static inline bool own_name(struct own *p)
{
	HASH_ADD(hh, own_by_name, name, sizeof(p->name), p);
	p->is_named = p->hh.tbl != NULL;
	return p->is_named;
}
static inline void own_unname(struct own *p)
{
	if (p->is_named)
		HASH_DEL(own_by_name, p);
	p->is_named = false;
}
/* Takes it out of the books, with its charge. The memory is released already. */
void own_forget(struct own *p);
/* Lets memory go that has neither mapping nor handle any more; of ours no other process has one. */
void own_drop_unless_used(struct own *p);
/*
 * Wakes the mover, because room was left on the device (NULL: none was) to which something may come
 * back. Not with the lock held.
 */
void own_wake_for(struct device *device);
/* Returns the mapping that holds the address, or NULL. */
struct mapped_range *own_mapping(CUdeviceptr address);
/*
 * Returns whether its latest mapping is of all of it and can be read, so that its memory could be
 * exchanged. Memory with more than OWN_MAPPINGS_MOST mappings stays, because each takes its time.
 * For example, a program maps one page of zeros at 50,000 addresses.
 */
enum { OWN_MAPPINGS_MOST = 16 };
bool own_is_movable(const struct own *p);
/* Keeps the statistics, after anything changed that they depend on. */
void own_recount(struct own *p);

#endif
