/* SPDX-License-Identifier: MIT */
/*
 * The address map finds the owner of an address, of any kind.
 *
 * Two levels of tables by 2 MiB, so that a look-up costs two reads for any number of ranges. Ranges
 * that share such a piece are chained by address. A reader takes no lock and waits for no thread;
 * it starts again only where a range was removed meanwhile. Ranges never overlap. Thread-safe.
 */
#ifndef SPILLWAY_ADDRESS_MAP_H
#define SPILLWAY_ADDRESS_MAP_H

#include <stdbool.h>
#include <stdint.h>

enum address_kind {
	ADDRESS_OF_ARENA,
	ADDRESS_OF_ALLOCATION,
	ADDRESS_OF_OWN,    /* a mapping that the program made */
	ADDRESS_OF_IMPORT, /* memory of another process */
	ADDRESS_OF_SLAB,   /* an allocation of the driver's that is cut into blocks */
};

/* A copy of the range: its owner may be gone by now, unless its kind is never freed (arenas). */
struct address_range {
	uint64_t first, size;
	void *owner;
	enum address_kind kind;
};

/*
 * Adds a range. Returns 0; -EEXIST where another's are among these addresses; -ERANGE where there
 * are no such addresses; or -ENOMEM.
 */
int address_map_add(const struct address_range *range);
/*
 * Removes the range that begins at this address, if it is this owner's. Returns whether it was
 * there.
 */
bool address_map_remove(uint64_t first, const void *owner);
/* Finds the range around an address. Takes no lock. */
bool address_map_find(uint64_t address, struct address_range *found);
/*
 * Returns the first owner of this kind within [first, first + size), if hold() agrees. hold() may
 * take a reference: nothing can be taken out while it runs. With hold NULL the caller holds a lock
 * of its own that keeps the owner. Returns NULL where there is none, for which of one address
 * mostly no lock is taken.
 */
void *address_map_hold(uint64_t first, uint64_t size, enum address_kind kind,
                       bool (*hold)(void *owner, void *cookie), void *cookie);

#endif
