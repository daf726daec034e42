/*
 * The registry: containers under one lock, and who may create.
 *
 * Runs inside the user's process: foreign code (destroy, create, each) runs outside the lock,
 * running out of memory is an answer, nothing here reaches the driver.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/registry/registry_private.h"

struct registry *registry_create(const char *job, int process, int gpu)
{
	struct registry *registry = calloc(1, sizeof *registry);
	if (!registry)
		return NULL;
	snprintf(registry->job, sizeof registry->job, "%s", job ? job : "");
	registry->process = process;
	registry->gpu = gpu;
	lock_init(&registry->lock);
	condition_init(&registry->created);
	return registry;
}

void registry_destroy(struct registry *registry)
{
	if (!registry)
		return;
	registry_clear(registry);
	for (struct known_type *next, *known = registry->types; known; known = next) {
		next = known->next;
		free(known);
	}
	address_table_free(&registry->addresses);
	pthread_cond_destroy(&registry->created);
	lock_destroy(&registry->lock);
	free(registry);
}

const char *registry_container_name(const char *container)
{
	if (!container || !*container)
		return "default";
	return name_is_valid(container) ? container : NULL;
}

/* --- under the lock --- */

static struct container *find_container(struct registry *registry, const char *name)
{
	struct container *found = registry->found_last;

	if (found && name && strcmp(found->name, name) == 0)
		return found;
	found = NULL;
	name = registry_container_name(name);
	if (name)
		HASH_FIND_STR(registry->containers, name, found);
	if (found)
		registry->found_last = found;
	return found;
}

const struct container *registry_find_container(struct registry *registry, const char *name)
{
	return find_container(registry, name);
}

/* 0, -EINVAL (there can be none of this name) or -ENOMEM. */
static int make_container(struct registry *registry, const char *name, struct container **made)
{
	struct container *container = find_container(registry, name);
	*made = container;
	if (container)
		return 0;
	name = registry_container_name(name);
	if (!name)
		return -EINVAL;
	container = container_new(name, &registry->addresses);
	if (!container)
		return -ENOMEM;
	HASH_ADD_STR(registry->containers, name, container);
	if (!container->hh.tbl) {
		container_free(container);
		return -ENOMEM;
	}
	*made = container;
	return 0;
}

/* Calls come in runs of one type: it is moved to the front. */
static struct known_type *find_known(struct registry *registry, const struct resource_type *type)
{
	struct known_type **link = &registry->types, *known;
	while (*link && (*link)->type != type)
		link = &(*link)->next;
	known = *link;
	if (known && known != registry->types) {
		*link = known->next;
		known->next = registry->types;
		registry->types = known;
	}
	return known;
}

const struct resource_type *registry_find_type(const struct registry *registry, uint64_t hash)
{
	const struct known_type *known = registry->types;
	while (known && known->hash != hash)
		known = known->next;
	return known ? known->type : NULL;
}

/* 0, -EINVAL (its name cannot be used, or means another type already) or -ENOMEM. */
static int know_type(struct registry *registry, const struct resource_type *type,
                     struct known_type **known)
{
	*known = find_known(registry, type);
	if (*known)
		return 0;
	uint64_t hash = registry_type_hash(type->name);
	if (!name_is_valid(type->name) || registry_find_type(registry, hash)) {
		log_once(LOG_ERROR, "resource type \"%s\": expected a name of its own", type->name);
		return -EINVAL;
	}
	struct known_type *added = calloc(1, sizeof *added);
	if (!added)
		return -ENOMEM;
	*added = (struct known_type){.type = type, .hash = hash, .next = registry->types};
	registry->types = *known = added;
	return 0;
}

static int add(struct registry *registry, const char *container_name, struct resource_name name,
               struct resource *resource)
{
	struct known_type *known;
	struct container *container;
	int error = make_container(registry, container_name, &container);
	if (!error)
		error = know_type(registry, resource->type, &known);
	if (!error)
		error = container_insert(container, name, resource);
	if (!error)
		known->count++;
	return error;
}

