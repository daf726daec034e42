/* Following objects: into the books of the context that is current, out of those that have them. */
#include "shim/track.h"

#include <string.h>

#include "core/job.h"

void track(const struct resource_type *type, uint64_t object, uint64_t bytes)
{
	KEEP_ERRNO;
	struct context context;

	if (job_is_active() && context_current(&context))
		object_track(context.device->registry, context.container, type,
		             (const void *)(uintptr_t)object, bytes);
}

static bool take(const struct context *context, const struct resource_type *type, uint64_t object,
                 struct tracked *going)
{
	struct registry *registry = context->device->registry;

	going->resource = registry_lookup_object(registry, context->container, type, object);
	if (!going->resource)
		return false;
	registry_delete_object(registry, context->container, type, object);
	going->registry = registry;
	memcpy(going->container, context->container, sizeof(going->container));
	going->object = object;
	return true;
}

struct tracked untrack(const struct resource_type *type, uint64_t object)
{
	KEEP_ERRNO;
	struct tracked going = {0};
	struct context context;
	bool found;

	if (!job_is_active())
		return going;
	found = context_current(&context) && take(&context, type, object, &going);
	for (size_t i = 0; !found && context_at(i, &context); i++)
		found = take(&context, type, object, &going);
	return going;
}

void untrack_end(struct tracked *going, CUresult result)
{
	KEEP_ERRNO;

	if (going->resource &&
	    (result == CUDA_SUCCESS || registry_add_object(going->registry, going->container,
	                                                   going->object, going->resource) != 0))
		resource_release(going->resource);
}
