/* A lookup table that is written to: open addressing. Rules: runs inside the user's process; out of memory is an answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/lock.h"
#include "core/registry/lookup_table.h"

enum { FIRST_CAPACITY = 16 };

struct hash_table {
	struct lookup_table table;
	LOCK_OF(LOOKUP_TABLE) lock;
	size_t capacity, count; /* a power of two; at most half of it is used */
	uint64_t *keys;
	bool *is_used;
	char *values;
};

static struct hash_table *of(struct lookup_table *table)
{
	return (struct hash_table *)table;
}

static size_t place_of(const struct hash_table *t, uint64_t key)
{
	size_t i = key * 0x9e3779b97f4a7c15u >> 32;

	for (i &= t->capacity - 1; t->is_used[i] && t->keys[i] != key;)
		i = (i + 1) & (t->capacity - 1);
	return i;
}

static bool hash_find(struct lookup_table *table, uint64_t key, void *value)
{
	const struct hash_table *t = of(table);
	size_t i = t->capacity ? place_of(t, key) : 0;

	if (!t->capacity || !t->is_used[i])
		return false;
	memcpy(value, t->values + i * table->value_size, table->value_size);
	return true;
}

static void put(struct hash_table *t, uint64_t key, const void *value)
{
	size_t i = place_of(t, key), size = t->table.value_size;

	t->count += !t->is_used[i];
	t->is_used[i] = true;
	t->keys[i] = key;
	memcpy(t->values + i * size, value, size);
}

static void free_arrays(struct hash_table *t)
{
	free(t->keys);
	free(t->is_used);
	free(t->values);
}

/* Room for one more. */
static int grow(struct hash_table *t)
{
	struct hash_table larger = {.table = t->table,
	                            .capacity = t->capacity ? t->capacity * 2 : FIRST_CAPACITY};

	if (t->count < t->capacity / 2)
		return 0;
	larger.keys = calloc(larger.capacity, sizeof *larger.keys);
	larger.is_used = calloc(larger.capacity, sizeof *larger.is_used);
	larger.values = calloc(larger.capacity, t->table.value_size);
	if (!larger.keys || !larger.is_used || !larger.values) {
		free_arrays(&larger);
		return -ENOMEM;
	}
	for (size_t i = 0; i < t->capacity; i++)
		if (t->is_used[i])
			put(&larger, t->keys[i], t->values + i * t->table.value_size);
	free_arrays(t);
	t->capacity = larger.capacity;
	t->keys = larger.keys;
	t->is_used = larger.is_used;
	t->values = larger.values;
	return 0;
}

static int hash_insert(struct lookup_table *table, uint64_t key, const void *value)
{
	struct hash_table *t = of(table);
	int error = grow(t);

	if (!error)
		put(t, key, value);
	return error;
}

static size_t hash_count(struct lookup_table *table)
{
	return of(table)->count;
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

	free_arrays(t);
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