/* With a reference for the caller. */
static struct resource *find(struct registry *registry, const char *container_name,
                             const struct resource_type *type, struct resource_name name)
{
	const struct container *container = find_container(registry, container_name);
	struct resource *found = container ? container_find(container, type, name) : NULL;
	return found ? resource_hold(found) : NULL;
}

/* What was there is handed out, to be released without the lock. */
static int replace(struct registry *registry, const char *container_name, struct resource_name name,
                   struct resource *resource, struct resource **before)
{
	int error = add(registry, container_name, name, resource);
	if (error != -EEXIST)
		return error;
	struct container *container = find_container(registry, container_name);
	*before = container_remove(container, resource->type, name);
	error = container_insert(container, name, resource);
	if (error)
		find_known(registry, resource->type)->count--;
	return error;
}

static struct creation *find_creation(const struct registry *registry, const struct creation *like)
{
	struct creation *creation = registry->creations;
	while (creation &&
	       (creation->type != like->type || strcmp(creation->name, like->name) != 0 ||
	        strcmp(creation->container, like->container) != 0))
		creation = creation->next;
	return creation;
}

static void end_creation(struct registry *registry, const struct creation *ended)
{
	struct creation **link = &registry->creations;
	while (*link != ended)
		link = &(*link)->next;
	*link = ended->next;
	pthread_cond_broadcast(&registry->created);
}

/* --- takes the lock; by either kind of name --- */

static int locked_add(struct registry *registry, const char *container, struct resource_name name,
                      struct resource *resource)
{
	lock_acquire(&registry->lock);
	int error = add(registry, container, name, resource);
	lock_release(&registry->lock);
	return error;
}

static struct resource *locked_find(struct registry *registry, const char *container,
                                    const struct resource_type *type, struct resource_name name)
{
	lock_acquire(&registry->lock);
	struct resource *found = find(registry, container, type, name);
	lock_release(&registry->lock);
	return found;
}

static int locked_delete(struct registry *registry, const char *container_name,
                         const struct resource_type *type, struct resource_name name)
{
	struct resource *removed = NULL;

	lock_acquire(&registry->lock);
	struct container *container = find_container(registry, container_name);
	if (container)
		removed = container_remove(container, type, name);
	if (removed)
		find_known(registry, type)->count--;
	lock_release(&registry->lock);
	resource_release(removed);
	return removed ? 0 : -ENOENT;
}

int registry_add(struct registry *registry, const char *container, const char *name,
                 struct resource *resource)
{
	if (!name || !name_is_valid(name))
		return -EINVAL;
	return locked_add(registry, container, name_from_text(name), resource);
}

struct resource *registry_lookup(struct registry *registry, const char *container,
                                 const struct resource_type *type, const char *name)
{
	return locked_find(registry, container, type, name_from_text(name));
}

int registry_delete(struct registry *registry, const char *container,
                    const struct resource_type *type, const char *name)
{
	return locked_delete(registry, container, type, name_from_text(name));
}

int registry_add_object(struct registry *registry, const char *container, uint64_t object,
                        struct resource *resource)
{
	return locked_add(registry, container, name_from_address(object), resource);
}

struct resource *registry_lookup_object(struct registry *registry, const char *container,
                                        const struct resource_type *type, uint64_t object)
{
	return locked_find(registry, container, type, name_from_address(object));
}

int registry_delete_object(struct registry *registry, const char *container,
                           const struct resource_type *type, uint64_t object)
{
	return locked_delete(registry, container, type, name_from_address(object));
}

/* With the lock held; n at most LOOKUP_BATCH. */
static size_t find_batch(struct registry *registry, const char *container_name,
                         const struct resource_type *type, const struct resource_name *names,
                         size_t n, struct resource **found)
{
	const struct container *container = find_container(registry, container_name);
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (names[i].is_address)
			address_table_expect(&registry->addresses, names[i].address);
	for (size_t i = 0; i < n; i++)
		if (names[i].is_address)
			address_table_expect_resource(&registry->addresses, names[i].address);
	for (size_t i = 0; i < n; i++) {
		found[i] = container ? container_find(container, type, names[i]) : NULL;
		if (found[i])
			resource_hold(found[i]);
		count += found[i] != NULL;
	}
	return count;
}

