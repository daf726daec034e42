/* SPDX-License-Identifier: MIT */
/* Rules: runs inside the user's process, under the registry's lock; out of memory is an answer. */
#include "core/registry/container.h"

#include "core/base/printable.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

bool name_is_valid(const char *text)
{
	size_t length = strnlen(text, REGISTRY_NAME_MAX);
	if (length == 0 || length == REGISTRY_NAME_MAX)
		return false;
	return !strchr(text, '/') && is_printable(text, REGISTRY_NAME_MAX);
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
