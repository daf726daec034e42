/* SPDX-License-Identifier: MIT */
/*
 * Address space: the free units of an arena's addresses. Runs of units are found and joined in
 * constant time however many there are (two-level segregated fit). The tags lie beside the runs'
 * first and last units. Pure bookkeeping, never calls the driver. Not thread-safe: the arena's lock
 * guards it.
 */
#ifndef SPILLWAY_ADDRESS_SPACE_H
#define SPILLWAY_ADDRESS_SPACE_H

#include <stdbool.h>
#include <stdint.h>

enum { ADDRESS_CLASSES = 32, ADDRESS_STEPS = 8 };

/* Of a free run, in its first and its last unit; all 0 elsewhere. */
struct address_tag {
	uint32_t units; /* of the free run; 0: no end of one is here */
	uint32_t next,
	    prev; /* of its list: first units, or ADDRESS_NONE; in the first unit alone */
};

struct address_space {
	uint32_t units;
	uint32_t free_units;
	struct address_tag
	    *tags;        /* one per unit; mapped lazily, so that untouched ones cost nothing */
	uint32_t classes; /* a bit each: has free runs */
	uint8_t steps[ADDRESS_CLASSES];
	uint32_t first[ADDRESS_CLASSES][ADDRESS_STEPS];
};

#define ADDRESS_NONE UINT32_MAX

/* Opens a space of so many units (at least one), all free. Returns 0 or -ENOMEM. */
int address_space_open(struct address_space *space, uint32_t units);
/* Gives its own memory back. */
void address_space_close(struct address_space *space);
/*
 * Takes a run of so many units. Returns its first unit, with an index that is a multiple of
 * `alignment` (a power of two), or ADDRESS_NONE if no free run can hold it. Takes constant time,
 * unless only the free runs nearest to it in size are left, which are then all looked at.
 */
uint32_t address_space_take(struct address_space *space, uint32_t units, uint32_t alignment);
/* Gives a run back, exactly as it was taken. */
void address_space_give(struct address_space *space, uint32_t first, uint32_t units);

#endif
