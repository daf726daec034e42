/* SPDX-License-Identifier: MIT */
/*
 * Container: a named group of resources; its part of the registry's address table, and one table of
 * all other names. Not locked; holds no reference of its own, the registry's pass through. Private.
 */
#ifndef SPILLWAY_CONTAINER_H
#define SPILLWAY_CONTAINER_H

#define HASH_NONFATAL_OOM 1 /* uthash would end the user's process */
#include <uthash.h>

#include "core/registry/address_table.h"

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
/*
 * Returns whether a name is valid: 1 to REGISTRY_NAME_MAX - 1 characters, none of them '/' or a
 * control character.
 */
bool name_is_valid(const char *text);

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
