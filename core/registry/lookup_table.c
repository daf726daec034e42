/* SPDX-License-Identifier: MIT */
/* Lookup tables, whatever their kind. Rules: runs inside the user's process. */
#include "core/registry/lookup_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/*
 * A lookup table that is written to. Rules: runs inside the user's process; out of memory is an
 * answer.
 */

#define HASH_NONFATAL_OOM 1 /* uthash would end the user's process */
#include <uthash.h>

#include "core/base/lock.h"
#include "core/registry/lookup_table.h"

struct entry {
	uint64_t key;
	UT_hash_handle hh;
	char value[]; /* of the table's size */
};

struct hash_table {
	struct lookup_table table;
	LOCK_OF(LOOKUP_TABLE) lock;
	struct entry *entries; /* uthash */
};

static struct hash_table *of(struct lookup_table *table)
{
	return (struct hash_table *)table;
}

static struct entry *find(const struct hash_table *t, uint64_t key)
{
	struct entry *found;

	HASH_FIND(hh, t->entries, &key, sizeof(key), found);
	return found;
}

static bool hash_find(struct lookup_table *table, uint64_t key, void *value)
{
	const struct entry *found = find(of(table), key);

	if (found)
		memcpy(value, found->value, table->value_size);
	return found;
}

/* Adds a key. Returns NULL when there is no memory. */
static struct entry *add(struct hash_table *t, uint64_t key)
{
	struct entry *e = malloc(sizeof(*e) + t->table.value_size);

	if (!e)
		return NULL;
	e->key = key;
	HASH_ADD(hh, t->entries, key, sizeof(e->key), e);
	if (e->hh.tbl)
		return e;
	free(e);
	return NULL;
}

static int hash_insert(struct lookup_table *table, uint64_t key, const void *value)
{
	struct hash_table *t = of(table);
	struct entry *e = find(t, key);

	if (!e)
		e = add(t, key);
	if (!e)
		return -ENOMEM;
	memcpy(e->value, value, table->value_size);
	return 0;
}

static size_t hash_count(struct lookup_table *table)
{
	return HASH_COUNT(of(table)->entries);
}

static void hash_begin(struct lookup_table *table)
{
	lock_acquire(&of(table)->lock);
}

static void hash_end(struct lookup_table *table)
{
	lock_release(&of(table)->lock);
}

static void hash_destroy(struct resource *resource)
{
	struct hash_table *t = (struct hash_table *)resource;
	struct entry *e = t->entries, *next;

	HASH_CLEAR(hh, t->entries); /* the entries stay chained */
	for (; e; e = next) {
		next = e->hh.next;
		free(e);
	}
	lock_destroy(&t->lock);
	free(t);
}

const struct resource_type hash_table_type = {.name = "hash_table", .destroy = hash_destroy};

struct lookup_table *hash_table_create(size_t value_size)
{
	static const struct lookup_table_kind kind = {.find = hash_find,
	                                              .insert = hash_insert,
	                                              .count = hash_count,
	                                              .begin = hash_begin,
	                                              .end = hash_end};
	struct hash_table *t = value_size ? calloc(1, sizeof *t) : NULL;

	if (!t)
		return NULL;
	resource_init(&t->table.resource, &hash_table_type);
	t->table.kind = &kind;
	t->table.value_size = value_size;
	lock_init(&t->lock);
	return &t->table;
}

size_t lookup_table_find(struct lookup_table *table, const uint64_t *keys, size_t n, void *values,
                         const void *fallback)
{
	char *value = values;
	size_t found = 0;

	table->kind->begin(table);
	for (size_t i = 0; i < n; i++, value += table->value_size) {
		if (table->kind->find(table, keys[i], value))
			found++;
		else if (fallback)
			memcpy(value, fallback, table->value_size);
	}
	table->kind->end(table);
	return found;
}

int lookup_table_insert(struct lookup_table *table, const uint64_t *keys, const void *values,
                        size_t n)
{
	const char *value = values;
	int error = 0;

	if (!table->kind->insert)
		return -EROFS;
	table->kind->begin(table);
	for (size_t i = 0; i < n && !error; i++, value += table->value_size)
		error = table->kind->insert(table, keys[i], value);
	table->kind->end(table);
	return error;
}

size_t lookup_table_count(struct lookup_table *table)
{
	table->kind->begin(table);
	size_t count = table->kind->count(table);
	table->kind->end(table);
	return count;
}
