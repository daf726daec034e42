/* SPDX-License-Identifier: MIT */
/* Deleters. */
#include "tools/events/deleter.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/events/container_info.h"

struct deleter {
	struct resource resource;
	struct registry *registry;
	struct handle handle;
};

static void deleter_describe(const struct resource *resource, char *buf, size_t size)
{
	const struct deleter *d = (const struct deleter *)resource;

	snprintf(buf, size, "owns %s %s", d->handle.type_name, d->handle.name);
}

static void deleter_destroy(struct resource *resource)
{
	struct deleter *d = (struct deleter *)resource;

	(void)registry_delete_handle(d->registry, &d->handle); /* it may be gone */
	free(d);
}

const struct resource_type deleter_type = {
    .name = "deleter", .describe = deleter_describe, .destroy = deleter_destroy};

int registry_add_anonymous(struct registry *registry, const char *container,
                           struct resource *resource, struct resource **deleter)
{
	struct deleter *d = calloc(1, sizeof *d);
	char name[REGISTRY_NAME_MAX];
	int error;

	if (!d)
		return -ENOMEM;
	resource_init(&d->resource, &deleter_type);
	d->registry = registry;
	unique_name(NULL, name);
	error = handle_make(registry, container, resource->type, name, &d->handle);
	if (!error)
		error = registry_add(registry, container, name, resource);
	if (error)
		free(d);
	else
		*deleter = &d->resource;
	return error;
}

void deleter_handle(const struct resource *deleter, struct handle *handle)
{
	*handle = ((const struct deleter *)deleter)->handle;
}
