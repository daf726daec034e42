/* SPDX-License-Identifier: MIT */
/*
 * The registry: containers under one lock, and the right to create.
 *
 * Runs inside the user's process: foreign code (destroy, create, each) runs outside the lock,
 * running out of memory is an answer, nothing here reaches the driver.
 */
#include "core/registry/registry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/base/printable.h"
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
	lock_destroy(&registry->lock);
	free(registry);
}

bool name_is_valid(const char *text)
{
	size_t length = strnlen(text, REGISTRY_NAME_MAX);
	if (length == 0 || length == REGISTRY_NAME_MAX)
		return false;
	return !strchr(text, '/') && is_printable(text, REGISTRY_NAME_MAX);
}

const char *registry_container_name(const char *container)
{
	if (!container || !*container)
		return "default";
	return name_is_valid(container) ? container : NULL;
}

/* --- under the lock --- */

/* Returns whether two names are the same. They are short, and mostly the same. */
static bool is_same_name(const char *name, const char *other)
{
	while (*name && *name == *other) {
		name++;
		other++;
	}
	return *name == *other;
}

struct container *registry_find_container(struct registry *registry, const char *name)
{
	struct container *found = registry->found_last;

	if (found && name && is_same_name(found->name, name))
		return found;
	found = NULL;
	name = registry_container_name(name);
	if (name)
		HASH_FIND_STR(registry->containers, name, found);
	if (found)
		registry->found_last = found;
	return found;
}

/* Makes a container. Returns 0, -EINVAL (there can be none of this name) or -ENOMEM. */
static int make_container(struct registry *registry, const char *name, struct container **made)
{
	struct container *container = registry_find_container(registry, name);
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
		free(container);
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

/*
 * Enters a type. Returns 0, -EINVAL (its name cannot be used, or means another type already) or
 * -ENOMEM.
 */
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
	*added = (struct known_type){
	    .type = type, .hash = hash, .count = &added->own_count, .next = registry->types};
	registry->types = *known = added;
	return 0;
}

int registry_count_in(struct registry *registry, const struct resource_type *type,
                      _Atomic uint64_t *word)
{
	struct known_type *known;

	lock_acquire(&registry->lock);
	int error = know_type(registry, type, &known);
	if (!error) {
		atomic_store(word, atomic_load(known->count));
		known->count = word;
	}
	lock_release(&registry->lock);
	return error;
}

/*
 * Adds, or finds, by either kind of name; under the lock. A found one has a reference for the
 * caller.
 */
static int registry_add_named(struct registry *registry, const char *container_name,
                              const struct resource_name *name, struct resource *resource)
{
	struct known_type *known;
	struct container *container;
	int error = make_container(registry, container_name, &container);
	if (!error)
		error = know_type(registry, resource->type, &known);
	if (!error)
		error = container_insert(container, name, resource);
	if (!error)
		known_type_count(known, 1);
	return error;
}

static struct resource *registry_find_named(struct registry *registry, const char *container_name,
                                            const struct resource_type *type,
                                            const struct resource_name *name)
{
	const struct container *container = registry_find_container(registry, container_name);
	struct resource *found = container ? container_find(container, type, name) : NULL;
	return found ? resource_hold(found) : NULL;
}

/* Replaces a resource. The old one is handed out, to be released without the lock. */
static int registry_replace(struct registry *registry, const char *container_name,
                            const struct resource_name *name, struct resource *resource,
                            struct resource **before)
{
	int error = registry_add_named(registry, container_name, name, resource);
	if (error != -EEXIST)
		return error;
	struct container *container = registry_find_container(registry, container_name);
	*before = container_remove(container, resource->type, name);
	error = container_insert(container, name, resource);
	if (error)
		known_type_count(find_known(registry, resource->type), (uint64_t)-1);
	return error;
}

/* --- takes the lock; by either kind of name --- */

static int locked_add(struct registry *registry, const char *container,
                      const struct resource_name *name, struct resource *resource)
{
	lock_acquire(&registry->lock);
	int error = registry_add_named(registry, container, name, resource);
	lock_release(&registry->lock);
	return error;
}

static struct resource *locked_find(struct registry *registry, const char *container,
                                    const struct resource_type *type,
                                    const struct resource_name *name)
{
	lock_acquire(&registry->lock);
	struct resource *found = registry_find_named(registry, container, type, name);
	lock_release(&registry->lock);
	return found;
}

