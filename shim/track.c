/* Following objects: into the books of the context that is current, out of those that have them. */
#include "shim/track.h"

#include "core/job.h"
#include "core/memory/quiet.h"

/* What cuda.h makes without a context, and what outlives all of them. */
static bool belongs_to_no_context(const struct resource_type *type)
{
	return type == &object_type_graph || type == &object_type_graph_node ||
	       type == &object_type_graph_body || type == &object_type_conditional ||
	       type == &object_type_user_object || type == &object_type_library ||
	       type == &object_type_kernel || type == &object_type_green_context;
}

static void enter(const struct object_entry *entry)
{
	struct context context;

	if (belongs_to_no_context(entry->type) || !context_current(&context)) {
		object_enter(context_free_registry(), NULL, entry);
		return;
	}
	object_enter(context.device->registry, context.container, entry);
	if (entry->type == &object_type_stream)
		quiet_stream_made(context.handle, (CUstream)entry->address);
}

void track(const struct resource_type *type, uint64_t object, uint64_t bytes)
{
	track_weighed(type, object, &(struct object_weight){.bytes = bytes});
}

void track_weighed(const struct resource_type *type, uint64_t object,
                   const struct object_weight *weight)
{
	KEEP_ERRNO;
	struct object_entry entry = {.type = type, .address = object, .weight = *weight};

	if (job_is_active())
		enter(&entry);
}

void track_flagged(const struct resource_type *type, uint64_t object, unsigned int flags)
{
	KEEP_ERRNO;
	struct object_entry entry = {.type = type, .address = object, .flags = flags};

	if (job_is_active())
		enter(&entry);
}

void track_owned(const struct resource_type *type, uint64_t object,
                 const struct object_weight *weight, const struct resource_type *owner_type,
                 uint64_t owner)
{
	KEEP_ERRNO;
	struct object_entry entry = {.type = type, .address = object};

	if (!job_is_active())
		return;
	if (weight)
		entry.weight = *weight;
	entry.owner = context_find_object(owner_type, owner);
	enter(&entry);
	resource_release(entry.owner);
}

uint64_t owner_of(const struct resource_type *type, uint64_t object)
{
	KEEP_ERRNO;
	struct resource *found = job_is_active() ? context_find_object(type, object) : NULL;
	uint64_t owner = found ? object_owner(found) : 0;

	resource_release(found);
	return owner ? owner : object;
}

struct tracked untrack(const struct resource_type *type, uint64_t object)
{
	KEEP_ERRNO;
	struct tracked going = {.object = object};

	if (job_is_active())
		going.resource = context_take_object(type, object, &going.place);
	return going;
}

void untrack_end(struct tracked *going, CUresult result)
{
	KEEP_ERRNO;

	if (going->resource && (result == CUDA_SUCCESS ||
	                        registry_add_object(going->place.registry, going->place.container,
	                                            going->object, going->resource) != 0))
		resource_release(going->resource);
}

struct measuring begin_measuring(void)
{
	KEEP_ERRNO;
	struct measuring measuring = {0};

	if (job_is_active())
		measured_begin(&measuring);
	return measuring;
}

void end_measuring(const struct measuring *measuring, uint64_t owner, uint64_t most)
{
	KEEP_ERRNO;

	if (measuring->device)
		measured_end(measuring, (const void *)(uintptr_t)owner, most);
}

struct side_leaving begin_forgetting(uint64_t owner)
{
	KEEP_ERRNO;
	struct side_leaving leaving = {0};

	if (job_is_active())
		leaving = measured_leave((const void *)(uintptr_t)owner);
	return leaving;
}

void end_forgetting(struct side_leaving *leaving, CUresult result)
{
	KEEP_ERRNO;

	measured_left(leaving, result == CUDA_SUCCESS);
}
