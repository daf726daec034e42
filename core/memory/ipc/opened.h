/* SPDX-License-Identifier: MIT */
/*
 * Memory of other processes that this one has open: by what names it, and by address. For import.c
 * and opened.c alone; but for the turn itself everything is done by who has the turn.
 */
#ifndef SPILLWAY_OPENED_H
#define SPILLWAY_OPENED_H

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "core/memory/ipc/ipc.h"
#include "core/wire/wire.h"

/* Its name in this process; all bytes count. */
struct opened_key {
	struct wire_token token;
	uint64_t number;
	CUcontext context;
};

struct opened {
	struct opened_key key;
	struct ipc_place place;
	uint64_t *imported; /* keys of its pieces, of those that the job is charged for */
	size_t imported_count;
	uint64_t charged;      /* to this process: another job's */
	bool lacks_room;       /* the limit has none for one of its pieces */
	CUdeviceptr by_driver; /* the driver's mapping; 0: it is mapped by us, as follows */
	CUdeviceptr reserved;
	uint64_t bytes;  /* reserved, or the driver's */
	uint64_t mapped; /* of them, from the beginning */
	unsigned int opened;
	struct opened *next; /* of the postponed */
	UT_hash_handle hh;
};

/*
 * Takes the turn and gives it back, because opening and closing are done one at a time; with
 * cancellation off.
 */
void opened_take_turn(void);
void opened_give_turn(void);

struct opened *opened_by_key(const struct opened_key *key);
/* Returns whether there was memory for it. */
bool opened_enter(struct opened *m);
/* Gives up what was charged on this device for its pieces, or is the job's. */
void opened_give_up_pieces(struct opened *m, struct device *device);
/* Unmaps what is mapped of one that is in no books, and frees it. */
void opened_unmap(struct opened *m);
/* Unmaps what was closed while a capture forbade to wait for who uses it. */
void opened_settle(void);

#endif
