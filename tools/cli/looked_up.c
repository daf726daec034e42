/* SPDX-License-Identifier: MIT */
/* Handles looked up in what processes listed. */
#include "tools/cli/looked_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry/lookup_table.h"
#include "tools/view/tool.h"

/* As many as there were names of types. */
struct type {
	struct resource_type type;
	struct type *next;
	char name[REGISTRY_NAME_MAX];
};

struct looked_up_device {
	struct registry *registry;
	struct lookup_table *by_hash; /* the hash of a type's name -> struct type * */
	struct type *types;
};

/* A resource of the registry of ours. */
struct item {
	struct resource resource;
	const struct listed *listed;
};

static uint64_t item_memory_used(const struct resource *resource)
{
	return ((const struct item *)resource)->listed->bytes;
}

static void item_destroy(struct resource *resource)
{
	free(resource);
}

static const struct resource_type *type_of(struct looked_up_device *device,
                                           const struct handle *handle)
{
	struct type *type = NULL;

	if (lookup_table_find(device->by_hash, &handle->type_hash, 1, &type, NULL))
		return &type->type;
	type = allocate(sizeof *type);
	strcpy(type->name, handle->type_name);
	type->type = (struct resource_type){
	    .name = type->name, .memory_used = item_memory_used, .destroy = item_destroy};
	type->next = device->types;
	device->types = type;
	if (lookup_table_insert(device->by_hash, &handle->type_hash, &type, 1) != 0)
		fail("out of memory");
	return &type->type;
}

static void add(struct looked_up_device *device, const struct listed *listed)
{
	struct item *item = allocate(sizeof *item);

	item->listed = listed;
	resource_init(&item->resource, type_of(device, &listed->handle));
	/* What is listed twice is there once. */
	if (registry_add(device->registry, listed->handle.container, listed->handle.name,
	                 &item->resource) != 0)
		resource_release(&item->resource);
}

struct looked_up_device *looked_up_create(const char *job, int process, int gpu,
                                          const struct listed *listed, size_t count)
{
	struct looked_up_device *device = allocate(sizeof *device);

	device->registry = registry_create(job, process, gpu);
	device->by_hash = hash_table_create(sizeof(struct type *));
	if (!device->registry || !device->by_hash)
		fail("out of memory");
	for (size_t i = 0; i < count; i++)
		if (listed[i].handle.process == process && listed[i].handle.gpu == gpu)
			add(device, &listed[i]);
	return device;
}

void looked_up_destroy(struct looked_up_device *device)
{
	registry_clear(device->registry);
	registry_destroy(device->registry);
	resource_release(&device->by_hash->resource);
	for (struct type *type = device->types, *next; type; type = next) {
		next = type->next;
		free(type);
	}
	free(device);
}

uint64_t looked_up_bytes(struct looked_up_device *device)
{
	return registry_memory(device->registry, NULL);
}

/* Returns whether the two may be looked up together. */
static bool are_alike(const struct handle *one, const struct handle *other)
{
	return one->type_hash == other->type_hash && strcmp(one->container, other->container) == 0;
}

/* Returns what stands there instead, in the registry's words. */
static char *say_why(struct looked_up_device *device, const struct handle *handle)
{
	char message[2 * REGISTRY_HANDLE_MAX] = "", name[REGISTRY_HANDLE_MAX];
	struct resource *found = NULL;

	if (!registry_type_name(device->registry, handle->type_hash))
		return text("%s: the process has nothing of type %s on this GPU",
		            handle_format(handle, name, sizeof name), handle->type_name);
	if (registry_lookup_verified(device->registry, handle, type_of(device, handle), &found,
	                             message, sizeof message) == 0)
		resource_release(found);
	return text("%s", message);
}

/* Returns whether the names are addresses. Most are: then they need not be read again. */
static bool are_addresses(const char *const *names, size_t n, uint64_t *objects)
{
	for (size_t i = 0; i < n; i++) {
		if (strspn(names[i], "0123456789abcdef") != 16 || names[i][16] != '\0')
			return false;
		objects[i] = strtoull(names[i], NULL, 16);
	}
	return true;
}

/* Finds handles of one type in one container. */
static void find_alike(struct looked_up_device *device, const struct handle *handles, size_t n,
                       struct looked_up *found)
{
	struct resource **resources = allocate(n * sizeof *resources);
	const char **names = allocate(n * sizeof *names);
	uint64_t *objects = allocate(n * sizeof *objects);

	for (size_t i = 0; i < n; i++)
		names[i] = handles[i].name;
	if (n > 1 && are_addresses(names, n, objects))
		registry_lookup_objects(device->registry, handles[0].container,
		                        type_of(device, &handles[0]), objects, n, resources);
	else if (n > 1)
		registry_lookup_many(device->registry, handles[0].container,
		                     type_of(device, &handles[0]), names, n, resources);
	else if (registry_lookup_handle(device->registry, &handles[0], &resources[0]) != 0)
		resources[0] = NULL;
	for (size_t i = 0; i < n; i++) {
		found[i] = (struct looked_up){0};
		if (resources[i])
			found[i].listed = ((struct item *)resources[i])->listed;
		else
			found[i].why = say_why(device, &handles[i]);
		resource_release(resources[i]);
	}
	free(objects);
	free(names);
	free(resources);
}

void looked_up_find(struct looked_up_device *device, const struct handle *handles, size_t n,
                    struct looked_up *found)
{
	for (size_t first = 0, end; first < n; first = end) {
		for (end = first + 1; end < n && are_alike(&handles[first], &handles[end]); end++)
			;
		find_alike(device, handles + first, end - first, found + first);
	}
}
