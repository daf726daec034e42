/* SPDX-License-Identifier: MIT */
/* Counted memory. Rules: runs inside the user's process, within its calls. */
#include "core/memory/uses/counted.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/lock.h"
#include "core/budget/exported.h"

/* Guards how often each is entered. Nothing waits under it, and no driver is called. */
static LOCK_OF(COUNTED) again_lock = LOCK_FREE;

struct counted {
	struct resource resource;
	struct device *device;
	_Atomic uint64_t bytes, charged;
	_Atomic unsigned int entered; /* how many times */
	uint64_t imported_as;         /* a key of exported.h; 0: none */
};

static uint64_t counted_memory_used(const struct resource *resource)
{
	return ((const struct counted *)resource)->bytes;
}

static void counted_destroy(struct resource *resource)
{
	struct counted *s = (struct counted *)resource;

	if (resource->type == &counted_type_host_allocation)
		statistics_sub(&s->device->statistics->pinned_used, s->bytes);
	if (s->charged && resource->type == &counted_type_ipc_mapping)
		device_count_elsewhere(s->device, -(int64_t)s->charged);
	if (s->charged && resource->type == &counted_type_measured)
		device_uncharge_driver(s->device, s->charged);
	else if (s->charged)
		device_uncharge(s->device, SEGMENT_ON_DEVICE, s->charged);
	if (s->imported_as)
		imported_leave(s->device, s->imported_as);
	free(s);
}

#define X(type_name)                                            \
	const struct resource_type counted_type_##type_name = { \
	    .name = #type_name, .memory_used = counted_memory_used, .destroy = counted_destroy};
COUNTED_TYPES(X)
#undef X

static struct counted *counted_find(const struct context *context, const struct resource_type *type,
                                    uint64_t object)
{
	return (struct counted *)registry_lookup_object(context->device->registry,
	                                                context->container, type, object);
}

static struct counted *counted_create(const struct context *context,
                                      const struct resource_type *type, uint64_t bytes,
                                      uint64_t charged)
{
	struct counted *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	resource_init(&s->resource, type);
	s->device = context->device;
	s->bytes = bytes;
	s->charged = charged;
	s->entered = 1;
	if (charged && type == &counted_type_ipc_mapping)
		device_count_elsewhere(s->device, (int64_t)charged);
	if (type == &counted_type_host_allocation)
		statistics_add(&s->device->statistics->pinned_used, bytes);
	return s;
}

/* Enters it once more. More may be charged for it each time; the rest is unchanged. */
static void enter_again(struct counted *s, uint64_t charged)
{
	atomic_fetch_add(&s->entered, 1);
	atomic_fetch_add(&s->charged, charged);
	if (s->resource.type == &counted_type_measured)
		atomic_fetch_add(&s->bytes, charged);
}

/*
 * Returns whether one of this type may be there again, opened or grown. Any other under the same
 * name is a new one: the old one has gone without our seeing it.
 */
static bool may_be_again(const struct resource_type *type)
{
	return type == &counted_type_ipc_mapping || type == &counted_type_imported_memory ||
	       type == &counted_type_measured;
}

/*
 * Enters it again if it is there, with the lock held, and returns whether it was. A measurement
 * that is leaving was another object's.
 */
static bool was_entered_again_locked(const struct resource_type *type,
                                     const struct context *context, uint64_t object,
                                     uint64_t charged)
{
	struct counted *s = counted_find(context, type, object);
	bool again = s && (type != &counted_type_measured || !resource_is_leaving(&s->resource));

	if (again)
		enter_again(s, charged);
	if (s)
		resource_release(&s->resource);
	return again;
}

static bool was_entered_again(const struct resource_type *type, const struct context *context,
                              uint64_t object, uint64_t charged)
{
	bool again;

	lock_acquire(&again_lock);
	again = was_entered_again_locked(type, context, object, charged);
	lock_release(&again_lock);
	return again;
}

static void counted_give_back(const struct context *context, const struct resource_type *type,
                              const struct counted_import *import)
{
	if (import->charged && type == &counted_type_measured)
		device_uncharge_driver(context->device, import->charged);
	else if (import->charged)
		device_uncharge(context->device, SEGMENT_ON_DEVICE, import->charged);
	if (import->imported_as)
		imported_leave(context->device, import->imported_as);
}

static void counted_enter_new(const struct resource_type *type, const struct context *context,
                              uint64_t object, const struct counted_import *import)
{
	struct counted *s = counted_create(context, type, import->bytes, import->charged);

	if (s)
		s->imported_as = import->imported_as;
	if (!s) {
		counted_give_back(context, type, import);
	} else if (registry_replace_object(context->device->registry, context->container, object,
	                                   &s->resource) != 0) {
		resource_release(&s->resource);
	}
}

void counted_enter(const struct resource_type *type, const struct context *context, uint64_t object,
                   uint64_t bytes, uint64_t charged)
{
	struct context current;

	if (!context && !context_current(&current))
		return; /* nothing is charged without a context */
	if (!context)
		context = &current;
	if (!may_be_again(type) || !was_entered_again(type, context, object, charged))
		counted_enter_new(type, context, object,
		                  &(struct counted_import){bytes, charged, 0});
}

void counted_enter_import(const struct context *context, uint64_t object,
                          const struct counted_import *import)
{
	bool again;

	/*
	 * Two threads may have opened it at once: it is one mapping, and the other thread has
	 * entered it.
	 */
	lock_acquire(&again_lock);
	again = was_entered_again_locked(&counted_type_ipc_mapping, context, object, 0);
	if (!again)
		counted_enter_new(&counted_type_ipc_mapping, context, object, import);
	lock_release(&again_lock);
	if (again)
		counted_give_back(context, &counted_type_ipc_mapping, import);
}

bool counted_is_open_again(const struct context *context, uint64_t object)
{
	return was_entered_again(&counted_type_ipc_mapping, context, object, 0);
}

/*
 * Counts it once less, and returns whether that was the last. Only the driver can tell opening
 * again and closing apart: in any order, the remaining ones are counted.
 */
static bool is_last(struct counted *s)
{
	return atomic_fetch_sub(&s->entered, 1) <= 1;
}

void counted_left(struct leaving *leaving, bool gone)
{
	struct counted *s = (struct counted *)leaving->resource;

	if (!s)
		return;
	lock_acquire(&again_lock);
	registry_left(leaving, gone && is_last(s));
	lock_release(&again_lock);
	resource_release(&s->resource);
	leaving->resource = NULL;
}
