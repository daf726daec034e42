/* Rules: runs inside the user's process, under the registry's lock; out of memory is an answer. */
#include "core/registry/container.h"

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

struct resource_name name_from_address(uint64_t address)
{
	return (struct resource_name){.is_address = true, .address = address};
}

bool name_is_valid(const char *text)
{
	size_t length = strnlen(text, REGISTRY_NAME_MAX);
	if (length == 0 || length == REGISTRY_NAME_MAX)
		return false;
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127 || *c == '/')
			return false;
	return true;
}

struct container *container_new(const char *name)
{
	struct container *container = calloc(1, sizeof *container);
	if (container)
		strcpy(container->name, name);
	return container;
}

void container_free(struct container *container)
{
	struct named *next, *named = container->named;
	HASH_CLEAR(hh, container->named);
	for (; named; named = next) {
		next = named->hh.next;
		free(named);
	}
	address_table_free(&container->addresses);
	free(container);
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
                                struct resource_name name)
{
	if (name.is_address)
		return address_table_find(&container->addresses, type, name.address);
	const struct named *found = find_named(container, type, name.text);
	return found ? found->resource : NULL;
}

int container_insert(struct container *container, struct resource_name name,
                     struct resource *resource)
{
	if (name.is_address)
		return address_table_insert(&container->addresses, name.address, resource);
	if (find_named(container, resource->type, name.text))
		return -EEXIST;
	struct named *named = calloc(1, sizeof *named);
	if (!named)
		return -ENOMEM;
	named->key.type = resource->type;
	strcpy(named->key.name, name.text);
	named->resource = resource;
	HASH_ADD(hh, container->named, key, sizeof named->key, named);
	if (!named->hh.tbl) {
		free(named);
		return -ENOMEM;
	}
	return 0;
}

struct resource *container_remove(struct container *container, const struct resource_type *type,
                                  struct resource_name name)
{
	if (name.is_address)
		return address_table_remove(&container->addresses, type, name.address);
	struct named *found = find_named(container, type, name.text);
	if (!found)
		return NULL;
	struct resource *removed = found->resource;
	HASH_DEL(container->named, found);
	free(found);
	return removed;
}

size_t container_count(const struct container *container)
{
	return container->addresses.count + HASH_COUNT(container->named);
}

void container_each(const struct container *container,
                    void (*each)(void *cookie, const char *name, struct resource *resource),
                    void *cookie)
{
	for (size_t i = 0; i < container->addresses.capacity; i++) {
		const struct address_entry *entry = &container->addresses.entry[i];
		char name[ADDRESS_DIGITS + 1];
		if (!entry->resource)
			continue;
		snprintf(name, sizeof name, "%016" PRIx64, entry->address);
		each(cookie, name, entry->resource);
	}
	for (const struct named *named = container->named; named; named = named->hh.next)
		each(cookie, named->key.name, named->resource);
}
