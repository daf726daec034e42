/* SPDX-License-Identifier: MIT */
/*
 * Lookup table: a resource that answers for many 64-bit keys at once, each with a value of a fixed
 * size.
 *
 * One interface, several tables: hash_table_create() is one that is written to; the chunks of an
 * arena are another (core/memory/arena/arena.h), a view of what is kept there anyway, which can
 * only be read. Thread-safe.
 */
#ifndef SPILLWAY_LOOKUP_TABLE_H
#define SPILLWAY_LOOKUP_TABLE_H

#include "core/registry/registry.h"

struct lookup_table;

struct lookup_table_kind {
	/* The value of one key into *value; false: there is none. Between begin() and end(). */
	bool (*find)(struct lookup_table *table, uint64_t key, void *value);
	/*
	 * Replaces what the key had before. Returns 0 or -ENOMEM. NULL: it cannot be written to.
	 */
	int (*insert)(struct lookup_table *table, uint64_t key, const void *value);
	size_t (*count)(struct lookup_table *table);
	/* Around the calls above: takes and leaves the table's lock. */
	void (*begin)(struct lookup_table *table);
	void (*end)(struct lookup_table *table);
};

/* First member of whatever is a table. */
struct lookup_table {
	struct resource resource;
	const struct lookup_table_kind *kind;
	size_t value_size;
};

/*
 * Finds the values of many keys. values: n of the table's size. A key that has none gets a copy of
 * fallback; where that is NULL its place stays as it is. Returns how many were found.
 */
size_t lookup_table_find(struct lookup_table *table, const uint64_t *keys, size_t n, void *values,
                         const void *fallback);
/*
 * Enters keys and values, all at once for who looks meanwhile. Returns 0; -EROFS: a view; -ENOMEM:
 * those before the first that had no room are in.
 */
int lookup_table_insert(struct lookup_table *table, const uint64_t *keys, const void *values,
                        size_t n);
size_t lookup_table_count(struct lookup_table *table);

/*
 * Makes an empty table with one reference. Returns NULL when there is no memory, or for values of 0
 * bytes.
 */
struct lookup_table *hash_table_create(size_t value_size);
extern const struct resource_type hash_table_type;

#endif
