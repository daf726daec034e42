/* SPDX-License-Identifier: MIT */
/*
 * Free runs of an arena's addresses. Rules: runs inside the user's process; allocates at the
 * opening alone.
 *
 * Only free runs have tags, in their first and last unit; all other tags are zero. So the
 * neighbours of a run that is given back show in one look to the left and one to the right, and
 * taking a run needs no memory.
 *
 * Free runs of about one size are a list. A class doubles the size, its steps divide that evenly;
 * sizes below 2 * ADDRESS_STEPS have a list each.
 */
#include "core/memory/arena/address_space.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

enum {
	STEP_BITS = 3,
	LISTS = ADDRESS_CLASSES * ADDRESS_STEPS,
	TRIES = 8, /* runs of a list that are looked at before larger ones are cut */
};

_Static_assert(ADDRESS_STEPS == 1 << STEP_BITS, "a byte of steps for each class");

/* Returns the list of runs of so many units: class * ADDRESS_STEPS + step, ascending. */
static unsigned int address_space_list_of(uint32_t units)
{
	unsigned int log;

	if (units < ADDRESS_STEPS)
		return units;
	log = 31 - (unsigned int)__builtin_clz(units);
	return (log - STEP_BITS) * ADDRESS_STEPS + (units >> (log - STEP_BITS));
}

static uint32_t *head_of(struct address_space *space, unsigned int list)
{
	return &space->first[list / ADDRESS_STEPS][list % ADDRESS_STEPS];
}

/* Returns the first list from this one on that is not empty, or LISTS. */
static unsigned int used_list(const struct address_space *space, unsigned int list)
{
	unsigned int class = list / ADDRESS_STEPS, steps;
	uint32_t above;

	if (list >= LISTS)
		return LISTS;
	steps = (unsigned int)space->steps[class] >> list % ADDRESS_STEPS;
	if (steps)
		return list + (unsigned int)__builtin_ctz(steps);
	above = space->classes & ~(UINT32_MAX >> (ADDRESS_CLASSES - 1 - class));
	if (!above)
		return LISTS;
	class = (unsigned int)__builtin_ctz(above);
	return class * ADDRESS_STEPS + (unsigned int)__builtin_ctz(space->steps[class]);
}

static void address_space_enter(struct address_space *space, uint32_t first, uint32_t units)
{
	unsigned int list = address_space_list_of(units);
	uint32_t *head = head_of(space, list);
	struct address_tag *tag = &space->tags[first];

	tag->next = *head;
	tag->prev = ADDRESS_NONE;
	if (*head != ADDRESS_NONE)
		space->tags[*head].prev = first;
	*head = first;
	space->steps[list / ADDRESS_STEPS] |= (uint8_t)(1u << list % ADDRESS_STEPS);
	space->classes |= 1u << list / ADDRESS_STEPS;
	tag->units = units;
	space->tags[first + units - 1].units = units;
	space->free_units += units;
}

static void address_space_leave(struct address_space *space, uint32_t first)
{
	struct address_tag *tag = &space->tags[first];
	uint32_t units = tag->units;
	unsigned int list = address_space_list_of(units), class = list / ADDRESS_STEPS;
	uint32_t *head = head_of(space, list);

	if (tag->prev == ADDRESS_NONE)
		*head = tag->next;
	else
		space->tags[tag->prev].next = tag->next;
	if (tag->next != ADDRESS_NONE)
		space->tags[tag->next].prev = tag->prev;
	if (*head == ADDRESS_NONE) {
		space->steps[class] &= (uint8_t) ~(1u << list % ADDRESS_STEPS);
		if (!space->steps[class])
			space->classes &= ~(1u << class);
	}
	tag->units = 0;
	space->tags[first + units - 1].units = 0;
	space->free_units -= units;
}

int address_space_open(struct address_space *space, uint32_t units)
{
	void *tags = mmap(NULL, (size_t)units * sizeof(*space->tags), PROT_READ | PROT_WRITE,
	                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	memset(space, 0, sizeof(*space));
	if (tags == MAP_FAILED)
		return -ENOMEM;
	space->units = units;
	space->tags = tags;
	for (unsigned int list = 0; list < LISTS; list++)
		*head_of(space, list) = ADDRESS_NONE;
	address_space_enter(space, 0, units);
	return 0;
}

void address_space_close(struct address_space *space)
{
	munmap(space->tags, space->units * sizeof(*space->tags));
}

/* Returns where in the free run the request would lie, or ADDRESS_NONE if it does not fit. */
static uint32_t place(const struct address_space *space, uint32_t run, uint32_t units,
                      uint32_t alignment)
{
	uint64_t first = ((uint64_t)run + alignment - 1) & ~(uint64_t)(alignment - 1);

	return first + units <= (uint64_t)run + space->tags[run].units ? (uint32_t)first
	                                                               : ADDRESS_NONE;
}

/*
 * Finds a free run that can hold the request, smaller ones first, looking at no more than so many
 * of each list.
 */
static uint32_t address_space_find(struct address_space *space, uint32_t units, uint32_t alignment,
                                   uint32_t tries)
{
	for (unsigned int list = used_list(space, address_space_list_of(units)); list < LISTS;
	     list = used_list(space, list + 1)) {
		uint32_t run = *head_of(space, list);

		for (uint32_t left = tries; run != ADDRESS_NONE && left; left--) {
			if (place(space, run, units, alignment) != ADDRESS_NONE)
				return run;
			run = space->tags[run].next;
		}
	}
	return ADDRESS_NONE;
}

uint32_t address_space_take(struct address_space *space, uint32_t units, uint32_t alignment)
{
	uint32_t run, first, before, after;

	if (!units || units > space->free_units)
		return ADDRESS_NONE;
	run = address_space_find(space, units, alignment, TRIES);
	if (run == ADDRESS_NONE)
		run = address_space_find(space, units, alignment, UINT32_MAX);
	if (run == ADDRESS_NONE)
		return ADDRESS_NONE;
	first = place(space, run, units, alignment);
	before = first - run;
	after = space->tags[run].units - before - units;
	address_space_leave(space, run);
	if (before)
		address_space_enter(space, run, before);
	if (after)
		address_space_enter(space, first + units, after);
	return first;
}

void address_space_give(struct address_space *space, uint32_t first, uint32_t units)
{
	uint32_t end = first + units;

	if (first && space->tags[first - 1].units) {
		first -= space->tags[first - 1].units;
		address_space_leave(space, first);
	}
	if (end < space->units && space->tags[end].units) {
		uint32_t behind = space->tags[end].units;

		address_space_leave(space, end);
		end += behind;
	}
	address_space_enter(space, first, end - first);
}