static int locked_delete(struct registry *registry, const char *container_name,
                         const struct resource_type *type, const struct resource_name *name)
{
	struct resource *removed = NULL;

	lock_acquire(&registry->lock);
	struct container *container = registry_find_container(registry, container_name);
	if (container)
		removed = container_remove(container, type, name);
	if (removed)
		known_type_count(find_known(registry, type), (uint64_t)-1);
	lock_release(&registry->lock);
	resource_release(removed);
	return removed ? 0 : -ENOENT;
}

int registry_add(struct registry *registry, const char *container, const char *name,
                 struct resource *resource)
{
	if (!name || !name_is_valid(name))
		return -EINVAL;
	const struct resource_name key = name_from_text(name);
	return locked_add(registry, container, &key, resource);
}

struct resource *registry_lookup(struct registry *registry, const char *container,
                                 const struct resource_type *type, const char *name)
{
	const struct resource_name key = name_from_text(name);

	return locked_find(registry, container, type, &key);
}

int registry_delete(struct registry *registry, const char *container,
                    const struct resource_type *type, const char *name)
{
	const struct resource_name key = name_from_text(name);

	return locked_delete(registry, container, type, &key);
}

int registry_add_object(struct registry *registry, const char *container, uint64_t object,
                        struct resource *resource)
{
	const struct resource_name key = name_from_address(object);

	return locked_add(registry, container, &key, resource);
}

struct resource *registry_lookup_object(struct registry *registry, const char *container,
                                        const struct resource_type *type, uint64_t object)
{
	const struct resource_name key = name_from_address(object);

	return locked_find(registry, container, type, &key);
}

int registry_delete_object(struct registry *registry, const char *container,
                           const struct resource_type *type, uint64_t object)
{
	const struct resource_name key = name_from_address(object);

	return locked_delete(registry, container, type, &key);
}

int registry_replace_object(struct registry *registry, const char *container, uint64_t object,
                            struct resource *resource)
{
	struct resource *before = NULL;
	const struct resource_name key = name_from_address(object);

	lock_acquire(&registry->lock);
	int error = registry_replace(registry, container, &key, resource, &before);
	lock_release(&registry->lock);
	resource_release(before);
	return error;
}

/* Finds the entry that registry_find_object() finds, or NULL; under the lock. */
static struct address_entry *registry_find_any(struct registry *registry, const char *preferred,
                                               const struct resource_type *type, uint64_t object)
{
	const struct container *container =
	    preferred ? registry_find_container(registry, preferred) : NULL;

	return address_table_find_any(&registry->addresses, container, type, object);
}

struct resource *registry_find_object(struct registry *registry, const char *preferred,
                                      const struct resource_type *type, uint64_t object)
{
	struct resource *found = NULL;

	lock_acquire(&registry->lock);
	const struct address_entry *entry = registry_find_any(registry, preferred, type, object);
	if (entry)
		found = resource_hold(entry->resource);
	lock_release(&registry->lock);
	return found;
}

/* Takes an entry out of the books, into the caller's hands; under the lock. */
static struct resource *registry_take(struct registry *registry, struct address_entry *entry)
{
	known_type_count(find_known(registry, entry->resource->type), (uint64_t)-1);
	return container_remove_entry(entry->container, entry);
}

struct resource *registry_take_object(struct registry *registry, const struct resource_type *type,
                                      uint64_t object)
{
	struct resource *taken = NULL;

	lock_acquire(&registry->lock);
	struct address_entry *entry = registry_find_any(registry, NULL, type, object);
	if (entry)
		taken = registry_take(registry, entry);
	lock_release(&registry->lock);
	return taken;
}

int registry_delete_resource(struct registry *registry, uint64_t object, struct resource *resource)
{
	lock_acquire(&registry->lock);
	struct address_entry *entry =
	    address_table_find_resource(&registry->addresses, object, SIZE_MAX, resource);
	if (entry)
		registry_take(registry, entry);
	lock_release(&registry->lock);
	if (entry)
		resource_release(resource);
	return entry ? 0 : -ENOENT;
}

size_t registry_cleanup(struct registry *registry, const char *container_name)
{
	struct resource *taken = NULL;
	size_t count = 0;

	lock_acquire(&registry->lock);
	struct container *container = registry_find_container(registry, container_name);
	if (container) {
		HASH_DEL(registry->containers, container);
		registry->found_last = NULL;
		taken = container_take_all(container);
		free(container);
	}
	for (const struct resource *r = taken; r; r = r->next_taken)
		known_type_count(find_known(registry, r->type), (uint64_t)-1);
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

/*
 * The right to create: one thread has it for each name, and other threads wait for it. create()
 * runs outside the registry's lock.
 */

#define LOOK_AGAIN_NS 1000000000ull

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
}

