/* SPDX-License-Identifier: MIT */
/* Following objects: into the books of the context that is current, out of those that have them. */
#include "shim/track.h"

#include "core/base/lock.h"
#include "core/budget/refusal.h"
#include "core/budget/shortage.h"
#include "core/budget/wanted.h"
#include "core/cuda/capture.h"
#include "core/job/job.h"
#include "core/memory/alloc/freed.h"
#include "shim/sampled.h"

/* Of other jobs, at first: about the size of a context, or a part of a small device. */
#define ASKED_FIRST ((uint64_t)512 << 20)
enum { ASKED_PART = 16 };

/*
 * Some objects have more records, elsewhere and by their handle. These go with them, before another
 * object of that handle is entered or with the one that leaves, whichever is first: never the next
 * one's. The driver is asked for nothing but the current context under it.
 */
static LOCK_OF(KEPT) kept_lock = LOCK_FREE;

/* Returns whether more is kept of this type elsewhere. Of streams there mostly is nothing. */
static bool keeps_more(const struct resource_type *type)
{
	if (type == &object_type_stream)
		return capture_is_active() || freed_is_any(FREED_OF_STREAM);
	return type == &object_type_graph || type == &object_type_graph_exec ||
	       type == &object_type_module || type == &object_type_library;
}

/* Forgets a graph or executable graph that is destroyed. */
static void sampled_forget_graph(const void *graph)
{
	if (sampled_is_wanted())
		placement_tell(graph_forget, graph);
}

/* Forgets the records of an object elsewhere. Called with the lock held. */
static void forget_kept(const struct resource_type *type, uint64_t object)
{
	if (type == &object_type_stream) {
		capture_is_over((CUstream)object);
		freed_stream_gone((CUstream)object);
	} else if (type == &object_type_graph || type == &object_type_graph_exec) {
		sampled_forget_graph((const void *)object);
	} else {
		sampled_forget_asked(); /* its functions' handles may be another module's now */
	}
}

/*
 * Forgets the records of an object of this handle that is in the books and is gone, or about to
 * leave them. Called with the lock held.
 */
static void forget_kept_of_last(const struct object_entry *entry)
{
	struct resource *last = context_find_object(entry->type, entry->address);

	if (last)
		forget_kept(entry->type, entry->address);
	resource_release(last);
}

/*
 * Returns whether a type belongs to no context: cuda.h makes it without one, or it outlives all of
 * them.
 */
static bool belongs_to_no_context(const struct resource_type *type)
{
	return type == &object_type_graph || type == &object_type_graph_node ||
	       type == &object_type_graph_body || type == &object_type_conditional ||
	       type == &object_type_user_object || type == &object_type_library ||
	       type == &object_type_kernel || type == &object_type_green_context;
}

/* Returns which books a type is in. */
static struct registry *track_books_of(const struct resource_type *type, const char **container)
{
	const struct context *context = belongs_to_no_context(type) ? NULL : context_here();

	*container = context ? context->container : NULL;
	return context ? context->device->registry : context_free_registry();
}

static void enter_alone(const struct object_entry *entry)
{
	const char *container;
	struct registry *registry = track_books_of(entry->type, &container);

	object_enter(registry, container, entry);
}

void track_enter(const struct object_entry *entry)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return;
	if (!keeps_more(entry->type)) {
		enter_alone(entry);
		return;
	}
	context_here(); /* is met before the lock is taken */
	lock_acquire(&kept_lock);
	forget_kept_of_last(entry);
	enter_alone(entry);
	lock_release(&kept_lock);
}

/* Returns whether this very owner has handed the object out before. */
static bool is_handed_out(const struct resource_type *type, uint64_t object,
                          const struct resource_type *owner_type, uint64_t owner)
{
	const char *container;
	struct registry *registry = track_books_of(type, &container);
	const struct object_owner by = {owner_type, owner};

	return object_belongs_to(registry, container, type, object, &by);
}

