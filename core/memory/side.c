/* The side table. Rules: runs inside the user's process, within its calls. */
#include "core/memory/side.h"

#include <errno.h>
#include <stdlib.h>

struct side {
	struct resource resource;
	struct device *device;
	_Atomic uint64_t bytes, charged;
	_Atomic unsigned int entered; /* how many times */
};

static uint64_t side_memory_used(const struct resource *resource)
{
	return ((const struct side *)resource)->bytes;
}

static void side_destroy(struct resource *resource)
{
	struct side *s = (struct side *)resource;

	if (resource->type == &side_type_host_allocation)
		statistics_sub(&s->device->statistics->pinned_used, s->bytes);
	if (s->charged)
		device_uncharge(s->device, SEGMENT_ON_DEVICE, s->charged);
	free(s);
}

#define X(type_name)                                         \
	const struct resource_type side_type_##type_name = { \
	    .name = #type_name, .memory_used = side_memory_used, .destroy = side_destroy};
SIDE_TYPES(X)
#undef X

static struct side *find(const struct context *context, const struct resource_type *type,
                         uint64_t object)
{
	return (struct side *)registry_lookup_object(context->device->registry, context->container,
	                                             type, object);
}

static struct side *create(const struct context *context, const struct resource_type *type,
                           uint64_t bytes, uint64_t charged)
{
	struct side *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	resource_init(&s->resource, type);
	s->device = context->device;
	s->bytes = bytes;
	s->charged = charged;
	s->entered = 1;
	if (type == &side_type_host_allocation)
		statistics_add(&s->device->statistics->pinned_used, bytes);
	return s;
}

/* Of what is charged there may be more each time; the rest is what it was. */
static void enter_again(struct side *s, uint64_t charged)
{
	atomic_fetch_add(&s->entered, 1);
	atomic_fetch_add(&s->charged, charged);
	if (s->resource.type == &side_type_measured)
		atomic_fetch_add(&s->bytes, charged);
}

/* Opened or grown again; any other under the same name is a new one, whose like is gone without our seeing it. */
static bool may_be_again(const struct resource_type *type)
{
	return type == &side_type_ipc_mapping || type == &side_type_imported_memory ||
	       type == &side_type_measured;
}

void side_enter(const struct resource_type *type, const struct context *context, uint64_t object,
                uint64_t bytes, uint64_t charged)
{
	struct context current;
	struct side *s;

	if (!context && !context_current(&current))
		return; /* nothing is charged without a context */
	if (!context)
		context = &current;
	s = may_be_again(type) ? find(context, type, object) : NULL;
	if (s) {
		enter_again(s, charged);
		resource_release(&s->resource);
		return;
	}
	s = create(context, type, bytes, charged);
	if (!s) {
		if (charged)
			device_uncharge(context->device, SEGMENT_ON_DEVICE, charged);
	} else if (registry_replace_object(context->device->registry, context->container, object,
	                                   &s->resource) != 0) {
		resource_release(&s->resource);
	}
}

struct side_leaving side_leave(const struct resource_type *type, uint64_t object)
{
	struct side_leaving leaving = {.object = object};
	struct side *s =
	    context_current(&leaving.context) ? find(&leaving.context, type, object) : NULL;

	for (size_t i = 0; !s && context_at(i, &leaving.context); i++)
		s = find(&leaving.context, type, object);
	if (!s)
		return leaving;
	if (registry_delete_object(leaving.context.device->registry, leaving.context.container,
	                           type, object) == 0)
		leaving.resource = &s->resource;
	else /* another thread was quicker */
		resource_release(&s->resource);
	return leaving;
}

void side_left(struct side_leaving *leaving, bool gone)
{
	struct side *s = (struct side *)leaving->resource;

	if (!s)
		return;
	if (gone && atomic_fetch_sub(&s->entered, 1) <= 1) {
		resource_release(&s->resource);
		return;
	}
	if (registry_add_object(leaving->context.device->registry, leaving->context.container,
	                        leaving->object, &s->resource) != 0)
		resource_release(&s->resource);
}