/* Waits until a creation has ended, or for a while; with the lock held, but meanwhile. */
static void wait_for_creation(struct registry *registry)
{
	uint32_t seen = atomic_load(&registry->created);
	struct deadline until = DEADLINE_IN(LOOK_AGAIN_NS);

	lock_release(&registry->lock);
	deadline_wait(&until, &registry->created, seen);
	lock_acquire(&registry->lock);
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
	while (!(found = registry_find_named(registry, container, type, &key)) &&
	       (other = find_creation(registry, &mine))) {
		/* create() would wait for itself if it asked for the resource that it makes */
		if (pthread_equal(other->thread, mine.thread)) {
			lock_release(&registry->lock);
			return NULL;
		}
		wait_for_creation(registry);
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
	found = registry_find_named(registry, container, type, &key);
	if (found || (made && (made->type != type ||
	                       registry_add_named(registry, container, &key, made) != 0)))
		unwanted = made;
	else if (made)
		found = resource_hold(made);
	end_creation(registry, &mine);
	lock_release(&registry->lock);
	clock_in_use->wake(&registry->created);
	if (unwanted && unwanted->type != type)
		log_error("resource \"%s\": one of type %s was made, expected type %s", name,
		          unwanted->type->name, type->name);
	resource_release(unwanted);
	return found;
}

/* Leaving: objects that the driver is asked to release. */

/*
 * Counts one call more, or fewer, that asks the driver to destroy the resource; under the lock,
 * which every thread that changes the count holds: it is read without.
 */
static void registry_mark(struct resource *resource, uint32_t change)
{
	uint32_t leaving = atomic_load_explicit(&resource->leaving, memory_order_relaxed);

	atomic_store_explicit(&resource->leaving, leaving + change, memory_order_relaxed);
}

struct leaving registry_leave(struct registry *registry, uint64_t object, struct resource *found)
{
	struct leaving leaving = {registry, found, object, 0, SIZE_MAX};

	if (!found)
		return leaving;
	lock_acquire(&registry->lock);
	registry_mark(found, 1);
	leaving.entry = found->entry;
	lock_release(&registry->lock);
	return leaving;
}

bool registry_leave_object(struct registry *registry, const char *preferred,
                           const struct resource_type *type, uint64_t object, bool holds,
                           struct leaving *leaving)
{
	lock_acquire(&registry->lock);
	const struct address_entry *entry = registry_find_any(registry, preferred, type, object);
	struct resource *found = entry ? entry->resource : NULL;
	if (found && resource_is_leaving(found))
		found = NULL;
	leaving->registry = registry;
	leaving->resource = found;
	leaving->object = object;
	if (found) {
		leaving->entry = found->entry;
		leaving->place = (size_t)(entry - registry->addresses.entry);
		registry_mark(found, 1);
		if (holds)
			resource_hold(found);
	}
	lock_release(&registry->lock);
	return found;
}

/*
 * Takes out the resource that left, found by the number of its entry, too. Without a reference
 * another resource may be at its place in memory by now, and it is not touched before it is found.
 */
bool registry_left(const struct leaving *leaving, bool gone)
{
	struct registry *registry = leaving->registry;
	struct resource *taken = NULL;

	if (!leaving->resource)
		return false;
	lock_acquire(&registry->lock);
	struct address_entry *entry = address_table_find_resource(
	    &registry->addresses, leaving->object, leaving->place, leaving->resource);
	if (entry && entry->resource->entry == leaving->entry) {
		if (gone) /* no thread asks any more; holders of a reference still see it go */
			taken = registry_take(registry, entry);
		else
			registry_mark(entry->resource, (uint32_t)-1);
	}
	lock_release(&registry->lock);
	resource_release(taken);
	return taken;
}

uint64_t registry_entries(struct registry *registry)
{
	return atomic_load_explicit(&registry->addresses.entries, memory_order_relaxed);
}

struct resource *registry_take_before(struct registry *registry, const struct resource_type *type,
                                      uint64_t object, uint64_t entries)
{
	struct resource *taken = NULL;

	lock_acquire(&registry->lock);
	struct address_entry *entry =
	    address_table_find_before(&registry->addresses, type, object, entries);
	if (entry)
		taken = registry_take(registry, entry);
	lock_release(&registry->lock);
	return taken;
}
