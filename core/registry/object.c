/* Objects. Rules: runs inside the user's process; never calls the driver. */
#include "core/registry/object.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct object {
	struct resource resource;
	struct registry *registry;
	uint64_t address;
	struct object_weight weight; /* under owned_lock */

	/* Under owned_lock; no reference is held either way. */
	struct object *owner;
	struct object *owned; /* the first; they are chained by next */
	struct object *next, **link;
	struct object *next_going;
	bool was_linked; /* to an owner or as one; set by who holds a reference */
};

/* One for all: owner and owned may be of different devices. Taken after a registry's lock was left. */
static pthread_mutex_t owned_lock = PTHREAD_MUTEX_INITIALIZER;

static struct object *object_of(struct resource *resource)
{
	return (struct object *)resource;
}

/* With the lock held. */
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

/* With the lock held: what it owned, with a reference for each; chained by next_going. */
static struct object *part(struct object *owner)
{
	struct object *o, *going = NULL;

	while ((o = owner->owned)) {
		unlink_from_owner(o);
		/* Else it is being destroyed now, and waits for the lock. */
		if (resource_hold_if_alive(&o->resource)) {
			o->next_going = going;
			going = o;
		}
	}
	return going;
}

/* The last reference is gone: nobody else can give it something any more. */
static void object_destroy(struct resource *resource)
{
	struct object *o = object_of(resource), *next, *going = NULL;

	if (o->was_linked) {
		pthread_mutex_lock(&owned_lock);
		unlink_from_owner(o);
		going = part(o);
		pthread_mutex_unlock(&owned_lock);
	}
	for (; going; going = next) {
		next = going->next_going;
		object_leave(&going->resource);
		resource_release(&going->resource);
	}
	free(o);
}

static uint64_t object_memory_used(const struct resource *resource)
{
	return object_weight((struct resource *)resource).bytes;
}

#define X(type_name)                                           \
	const struct resource_type object_type_##type_name = { \
	    .name = #type_name, .memory_used = object_memory_used, .destroy = object_destroy};
OBJECT_TYPES(X)
#undef X

void object_leave(struct resource *object)
{
	struct object *o = object_of(object);

	registry_delete_resource(o->registry, o->address, object);
}

void object_give(struct resource *object, struct resource *owner)
{
	struct object *o = object_of(object);

	pthread_mutex_lock(&owned_lock);
	if (!o->owner)
		link_to_owner(o, object_of(owner));
	pthread_mutex_unlock(&owned_lock);
}

static uint64_t add(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct object_weight object_owned_weight(struct resource *owner, const struct resource_type *type)
{
	struct object_weight sum = {0};

	pthread_mutex_lock(&owned_lock);
	for (const struct object *o = object_of(owner)->owned; o; o = o->next) {
		if (o->resource.type != type)
			continue;
		sum.bytes = add(sum.bytes, o->weight.bytes);
		sum.threads = add(sum.threads, o->weight.threads);
		sum.kernels += o->weight.kernels;
	}
	pthread_mutex_unlock(&owned_lock);
	return sum;
}

uint64_t object_owner(struct resource *object)
{
	const struct object *owner;
	uint64_t address;

	pthread_mutex_lock(&owned_lock);
	owner = object_of(object)->owner;
	address = owner ? owner->address : 0;
	pthread_mutex_unlock(&owned_lock);
	return address;
}

struct object_weight object_weight(struct resource *object)
{
	struct object_weight weight;

	pthread_mutex_lock(&owned_lock);
	weight = object_of(object)->weight;
	pthread_mutex_unlock(&owned_lock);
	return weight;
}

void object_weigh(struct resource *object, const struct object_weight *weight)
{
	struct object *o = object_of(object);
	unsigned int changes;

	pthread_mutex_lock(&owned_lock);
	changes = o->weight.changes + 1;
	o->weight = *weight;
	o->weight.changes = changes;
	pthread_mutex_unlock(&owned_lock);
}

void object_use(struct resource *object, int64_t change)
{
	pthread_mutex_lock(&owned_lock);
	object_of(object)->weight.uses += change;
	pthread_mutex_unlock(&owned_lock);
}

static bool is_known(struct registry *registry, const char *container,
                     const struct object_entry *entry)
{
	struct resource *known =
	    registry_lookup_object(registry, container, entry->type, entry->address);
	bool is_same = false;

	if (known) {
		pthread_mutex_lock(&owned_lock);
		is_same = object_of(known)->owner == object_of(entry->owner);
		pthread_mutex_unlock(&owned_lock);
		resource_release(known);
	}
	return is_same;
}

int object_enter(struct registry *registry, const char *container, const struct object_entry *entry)
{
	struct object *o;
	int error;

	if (entry->owner && is_known(registry, container, entry))
		return 0;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	resource_init(&o->resource, entry->type);
	o->registry = registry;
	o->address = entry->address;
	o->weight = entry->weight;
	if (entry->owner)
		object_give(&o->resource, entry->owner);
	error = registry_replace_object(registry, container, o->address, &o->resource);
	if (error)
		resource_release(&o->resource);
	return error;
}

int object_track(struct registry *registry, const char *container, const struct resource_type *type,
                 const void *address)
{
	struct object_entry entry = {.type = type, .address = (uintptr_t)address};

	return object_enter(registry, container, &entry);
}
