/* SPDX-License-Identifier: MIT */
/* Objects of the program, looked for in the current context's books first. Rules: as context.c. */
#include "core/cuda/context.h"

#include "core/registry/object.h"

/*
 * Looks in all books, and prefers one that stays: an object that leaves may have lost its address
 * already.
 */
static struct resource *look_everywhere(const struct resource_type *type, uint64_t object,
                                        struct registry **registry)
{
	int count;
	const struct context_device *devices = context_devices(&count);
	struct context context = {0};
	struct resource *found = NULL;

	if (context_current(&context)) {
		*registry = context.of->registry;
		found = registry_find_object(*registry, context.container, type, object);
	}
	for (int i = 0; (!found || resource_is_leaving(found)) && i < count; i++) {
		struct registry *other = devices[i].registry;
		struct resource *there = devices[i].device == context.device
		                             ? NULL
		                             : registry_find_object(other, NULL, type, object);

		if (!there || (found && resource_is_leaving(there))) {
			resource_release(there);
			continue;
		}
		resource_release(found);
		found = there;
		*registry = other;
	}
	return found;
}

struct resource *context_find_object(const struct resource_type *type, uint64_t object)
{
	struct registry *registry = NULL;

	return look_everywhere(type, object, &registry);
}

static void context_objects_leave(const struct resource_type *type, uint64_t object, bool holds,
                                  struct leaving *leaving)
{
	struct registry *registry = NULL;
	const struct context *context = context_here();
	struct resource *found;

	/* Mostly it is where it was made. */
	if (context && registry_leave_object(context->of->registry, context->container, type,
	                                     object, holds, leaving))
		return;
	found = look_everywhere(type, object, &registry);
	*leaving = registry_leave(registry, object, found);
	if (!holds)
		resource_release(found);
}

struct leaving context_leave_object(const struct resource_type *type, uint64_t object)
{
	struct leaving leaving;

	context_objects_leave(type, object, true, &leaving);
	return leaving;
}

void context_leave_unheld(const struct resource_type *type, uint64_t object,
                          struct leaving *leaving)
{
	context_objects_leave(type, object, false, leaving);
}

void context_before_leaving(struct before_leaving *before)
{
	int count;
	const struct context_device *devices = context_devices(&count);

	for (int i = 0; i < count; i++)
		before->entries[i] = registry_entries(devices[i].registry);
}

struct resource *context_take_before(const struct resource_type *type, uint64_t object,
                                     const struct before_leaving *before)
{
	struct resource *taken = NULL;
	int count;
	const struct context_device *devices = context_devices(&count);

	for (int i = 0; i < count && !taken; i++)
		taken = registry_take_before(devices[i].registry, type, object, before->entries[i]);
	return taken;
}