void track_owned(const struct resource_type *type, uint64_t object,
                 const struct object_weight *weight, const struct resource_type *owner_type,
                 uint64_t owner)
{
	KEEP_ERRNO;
	struct object_entry entry = {.type = type, .address = object};

	/* An object that leaves unmarked is made anew each time. */
	if (!job_is_active() ||
	    (!type->leaves_unmarked && is_handed_out(type, object, owner_type, owner)))
		return;
	if (weight)
		entry.weight = *weight;
	entry.owner = context_find_object(owner_type, owner);
	track_enter(&entry);
	resource_release(entry.owner);
}

void untrack(const struct resource_type *type, uint64_t object, struct tracked *going)
{
	KEEP_ERRNO;

	going->type = type;
	going->is_marked = !type->leaves_unmarked;
	going->leaving.resource = NULL;
	going->leaving.object = object;
	if (!job_is_active())
		return;
	if (!going->is_marked)
		context_before_leaving(&going->before);
	else
		context_leave_unheld(type, object, &going->leaving);
}

/* Returns whether it was not in the books, and no other of its handle is by now. */
static bool track_is_unknown(const struct tracked *going)
{
	struct resource *known = context_find_object(going->type, going->leaving.object);

	resource_release(known);
	return !going->leaving.resource && !known;
}

static bool track_has_left(const struct tracked *going)
{
	struct resource *left;

	if (going->is_marked)
		return registry_left(&going->leaving, true);
	left = context_take_before(going->type, going->leaving.object, &going->before);
	resource_release(left);
	return left;
}

static void track_leave(const struct tracked *going)
{
	if (!keeps_more(going->type)) {
		track_has_left(going);
		return;
	}
	lock_acquire(&kept_lock);
	if (track_has_left(going) || track_is_unknown(going))
		forget_kept(going->type, going->leaving.object);
	lock_release(&kept_lock);
}

void untrack_end(struct tracked *going, CUresult result)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return;
	if (result == CUDA_SUCCESS)
		track_leave(going);
	else if (going->is_marked)
		registry_left(&going->leaving, false);
}

static bool gave_after(CUresult result, struct device *device, struct asking *asking)
{
	if (asking->device)
		shortage_tried(asking->device, asking->bytes);
	asking->device = NULL;
	if (result != CUDA_ERROR_OUT_OF_MEMORY || !device)
		return false;
	if (!asking->bytes) {
		asking->bytes = device->id.memory / ASKED_PART;
		asking->bytes = asking->bytes < ASKED_FIRST ? asking->bytes : ASKED_FIRST;
		asking->until = DEADLINE_IN(WANTED_ANSWER_NS);
	} else {
		asking->bytes *= 2;
	}
	if (asking->bytes > device->id.memory ||
	    !shortage_claim(device, asking->bytes, true, &asking->until)) {
		const struct refused refused = {REFUSED_BY_DRIVER, 0, 0, REFUSED_NO_LIMIT};

		refusal_note(device, REFUSED_OVERHEAD, &refused);
		return false;
	}
	asking->device = device;
	return true;
}

bool others_gave(CUresult result, const CUdevice *device, struct asking *asking)
{
	KEEP_ERRNO;
	const struct context *context;

	if (!job_is_active())
		return false;
	if (device)
		return gave_after(result, device_set_by_handle(job_devices(), *device), asking);
	context = context_here();
	return gave_after(result, context ? context->device : NULL, asking);
}

struct measuring begin_measuring(bool seldom)
{
	KEEP_ERRNO;
	struct measuring measuring;

	measuring.device = NULL;
	if (job_is_active())
		measured_begin(&measuring, seldom);
	return measuring;
}

void end_measuring(const struct measuring *measuring, uint64_t owner, uint64_t most)
{
	KEEP_ERRNO;

	if (measuring->device)
		measured_end(measuring, (const void *)(uintptr_t)owner, most);
}

struct leaving begin_forgetting(uint64_t owner)
{
	KEEP_ERRNO;
	struct leaving leaving = {0};

	if (job_is_active())
		leaving = measured_leave((const void *)(uintptr_t)owner);
	return leaving;
}

void end_forgetting(struct leaving *leaving, CUresult result)
{
	KEEP_ERRNO;

	measured_left(leaving, result == CUDA_SUCCESS);
}
