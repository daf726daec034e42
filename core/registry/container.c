/* SPDX-License-Identifier: MIT */
/* Rules: runs inside the user's process, under the registry's lock; out of memory is an answer. */
#include "core/registry/container.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 32, FIRST_SHIFT = 64 - 5 };

static size_t container_home_of(const struct address_table *table, uint64_t address)
{
	/*
	 * Fibonacci hashing: differences in the middle of an address reach the top bits, and
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
	size_t i = container_home_of(table, address);
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
	for (size_t i = container_home_of(table, address); table->entry[i].resource;
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
	for (size_t i = container_home_of(table, address); table->entry[i].resource;
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

/* Finds an entry, valid until the table is changed. Returns NULL when it is absent. */
static struct address_entry *address_table_find(const struct address_table *table,
                                                const struct container *container,
                                                const struct resource_type *type, uint64_t address)
{
	if (!table->capacity)
		return NULL;
	for (size_t i = container_home_of(table, address); table->entry[i].resource;
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
	for (size_t i = container_home_of(table, address); table->entry[i].resource;
	     i = next_place(table, i))
		if (table->entry[i].resource == resource)
			return &table->entry[i];
	return NULL;
}

static int container_grow(struct address_table *table)
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
	size_t i = container_home_of(table, address);

	for (; table->entry[i].resource; i = next_place(table, i)) {
		const struct address_entry *entry = &table->entry[i];
		if (entry->address == address && entry->container == container &&
		    entry->resource->type == type)
			return NULL;
	}
	return &table->entry[i];
}

/* Enters a resource. Returns 0, -EEXIST or -ENOMEM. */
static int address_table_insert(struct address_table *table, struct container *container,
                                uint64_t address, struct resource *resource)
{
	struct address_entry *place;

	if (table->count >= table->capacity / 4 * 3) {
		if (address_table_find(table, container, resource->type, address))
			return -EEXIST;
		int error = container_grow(table);
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

/* Takes an entry out; afterwards another may stand in its place. Returns its resource. */
static struct resource *address_table_remove(struct address_table *table,
                                             struct address_entry *removed)
{
	struct resource *resource = removed->resource;

	/* close the gap: each entry that could no longer be reached from its home moves up */
	size_t mask = table->capacity - 1, gap = (size_t)(removed - table->entry);
	for (size_t i = (gap + 1) & mask; table->entry[i].resource; i = (i + 1) & mask) {
		const struct address_entry *entry = &table->entry[i];
		size_t home = container_home_of(table, entry->address);
		if (((i - home) & mask) >= ((i - gap) & mask)) {
			table->entry[gap] = *entry;
			gap = i;
		}
	}
	table->entry[gap] = (struct address_entry){0};
	table->count--;
	return resource;
}

enum { ADDRESS_DIGITS = 16 };

/* Compared as bytes: padding and the rest of name are zero. */
struct named_key {
	const struct resource_type *type;
	char name[REGISTRY_NAME_MAX];
};

struct named {
	struct named_key key;
	struct resource *resource;
	UT_hash_handle hh;
};

struct resource_name name_from_text(const char *text)
{
	static const char digits[] = "0123456789abcdef";
	struct resource_name name = {.text = text};

	if (strspn(text, digits) == ADDRESS_DIGITS && text[ADDRESS_DIGITS] == '\0') {
		name.is_address = true;
		for (const char *c = text; *c; c++)
			name.address = name.address << 4 | (uint64_t)(strchr(digits, *c) - digits);
	}
	return name;
}

struct container *container_new(const char *name, struct address_table *addresses)
{
	struct container *container = calloc(1, sizeof *container);
	if (container) {
		strcpy(container->name, name);
		container->addresses = addresses;
	}
	return container;
}

static struct named *find_named(const struct container *container, const struct resource_type *type,
                                const char *name)
{
	struct named_key key = {.type = type};
	struct named *found = NULL;

	if (strnlen(name, sizeof key.name) < sizeof key.name) {
		strcpy(key.name, name);
		HASH_FIND(hh, container->named, &key, sizeof key, found);
	}
	return found;
}

struct resource *container_find(const struct container *container, const struct resource_type *type,
                                const struct resource_name *name)
{
	if (name->is_address) {
		const struct address_entry *entry =
		    address_table_find(container->addresses, container, type, name->address);
		return entry ? entry->resource : NULL;
	}
	const struct named *found = find_named(container, type, name->text);
	return found ? found->resource : NULL;
}

/* Returns the resource's chain; NULL: it is of a type that has none. */
static struct resource_chain *chain_of(struct resource *resource)
{
	size_t at = resource->type->chain;

	return at ? (struct resource_chain *)((char *)resource + at) : NULL;
}

static void chain(struct container *container, uint64_t object, struct resource_chain *chain)
{
	*chain = (struct resource_chain){container->chained, &container->chained, object};
	if (chain->next)
		chain->next->link = &chain->next;
	container->chained = chain;
}

static void unchain(const struct resource_chain *chain)
{
	*chain->link = chain->next;
	if (chain->next)
		chain->next->link = chain->link;
}

int container_insert(struct container *container, const struct resource_name *name,
                     struct resource *resource)
{
	if (name->is_address) {
		int error =
		    address_table_insert(container->addresses, container, name->address, resource);
		if (error)
			return error;
		container->address_count++;
		if (resource->type->chain)
			chain(container, name->address, chain_of(resource));
		return 0;
	}
	if (find_named(container, resource->type, name->text))
		return -EEXIST;
	struct named *named = calloc(1, sizeof *named);
	if (!named)
		return -ENOMEM;
	named->key.type = resource->type;
	strcpy(named->key.name, name->text);
	named->resource = resource;
	HASH_ADD(hh, container->named, key, sizeof named->key, named);
	if (!named->hh.tbl) {
		free(named);
		return -ENOMEM;
	}
	return 0;
}

struct resource *container_remove_entry(struct container *container, struct address_entry *entry)
{
	container->address_count--;
	if (entry->resource->type->chain)
		unchain(chain_of(entry->resource));
	return address_table_remove(container->addresses, entry);
}

struct resource *container_remove(struct container *container, const struct resource_type *type,
                                  const struct resource_name *name)
{
	if (name->is_address) {
		struct address_entry *entry =
		    address_table_find(container->addresses, container, type, name->address);
		return entry ? container_remove_entry(container, entry) : NULL;
	}
	struct named *found = find_named(container, type, name->text);
	if (!found)
		return NULL;
	struct resource *removed = found->resource;
	HASH_DEL(container->named, found);
	free(found);
	return removed;
}

struct resource *container_take_all(struct container *container)
{
	struct address_table *table = container->addresses;
	struct resource *taken = NULL, *resource;

	/*
	 * A removal may move another entry into the place, from further on or from the beginning,
	 * where everything was seen already: the place is looked at again.
	 */
	for (size_t i = 0; container->address_count && i < table->capacity;) {
		if (table->entry[i].container != container) {
			i++;
			continue;
		}
		resource = container_remove_entry(container, &table->entry[i]);
		resource->next_taken = taken;
		taken = resource;
	}
	struct named *named = container->named;
	HASH_CLEAR(hh, container->named);
	while (named) {
		struct named *next = named->hh.next;
		named->resource->next_taken = taken;
		taken = named->resource;
		free(named);
		named = next;
	}
	return taken;
}

size_t container_count(const struct container *container)
{
	return container->address_count + HASH_COUNT(container->named);
}

void container_each(const struct container *container,
                    void (*each)(void *cookie, const char *name, struct resource *resource),
                    void *cookie)
{
	const struct address_table *table = container->addresses;
	size_t left = container->address_count;

	for (size_t i = 0; left && i < table->capacity; i++) {
		const struct address_entry *entry = &table->entry[i];
		char name[ADDRESS_DIGITS + 1];
		if (entry->container != container)
			continue;
		left--;
		snprintf(name, sizeof name, "%016" PRIx64, entry->address);
		each(cookie, name, entry->resource);
	}
	for (const struct named *named = container->named; named; named = named->hh.next)
		each(cookie, named->key.name, named->resource);
}
