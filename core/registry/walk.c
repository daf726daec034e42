/* SPDX-License-Identifier: MIT */
/* Walks everything in the registry, over a copy, so that no lock is held while the caller looks. */
#include <stdlib.h>
#include <string.h>

#include "core/base/lock.h"
#include "core/registry/registry.h"
#include "core/registry/registry_private.h"

struct seen {
	char container[REGISTRY_NAME_MAX];
	char name[REGISTRY_NAME_MAX];
	struct resource *resource;
};

struct copying {
	struct seen *seen;
	size_t count;
	const struct container *container;
};

static void copy_one(void *cookie, const char *name, struct resource *resource)
{
	struct copying *copying = cookie;
	struct seen *seen = &copying->seen[copying->count++];
	strcpy(seen->container, copying->container->name);
	strcpy(seen->name, name);
	seen->resource = resource_hold(resource);
}

/*
 * Copies all entries, with a reference for each. Returns NULL when there is nothing or no memory.
 */
static struct seen *walk_copy_all(struct registry *registry, size_t *count)
{
	struct copying copying = {0};
	size_t total = 0;

	lock_acquire(&registry->lock);
	for (const struct container *c = registry->containers; c; c = c->hh.next)
		total += container_count(c);
	if (total)
		copying.seen = malloc(total * sizeof *copying.seen);
	if (copying.seen)
		for (const struct container *c = registry->containers; c; c = c->hh.next) {
			copying.container = c;
			container_each(c, copy_one, &copying);
		}
	lock_release(&registry->lock);
	*count = copying.count;
	return copying.seen;
}

size_t registry_walk(struct registry *registry,
                     void (*each)(void *cookie, const struct registry_entry *entry), void *cookie)
{
	size_t count;
	struct seen *seen = walk_copy_all(registry, &count);

	for (size_t i = 0; i < count; i++) {
		struct registry_entry entry = {.container = seen[i].container,
		                               .name = seen[i].name,
		                               .resource = seen[i].resource};
		each(cookie, &entry);
		resource_release(seen[i].resource);
	}
	free(seen);
	return count;
}

struct listing {
	struct registry_listing *listing;
	size_t count, most;
	const struct container *container;
};

static void walk_list_one(void *cookie, const char *name, struct resource *resource)
{
	struct listing *listing = cookie;
	const struct resource_type *type = resource->type;
	if (listing->count++ >= listing->most)
		return;
	struct registry_listing *one = &listing->listing[listing->count - 1];
	strcpy(one->container, listing->container->name);
	strcpy(one->name, name);
	one->type = type;
	one->bytes = type->memory_used ? type->memory_used(resource) : 0;
	one->born_ns = resource->born_ns;
}

size_t registry_list(struct registry *registry, struct registry_listing *listing, size_t most)
{
	struct listing all = {.listing = listing, .most = most};

	lock_acquire(&registry->lock);
	for (const struct container *c = registry->containers; c; c = c->hh.next) {
		all.container = c;
		container_each(c, walk_list_one, &all);
	}
	lock_release(&registry->lock);
	return all.count;
}

size_t registry_list_chained(struct registry *registry, const char *container_name,
                             uint64_t *objects, size_t n)
{
	size_t count = 0;

	lock_acquire(&registry->lock);
	const struct container *container = registry_find_container(registry, container_name);
	for (const struct resource_chain *c = container ? container->chained : NULL; c;
	     c = c->next, count++)
		if (count < n)
			objects[count] = c->object;
	lock_release(&registry->lock);
	return count;
}

size_t registry_count(struct registry *registry, const struct resource_type *type)
{
	size_t count = 0;
	lock_acquire(&registry->lock);
	for (const struct known_type *known = registry->types; known; known = known->next)
		if (!type || known->type == type)
			count += atomic_load_explicit(known->count, memory_order_relaxed);
	lock_release(&registry->lock);
	return count;
}

struct measuring {
	const struct resource_type *type;
	uint64_t bytes;
};

static void measure_one(void *cookie, const struct registry_entry *entry)
{
	struct measuring *measuring = cookie;
	const struct resource_type *type = entry->resource->type;
	if ((!measuring->type || measuring->type == type) && type->memory_used)
		measuring->bytes += type->memory_used(entry->resource);
}

uint64_t registry_memory(struct registry *registry, const struct resource_type *type)
{
	struct measuring measuring = {.type = type};
	registry_walk(registry, measure_one, &measuring);
	return measuring.bytes;
}
