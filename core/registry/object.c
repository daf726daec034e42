/* Objects. Rules: runs inside the user's process; never calls the driver. */
#include "core/registry/object.h"

#include <errno.h>
#include <stdlib.h>

struct object {
	struct resource resource;
	uint64_t bytes;
};

static uint64_t object_memory_used(const struct resource *resource)
{
	return ((const struct object *)resource)->bytes;
}

static void object_destroy(struct resource *resource)
{
	free(resource);
}

#define X(type_name)                                           \
	const struct resource_type object_type_##type_name = { \
	    .name = #type_name, .memory_used = object_memory_used, .destroy = object_destroy};
OBJECT_TYPES(X)
#undef X

int object_track(struct registry *registry, const char *container, const struct resource_type *type,
                 const void *object, uint64_t bytes)
{
	struct object *o = malloc(sizeof(*o));
	int error;

	if (!o)
		return -ENOMEM;
	resource_init(&o->resource, type);
	o->bytes = bytes;
	error = registry_add_object(registry, container, (uintptr_t)object, &o->resource);
	if (error)
		resource_release(&o->resource);
	return error;
}

uint64_t object_forget(struct registry *registry, const char *container,
                       const struct resource_type *type, const void *object)
{
	struct resource *r = registry_lookup_object(registry, container, type, (uintptr_t)object);
	uint64_t bytes;

	if (!r)
		return 0;
	bytes = object_memory_used(r);
	registry_delete_object(registry, container, type, (uintptr_t)object);
	resource_release(r);
	return bytes;
}
