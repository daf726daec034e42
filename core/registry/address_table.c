/* SPDX-License-Identifier: MIT */
/* Rules: runs inside the user's process, under the registry's lock; out of memory is an answer. */
#include "core/registry/address_table.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 32, FIRST_SHIFT = 64 - 5 };

static size_t home_of(const struct address_table *table, uint64_t address)
{
	/*
	 * Fibonacci hashing: what differs in the middle of an address reaches the top bits, and
	 * addresses at even distances are spread evenly. An address that is of several types is of
	 * few.
	 */
	return address * 0x9e3779b97f4a7c15u >> table->shift;
}

static size_t next_place(const struct address_table *table, size_t i)
{
	return (i + 1) & (table->capacity - 1);
}

/* Returns where the next resource of this address would go; needs capacity. */
static struct address_entry *free_place(const struct address_table *table, uint64_t address)
{
	size_t i = home_of(table, address);
	while (table->entry[i].resource)
		i = next_place(table, i);
	return &table->entry[i];
}

struct address_entry *address_table_find_before(const struct address_table *table,
                                                const struct resource_type *type, uint64_t address,
                                                uint64_t entries)
{
	struct address_entry *found = NULL;

	if (!table->capacity)
		return NULL;
	for (size_t i = home_of(table, address); table->entry[i].resource;
	     i = next_place(table, i)) {
		struct address_entry *entry = &table->entry[i];
		if (entry->address == address && entry->resource->type == type &&
		    entry->resource->entry <= entries &&
		    (!found || entry->resource->entry > found->resource->entry))
			found = entry;
	}
	return found;
}

struct address_entry *address_table_find_any(const struct address_table *table,
                                             const struct container *preferred,
                                             const struct resource_type *type, uint64_t address)
{
	struct address_entry *found = NULL;
	int best = -1;

	if (!table->capacity)
		return NULL;
	if (type->leaves_unmarked)
		return address_table_find_before(table, type, address, UINT64_MAX);
	for (size_t i = home_of(table, address); table->entry[i].resource;
	     i = next_place(table, i)) {
		struct address_entry *entry = &table->entry[i];
		if (entry->address != address || entry->resource->type != type)
			continue;
		int rank = (entry->container == preferred) +
		           (resource_is_leaving(entry->resource) ? 0 : 2);
		if (rank == 3)
			return entry;
		if (rank > best) {
			best = rank;
			found = entry;
		}
	}
	return found;
}

struct address_entry *address_table_find(const struct address_table *table,
                                         const struct container *container,
                                         const struct resource_type *type, uint64_t address)
{
	if (!table->capacity)
		return NULL;
	for (size_t i = home_of(table, address); table->entry[i].resource;
	     i = next_place(table, i)) {
		struct address_entry *entry = &table->entry[i];
		if (entry->address == address && entry->container == container &&
		    entry->resource->type == type)
			return entry;
	}
	return NULL;
}

struct address_entry *address_table_find_resource(const struct address_table *table,
                                                  uint64_t address, size_t place,
                                                  const struct resource *resource)
{
	if (!table->capacity)
		return NULL;
	if (place < table->capacity && table->entry[place].resource == resource)
		return &table->entry[place];
	for (size_t i = home_of(table, address); table->entry[i].resource; i = next_place(table, i))
		if (table->entry[i].resource == resource)
			return &table->entry[i];
	return NULL;
}

static int grow(struct address_table *table)
{
	struct address_table larger = {
	    .capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY,
	    .shift = table->capacity ? table->shift - 1 : FIRST_SHIFT,
	    .count = table->count,
	    .entries = atomic_load_explicit(&table->entries, memory_order_relaxed),
	};
	larger.entry = calloc(larger.capacity, sizeof *larger.entry);
	if (!larger.entry)
		return -ENOMEM;
	for (size_t i = 0; i < table->capacity; i++) {
		const struct address_entry *entry = &table->entry[i];
		if (entry->resource)
			*free_place(&larger, entry->address) = *entry;
	}
	free(table->entry);
	*table = larger;
	return 0;
}

/* Returns where the resource would go; NULL: there is one already. */
static struct address_entry *new_place(const struct address_table *table,
                                       const struct container *container,
                                       const struct resource_type *type, uint64_t address)
{
	size_t i = home_of(table, address);

	for (; table->entry[i].resource; i = next_place(table, i)) {
		const struct address_entry *entry = &table->entry[i];
		if (entry->address == address && entry->container == container &&
		    entry->resource->type == type)
			return NULL;
	}
	return &table->entry[i];
}

int address_table_insert(struct address_table *table, struct container *container, uint64_t address,
                         struct resource *resource)
{
	struct address_entry *place;

	if (table->count >= table->capacity / 4 * 3) {
		if (address_table_find(table, container, resource->type, address))
			return -EEXIST;
		int error = grow(table);
		if (error)
			return error;
	}
	place = new_place(table, container, resource->type, address);
	if (!place)
		return -EEXIST;
	*place = (struct address_entry){
	    .address = address, .container = container, .resource = resource};
	table->count++;
	resource->entry = atomic_load_explicit(&table->entries, memory_order_relaxed) + 1;
	atomic_store_explicit(&table->entries, resource->entry, memory_order_relaxed);
	return 0;
}

void address_table_expect(const struct address_table *table, uint64_t address)
{
	if (table->capacity)
		__builtin_prefetch(&table->entry[home_of(table, address)]);
}

void address_table_expect_resource(const struct address_table *table, uint64_t address)
{
	if (table->capacity) /* mostly it is where it belongs; prefetching NULL is harmless */
		__builtin_prefetch(table->entry[home_of(table, address)].resource, 1);
}

struct resource *address_table_remove(struct address_table *table, struct address_entry *removed)
{
	struct resource *resource = removed->resource;

	/* close the gap: whatever would no longer be reached from its home moves up */
	size_t mask = table->capacity - 1, gap = (size_t)(removed - table->entry);
	for (size_t i = (gap + 1) & mask; table->entry[i].resource; i = (i + 1) & mask) {
		const struct address_entry *entry = &table->entry[i];
		size_t home = home_of(table, entry->address);
		if (((i - home) & mask) >= ((i - gap) & mask)) {
			table->entry[gap] = *entry;
			gap = i;
		}
	}
	table->entry[gap] = (struct address_entry){0};
	table->count--;
	return resource;
}

void address_table_free(struct address_table *table)
{
	free(table->entry);
	*table = (struct address_table){0};
}
