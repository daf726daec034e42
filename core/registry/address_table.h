/*
 * Address table: (type, address) -> resource, for names that are addresses. Flat, linear probing,
 * no allocation per resource, so that a look-up touches one line. Not locked; holds no reference.
 * Private.
 */
#ifndef SPILLWAY_ADDRESS_TABLE_H
#define SPILLWAY_ADDRESS_TABLE_H

#include "core/registry/registry.h"

struct address_entry {
	const struct resource_type *type; /* the resource's own, here to spare a look there */
	uint64_t address;
	struct resource *resource; /* NULL: free */
};

struct address_table {
	struct address_entry *entry; /* NULL while capacity is 0 */
	size_t capacity;             /* a power of two, at most three quarters used */
	int shift;                   /* 64 - log2(capacity) */
	size_t count;
};

struct resource *address_table_find(const struct address_table *table,
                                    const struct resource_type *type, uint64_t address);
/* 0, -EEXIST or -ENOMEM. */
int address_table_insert(struct address_table *table, uint64_t address, struct resource *resource);
/* What was taken out, or NULL. */
struct resource *address_table_remove(struct address_table *table, const struct resource_type *type,
                                      uint64_t address);
void address_table_free(struct address_table *table);

#endif
