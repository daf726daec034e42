/* SPDX-License-Identifier: MIT */
/* Objects. Rules: runs inside the user's process; never calls the driver. */
#include "core/registry/object.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/registry/registry_private.h"

struct object {
	struct resource resource;
	struct registry *registry;
	uint64_t address;

	/* Under owned_lock; no reference is held either way. */
	struct object *owner;
	struct object *owned; /* the first; they are chained by next */
	struct object *next, **link;

	unsigned int flags;
	bool was_linked; /* to an owner or as one; set by a holder of a reference */
};
static_assert(sizeof(struct object) <= 88, "the most are events: 96 bytes of the heap");

struct weighed {
	struct object object;
	struct object_weight weight;   /* under owned_lock */
	struct resource *_Atomic kept; /* set once; its reference is the object's */
};
static_assert(sizeof(struct weighed) <= 136, "144 bytes of the heap");

struct chained {
	struct weighed weighed;
	struct resource_chain chain;
};

/* One for all: owner and owned may be of different devices. Nothing is locked under it. */
static LOCK_OF(LEAF) owned_lock = LOCK_FREE;

static struct object *object_of(struct resource *resource)
{
	return (struct object *)resource;
}

/* Returns the object's weight; NULL: it is of a type that weighs nothing. */
static struct object_weight *object_weight_of(struct object *o)
{
	return o->resource.type->memory_used ? &((struct weighed *)o)->weight : NULL;
}

/* Unlinks an object from its owner; with the lock held. */
static void unlink_from_owner(struct object *o)
{
	if (!o->owner)
		return;
	*o->link = o->next;
	if (o->next)
		o->next->link = o->link;
	o->owner = NULL;
}

static void link_to_owner(struct object *o, struct object *owner)
{
	o->was_linked = owner->was_linked = true;
	o->owner = owner;
	o->next = owner->owned;
	o->link = &owner->owned;
	if (o->next)
		o->next->link = &o->next;
	owner->owned = o;
}

/*
 * Takes the first object that the owner has, with a reference; it is owned no more. Returns NULL
 * when there is none.
 */
static struct object *object_part(struct object *owner)
{
	struct object *o;

	lock_acquire(&owned_lock);
	do {
		o = owner->owned;
		if (o)
			unlink_from_owner(o);
		/* Else it is being destroyed now, and waits for the lock. */
	} while (o && !resource_hold_if_alive(&o->resource));
	lock_release(&owned_lock);
	return o;
}

static void unlink_if_owned(struct object *o)
{
	lock_acquire(&owned_lock);
	unlink_from_owner(o);
	lock_release(&owned_lock);
}

/* Takes the object out of the registry, if that still has this very one. */
static void object_leave(struct resource *object)
{
	struct object *o = object_of(object);

	registry_delete_resource(o->registry, o->address, object);
}

/* Destroys an object. The last reference is gone: no thread can give it something any more. */
static void object_destroy(struct resource *resource)
{
	struct object *o = object_of(resource), *going;

	if (o->was_linked) {
		unlink_if_owned(o);
		while ((going = object_part(o))) {
			object_leave(&going->resource);
			resource_release(&going->resource);
		}
	}
	if (object_weight_of(o))
		resource_release(atomic_load(&((struct weighed *)o)->kept));
	free(o);
}

static uint64_t object_memory_used(const struct resource *resource)
{
	return object_weight((struct resource *)resource).bytes;
}

#define X(type_name)                                                              \
	const struct resource_type object_type_##type_name = {.name = #type_name, \
	                                                      .destroy = object_destroy};
OBJECT_TYPES_LIGHT(X)
#undef X
#define X(type_name)                                           \
	const struct resource_type object_type_##type_name = { \
	    .name = #type_name, .destroy = object_destroy, .leaves_unmarked = true};
OBJECT_TYPES_EVENT(X)
#undef X
#define X(type_name)                                           \
	const struct resource_type object_type_##type_name = { \
	    .name = #type_name, .memory_used = object_memory_used, .destroy = object_destroy};
OBJECT_TYPES_WEIGHED(X)
#undef X
#define X(type_name)                                                                               \
	const struct resource_type object_type_##type_name = {.name = #type_name,                  \
	                                                      .memory_used = object_memory_used,   \
	                                                      .destroy = object_destroy,           \
	                                                      .chain =                             \
	                                                          offsetof(struct chained, chain), \
	                                                      .leaves_unmarked = true};
OBJECT_TYPES_CHAINED(X)
#undef X

/* Gives an object to an owner, if it has none. */
static void object_give(struct resource *object, struct resource *owner)
{
	struct object *o = object_of(object);

	lock_acquire(&owned_lock);
	if (!o->owner)
		link_to_owner(o, object_of(owner));
	lock_release(&owned_lock);
}

