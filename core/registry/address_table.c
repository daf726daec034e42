/* Rules: runs inside the user's process, under the registry's lock; out of memory is an answer. */
#include "core/registry/address_table.h"

#include <errno.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 32, FIRST_SHIFT = 64 - 5 };

static size_t home_of(const struct address_table *table, const struct resource_type *type,
                      uint64_t address)
{
	/* Fibonacci hashing: what differs in the middle of an address reaches the top bits, and
	 * addresses at even distances are spread evenly */
	return ((address ^ (uintptr_t)type << 5) * 0x9e3779b97f4a7c15u) >> table->shift;
}

/* Where the key is, or the free entry where it would go; needs capacity. */
static size_t place_of(const struct address_table *table, const struct resource_type *type,
                       uint64_t address)
{
	size_t i = home_of(table, type, address);
	while (table->entry[i].resource &&
	       (table->entry[i].address != address || table->entry[i].type != type))
		i = (i + 1) & (table->capacity - 1);
	return i;
}

struct resource *address_table_find(const struct address_table *table,
                                    const struct resource_type *type, uint64_t address)
{
	return table->capacity ? table->entry[place_of(table, type, address)].resource : NULL;
}

static int grow(struct address_table *table)
{
	struct address_table larger = {
	    .capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY,
	    .shift = table->capacity ? table->shift - 1 : FIRST_SHIFT,
	    .count = table->count,
	};
	larger.entry = calloc(larger.capacity, sizeof *larger.entry);
	if (!larger.entry)
		return -ENOMEM;
	for (size_t i = 0; i < table->capacity; i++) {
		const struct address_entry *entry = &table->entry[i];
		if (entry->resource)
			larger.entry[place_of(&larger, entry->type, entry->address)] = *entry;
	}
	free(table->entry);
	*table = larger;
	return 0;
}

int address_table_insert(struct address_table *table, uint64_t address, struct resource *resource)
{
	if (address_table_find(table, resource->type, address))
		return -EEXIST;
	if (table->count >= table->capacity / 4 * 3) {
		int error = grow(table);
		if (error)
			return error;
	}
	table->entry[place_of(table, resource->type, address)] = (struct address_entry){
	    .type = resource->type, .address = address, .resource = resource};
	table->count++;
	return 0;
}

struct resource *address_table_remove(struct address_table *table, const struct resource_type *type,
                                      uint64_t address)
{
	struct resource *removed = address_table_find(table, type, address);
	if (!removed)
		return NULL;

	/* close the gap: whatever would no longer be reached from its home moves up */
	size_t mask = table->capacity - 1, gap = place_of(table, type, address);
	for (size_t i = (gap + 1) & mask; table->entry[i].resource; i = (i + 1) & mask) {
		const struct address_entry *entry = &table->entry[i];
		size_t home = home_of(table, entry->type, entry->address);
		if (((i - home) & mask) >= ((i - gap) & mask)) {
			table->entry[gap] = *entry;
			gap = i;
		}
	}
	table->entry[gap] = (struct address_entry){0};
	table->count--;
	return removed;
}

void address_table_free(struct address_table *table)
{
	free(table->entry);
	*table = (struct address_table){0};
}