static size_t locked_find_batch(struct registry *registry, const char *container,
                                const struct resource_type *type, const struct resource_name *names,
                                size_t n, struct resource **found)
{
	lock_acquire(&registry->lock);
	size_t count = find_batch(registry, container, type, names, n, found);
	lock_release(&registry->lock);
	return count;
}

static size_t batch_of(size_t left)
{
	return left < LOOKUP_BATCH ? left : LOOKUP_BATCH;
}

size_t registry_lookup_many(struct registry *registry, const char *container,
                            const struct resource_type *type, const char *const *names, size_t n,
                            struct resource **found)
{
	struct resource_name batch[LOOKUP_BATCH];
	size_t count = 0;

	for (size_t done = 0; done < n; done += LOOKUP_BATCH) {
		size_t size = batch_of(n - done);
		for (size_t i = 0; i < size; i++)
			batch[i] = name_from_text(names[done + i]);
		count += locked_find_batch(registry, container, type, batch, size, found + done);
	}
	return count;
}

size_t registry_lookup_objects(struct registry *registry, const char *container,
                               const struct resource_type *type, const uint64_t *objects, size_t n,
                               struct resource **found)
{
	struct resource_name batch[LOOKUP_BATCH];
	size_t count = 0;

	for (size_t done = 0; done < n; done += LOOKUP_BATCH) {
		size_t size = batch_of(n - done);
		for (size_t i = 0; i < size; i++)
			batch[i] = name_from_address(objects[done + i]);
		count += locked_find_batch(registry, container, type, batch, size, found + done);
	}
	return count;
}

int registry_replace_object(struct registry *registry, const char *container, uint64_t object,
                            struct resource *resource)
{
	struct resource *before = NULL;

	lock_acquire(&registry->lock);
	int error = replace(registry, container, name_from_address(object), resource, &before);
	lock_release(&registry->lock);
	resource_release(before);
	return error;
}

/* Under the lock. */
static struct address_entry *find_any(struct registry *registry, const char *preferred,
                                      const struct resource_type *type, uint64_t object)
{
	const struct container *container = preferred ? find_container(registry, preferred) : NULL;

	return address_table_find_any(&registry->addresses, container, type, object);
}

struct resource *registry_find_object(struct registry *registry, const char *preferred,
                                      const struct resource_type *type, uint64_t object)
{
	struct resource *found = NULL;

	lock_acquire(&registry->lock);
	const struct address_entry *entry = find_any(registry, preferred, type, object);
	if (entry)
		found = resource_hold(entry->resource);
	lock_release(&registry->lock);
	return found;
}

/* Under the lock: out of the books, into the caller's hands. */
static struct resource *take(struct registry *registry, struct address_entry *entry)
{
	find_known(registry, entry->resource->type)->count--;
	return container_remove_entry(entry->container, entry);
}

struct resource *registry_take_object(struct registry *registry, const char *preferred,
                                      const struct resource_type *type, uint64_t object,
                                      char container[REGISTRY_NAME_MAX])
{
	struct resource *taken = NULL;

	lock_acquire(&registry->lock);
	struct address_entry *entry = find_any(registry, preferred, type, object);
	if (entry) {
		strcpy(container, entry->container->name);
		taken = take(registry, entry);
	}
	lock_release(&registry->lock);
	return taken;
}

static int delete_resource(struct registry *registry, uint64_t object, size_t place,
                           struct resource *resource)
{
	lock_acquire(&registry->lock);
	struct address_entry *entry =
	    address_table_find_resource(&registry->addresses, object, place, resource);
	if (entry)
		take(registry, entry);
	lock_release(&registry->lock);
	if (entry)
		resource_release(resource);
	return entry ? 0 : -ENOENT;
}

int registry_delete_resource(struct registry *registry, uint64_t object, struct resource *resource)
{
	return delete_resource(registry, object, SIZE_MAX, resource);
}