static uint64_t object_add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct object_weight object_owned_weight(struct resource *owner, const struct resource_type *type)
{
	struct object_weight sum = {0};

	lock_acquire(&owned_lock);
	for (struct object *o = object_of(owner)->owned; o; o = o->next) {
		const struct object_weight *weight = object_weight_of(o);

		if (o->resource.type != type || !weight)
			continue;
		sum.bytes = object_add(sum.bytes, weight->bytes);
		sum.threads = object_add(sum.threads, weight->threads);
		sum.kernels += weight->kernels;
	}
	lock_release(&owned_lock);
	return sum;
}

uint64_t object_owner(struct resource *object)
{
	const struct object *owner;
	uint64_t address;

	lock_acquire(&owned_lock);
	owner = object_of(object)->owner;
	address = owner ? owner->address : 0;
	lock_release(&owned_lock);
	return address;
}

static bool is_owned_by(struct resource *object, const struct object_owner *wanted)
{
	const struct object *owner;
	bool is_owned;

	lock_acquire(&owned_lock);
	owner = object_of(object)->owner;
	is_owned = owner && owner->address == wanted->address &&
	           owner->resource.type == wanted->type && !resource_is_leaving(&owner->resource);
	lock_release(&owned_lock);
	return is_owned && !resource_is_leaving(object);
}

bool object_belongs_to(struct registry *registry, const char *container_name,
                       const struct resource_type *type, uint64_t object,
                       const struct object_owner *owner)
{
	const struct resource_name key = name_from_address(object);
	bool belongs;

	lock_acquire(&registry->lock);
	const struct container *container = registry_find_container(registry, container_name);
	struct resource *found = container ? container_find(container, type, &key) : NULL;
	belongs = found && is_owned_by(found, owner);
	lock_release(&registry->lock);
	return belongs;
}

struct object_weight object_weight(struct resource *object)
{
	const struct object_weight *has = object_weight_of(object_of(object));
	struct object_weight weight = {0};

	lock_acquire(&owned_lock);
	if (has)
		weight = *has;
	lock_release(&owned_lock);
	return weight;
}

unsigned int object_flags(const struct resource *object)
{
	return ((const struct object *)object)->flags;
}

void object_weigh(struct resource *object, const struct object_weight *weight)
{
	struct object_weight *has = object_weight_of(object_of(object));
	unsigned int changes;

	if (!has)
		return;
	lock_acquire(&owned_lock);
	changes = has->changes + 1;
	*has = *weight;
	has->changes = changes;
	lock_release(&owned_lock);
}

void object_use(struct resource *object, int64_t change)
{
	struct object_weight *has = object_weight_of(object_of(object));

	if (!has)
		return;
	lock_acquire(&owned_lock);
	has->uses += change;
	lock_release(&owned_lock);
}

/* Returns the kept resource if it is of this type; else NULL, with a message. */
static struct resource *verified(struct resource *kept, const struct resource_type *type,
                                 const struct object *o)
{
	if (kept->type == type)
		return kept;
	log_error("%s %016" PRIx64 ": keeps one of type %s, expected type %s",
	          o->resource.type->name, o->address, kept->type->name, type->name);
	return NULL;
}

struct resource *object_kept(struct resource *object, const struct resource_type *type,
                             struct resource *(*create)(void *cookie), void *cookie)
{
	struct object *o = object_of(object);
	struct resource *_Atomic *slot = &((struct weighed *)object)->kept;
	struct resource *kept, *made;

	if (!object_weight_of(o))
		return NULL;
	kept = atomic_load_explicit(slot, memory_order_acquire);
	if (!kept) {
		made = create(cookie);
		if (!made || !verified(made, type, o)) {
			resource_release(made);
			return NULL;
		}
		if (atomic_compare_exchange_strong(slot, &kept, made))
			kept = made;
		else /* another thread was quicker */
			resource_release(made);
	}
	return verified(kept, type, o) ? resource_hold(kept) : NULL;
}

static struct object *object_create(struct registry *registry, const struct object_entry *entry)
{
	/* calloc() goes past the thread's cache. */
	struct object *o = malloc(entry->type->chain         ? sizeof(struct chained)
	                          : entry->type->memory_used ? sizeof(struct weighed)
	                                                     : sizeof(*o));

	if (!o)
		return NULL;
	/*
	 * Field by field: a compound literal is cleared by an instruction that takes as long as
	 * all.
	 */
	resource_init(&o->resource, entry->type);
	o->registry = registry;
	o->address = entry->address;
	o->owner = o->owned = o->next = NULL;
	o->link = NULL;
	o->flags = entry->flags;
	o->was_linked = false;
	if (object_weight_of(o)) {
		*object_weight_of(o) = entry->weight;
		atomic_init(&((struct weighed *)o)->kept, NULL);
	}
	return o;
}

int object_enter(struct registry *registry, const char *container, const struct object_entry *entry)
{
	struct object *o;
	int error;

	o = object_create(registry, entry);
	if (!o)
		return -ENOMEM;
	if (entry->owner)
		object_give(&o->resource, entry->owner);
	error = registry_replace_object(registry, container, o->address, &o->resource);
	if (error)
		resource_release(&o->resource);
	return error;
}
