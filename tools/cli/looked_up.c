/* SPDX-License-Identifier: MIT */
/* Handles looked up in the lists of processes. */
#include "tools/cli/looked_up.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/tool.h"

/* As many as there were names of types: some twenty. */
struct type {
	struct resource_type type;
	struct type *next;
	uint64_t hash;
	char name[REGISTRY_NAME_MAX];
};

struct looked_up_device {
	struct registry *registry;
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

static const struct resource_type *looked_up_type_of(struct looked_up_device *device,
                                                     const struct handle *handle)
{
	struct type *type;

	for (type = device->types; type; type = type->next)
		if (type->hash == handle->type_hash)
			return &type->type;
	type = allocate(sizeof *type);
	type->hash = handle->type_hash;
	strcpy(type->name, handle->type_name);
	type->type = (struct resource_type){
	    .name = type->name, .memory_used = item_memory_used, .destroy = item_destroy};
	type->next = device->types;
	device->types = type;
	return &type->type;
}

static void looked_up_add(struct looked_up_device *device, const struct listed *listed)
{
	struct item *item = allocate(sizeof *item);

	item->listed = listed;
	resource_init(&item->resource, looked_up_type_of(device, &listed->handle));
	/* An entry that is listed twice is there once. */
	if (registry_add(device->registry, listed->handle.container, listed->handle.name,
	                 &item->resource) != 0)
		resource_release(&item->resource);
}

struct looked_up_device *looked_up_create(const char *job, int process, int gpu,
                                          const struct listed *listed, size_t count)
{
	struct looked_up_device *device = allocate(sizeof *device);

	device->registry = registry_create(job, process, gpu);
	if (!device->registry)
		fail("out of memory");
	for (size_t i = 0; i < count; i++)
		if (listed[i].handle.process == process && listed[i].handle.gpu == gpu)
			looked_up_add(device, &listed[i]);
	return device;
}

void looked_up_destroy(struct looked_up_device *device)
{
	registry_clear(device->registry);
	registry_destroy(device->registry);
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

/* Returns the object that stands there instead, in the registry's words. */
static char *say_why(struct looked_up_device *device, const struct handle *handle)
{
	char message[2 * REGISTRY_HANDLE_MAX] = "", name[REGISTRY_HANDLE_MAX];
	struct resource *found = NULL;

	if (!registry_type_name(device->registry, handle->type_hash))
		return text("%s: the process has nothing of type %s on this GPU",
		            handle_format(handle, name, sizeof name), handle->type_name);
	if (registry_lookup_verified(device->registry, handle, looked_up_type_of(device, handle),
	                             &found, message, sizeof message) == 0)
		resource_release(found);
	return text("%s", message);
}

void looked_up_find(struct looked_up_device *device, const struct handle *handles, size_t n,
                    struct looked_up *found)
{
	for (size_t i = 0; i < n; i++) {
		struct resource *resource = NULL;

		found[i] = (struct looked_up){0};
		if (registry_lookup_handle(device->registry, &handles[i], &resource) == 0)
			found[i].listed = ((struct item *)resource)->listed;
		else
			found[i].why = say_why(device, &handles[i]);
		resource_release(resource);
	}
}
