/* SPDX-License-Identifier: MIT */
/*
 * Container: a named group of resources; its part of the registry's address table, and one table of
 * all other names. Not locked; holds no reference of its own, the registry's pass through. Private.
 */
#ifndef SPILLWAY_CONTAINER_H
#define SPILLWAY_CONTAINER_H

#define HASH_NONFATAL_OOM 1 /* uthash would end the user's process */
#include <uthash.h>

#include "core/registry/resource.h"

/*
 * Address table: (type, address, container) -> resource, for names that are addresses. One for all
 * containers of a registry, so that an object is found in any of them. Flat, linear probing, no
 * allocation per resource, so that a look-up touches one line, and the resource's own. Not locked;
 * holds no reference. Private.
 *
 * It is no table of uthash, because it is on the path of each allocation and free. For example,
 * measured on one machine, a look-up among a thousand takes 2.5 ns and uthash's 20, among a million
 * 50 and 206. Entering and taking out takes 7 and 15, 48 and 143. An entry takes 32 bytes, and
 * uthash's 88 of the heap.
 *
 * A resource that is used again and again costs 38 ns among a thousand, 54 among a million; any of
 * a million is cold in two lines (0.2 to 0.5 us, by machine). `make bench` prints all of it
 * (lookup_*, create_delete_*, resource_bytes).
 */
struct container;

/*
 * 24 bytes, so that a resource takes few. Its type stands in the resource, which the look-up
 * touches anyway.
 */
struct address_entry {
	uint64_t address;
	struct container *container;
	struct resource *resource; /* NULL: free */
};

struct address_table {
	struct address_entry *entry; /* NULL while capacity is 0 */
	size_t capacity;             /* a power of two, at most three quarters used */
	int shift;                   /* 64 - log2(capacity) */
	size_t count;
	_Atomic uint64_t entries; /* so far; read without the lock */
};
/*
 * Finds the entry in this container if there is one, else one in another; one that is leaving where
 * there is no other.
 */
struct address_entry *address_table_find_any(const struct address_table *table,
                                             const struct container *preferred,
                                             const struct resource_type *type, uint64_t address);
/*
 * Finds the newest entry of this type, in any container, that is none of those entered after so
 * many.
 */
struct address_entry *address_table_find_before(const struct address_table *table,
                                                const struct resource_type *type, uint64_t address,
                                                uint64_t entries);
/* This very resource's. place: where it was last, so that mostly nothing is searched for. */
struct address_entry *address_table_find_resource(const struct address_table *table,
                                                  uint64_t address, size_t place,
                                                  const struct resource *resource);
static inline void address_table_free(struct address_table *table)
{
	free(table->entry);
	*table = (struct address_table){0};
}

/* A resource's name: an address when it is one (16 hexadecimal digits), else text. */
struct resource_name {
	bool is_address;
	uint64_t address;
	const char *text;
};

struct container {
	char name[REGISTRY_NAME_MAX];
	struct address_table *addresses; /* the registry's */
	size_t address_count;            /* of which here */
	struct named *named;             /* uthash */
	struct resource_chain *chained;  /* the first */
	UT_hash_handle hh;
};

struct resource_name name_from_text(const char *text);
static inline struct resource_name name_from_address(uint64_t address)
{
	return (struct resource_name){.is_address = true, .address = address};
}

/* Makes a container, to be freed when it is empty. Returns NULL when there is no memory. */
struct container *container_new(const char *name, struct address_table *addresses);
struct resource *container_find(const struct container *container, const struct resource_type *type,
                                const struct resource_name *name);
/* Enters a resource. Returns 0, -EEXIST or -ENOMEM. */
int container_insert(struct container *container, const struct resource_name *name,
                     struct resource *resource);
/* Takes a resource out. Returns it, or NULL. */
struct resource *container_remove(struct container *container, const struct resource_type *type,
                                  const struct resource_name *name);
/* Takes out in the same way an entry of the address table that is this container's. */
struct resource *container_remove_entry(struct container *container, struct address_entry *entry);
/* Takes everything out: chained by next_taken. */
struct resource *container_take_all(struct container *container);
size_t container_count(const struct container *container);
void container_each(const struct container *container,
                    void (*each)(void *cookie, const char *name, struct resource *resource),
                    void *cookie);

#endif