struct leaving registry_leave_object(struct registry *registry, const char *preferred,
                                     const struct resource_type *type, uint64_t object)
{
	struct leaving leaving = {.registry = registry, .object = object};

	lock_acquire(&registry->lock);
	const struct address_entry *entry = find_any(registry, preferred, type, object);
	if (entry && !resource_is_leaving(entry->resource)) {
		leaving.resource = resource_hold(entry->resource);
		leaving.place = (size_t)(entry - registry->addresses.entry);
		atomic_fetch_add_explicit(&leaving.resource->leaving, 1, memory_order_relaxed);
	}
	lock_release(&registry->lock);
	return leaving;
}

struct leaving registry_leave(struct registry *registry, uint64_t object, struct resource *found)
{
	struct leaving leaving = {registry, found, object, SIZE_MAX};

	if (found)
		atomic_fetch_add_explicit(&found->leaving, 1, memory_order_relaxed);
	return leaving;
}

bool registry_left(const struct leaving *leaving, bool gone)
{
	if (!leaving->resource)
		return false;
	/* Of one that is gone nobody asks; whoever has a reference still sees that it went. */
	if (gone)
		return delete_resource(leaving->registry, leaving->object, leaving->place,
		                       leaving->resource) == 0;
	atomic_fetch_sub_explicit(&leaving->resource->leaving, 1, memory_order_relaxed);
	return false;
}

struct resource *registry_lookup_or_create(struct registry *registry, const char *container,
                                           const struct resource_type *type, const char *name,
                                           struct resource *(*create)(void *cookie), void *cookie)
{
	struct creation mine = {.container = registry_container_name(container),
	                        .type = type,
	                        .name = name,
	                        .thread = pthread_self()};
	struct resource_name key = name_from_text(name);
	struct resource *found, *made, *unwanted = NULL;
	const struct creation *other;

	if (!mine.container || !name_is_valid(name))
		return NULL;
	lock_acquire(&registry->lock);
	while (!(found = find(registry, container, type, key)) &&
	       (other = find_creation(registry, &mine))) {
		/* create() asking for what it is about to make would wait for itself */
		if (pthread_equal(other->thread, mine.thread)) {
			lock_release(&registry->lock);
			return NULL;
		}
		condition_wait(&registry->created, &registry->lock);
	}
	if (found) {
		lock_release(&registry->lock);
		return found;
	}
	mine.next = registry->creations;
	/* cppcheck-suppress autoVariables; taken out again before this returns */
	registry->creations = &mine;
	lock_release(&registry->lock);

	made = create(cookie);

	lock_acquire(&registry->lock);
	/* someone may have added one of this name meanwhile: theirs stays */
	found = find(registry, container, type, key);
	if (found || (made && (made->type != type || add(registry, container, key, made) != 0)))
		unwanted = made;
	else if (made)
		found = resource_hold(made);
	end_creation(registry, &mine);
	lock_release(&registry->lock);
	if (unwanted && unwanted->type != type)
		log_error("resource \"%s\": one of type %s was made, expected type %s", name,
		          unwanted->type->name, type->name);
	resource_release(unwanted);
	return found;
}

size_t registry_cleanup(struct registry *registry, const char *container_name)
{
	struct resource *taken = NULL;
	size_t count = 0;

	lock_acquire(&registry->lock);
	struct container *container = find_container(registry, container_name);
	if (container) {
		HASH_DEL(registry->containers, container);
		registry->found_last = NULL;
		taken = container_take_all(container);
		container_free(container);
	}
	for (const struct resource *r = taken; r; r = r->next_taken)
		find_known(registry, r->type)->count--;
	lock_release(&registry->lock);

	for (struct resource *next; taken; taken = next, count++) {
		next = taken->next_taken;
		resource_release(taken);
	}
	return count;
}

size_t registry_clear(struct registry *registry)
{
	char name[REGISTRY_NAME_MAX];
	size_t count = 0;

	for (;;) {
		lock_acquire(&registry->lock);
		bool empty = !registry->containers;
		if (!empty)
			strcpy(name, registry->containers->name);
		lock_release(&registry->lock);
		if (empty)
			return count;
		count += registry_cleanup(registry, name);
	}
}
