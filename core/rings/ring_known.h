/* SPDX-License-Identifier: MIT */
/* A reader's knowledge of rings: its place in each, and the unit at hand. Private. */
#ifndef SPILLWAY_RING_KNOWN_H
#define SPILLWAY_RING_KNOWN_H

#include "core/rings/ring_layout.h"
#include "core/rings/ring_reader.h"

enum { BATCH = 256 };

/* The reader's knowledge of one ring. */
struct known {
	struct known *next;
	struct ring_id id;
	struct ring_source source;
	uint64_t position;
};

struct ring_reader {
	int directory;
	struct known *known;
	uint64_t produced, completed, lost;
	_Atomic bool is_cancelled;

	/* The unit at hand; fd is -1 between two. */
	int fd;
	struct known *unit;
	uint64_t end;       /* the ticket it is read up to */
	uint64_t room;      /* records, as it was when the unit was opened */
	uint64_t lost_here; /* not yet told */
	uint64_t last_begin;

	/* A batch, copied. */
	int copied, taken;
	enum { WHOLE, UNFINISHED, GONE } state[BATCH];
	struct ring_record record[BATCH], other[BATCH];
	uint64_t before[BATCH];
};

/* Returns where the ring stands in the list, or the end of it. */
struct known **ring_known_find(struct known **list, const struct ring_id *id);
/* Enters it if need be. NULL: no memory. */
struct known *ring_known_meet(struct known **list, const struct ring_id *id);

#endif
