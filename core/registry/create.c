/* SPDX-License-Identifier: MIT */
/*
 * Who may create: one thread for each name, and the others wait for it. create() runs outside the
 * registry's lock.
 */
#include <string.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/registry/registry.h"
#include "core/registry/registry_private.h"

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
		/* create() asking for what it is about to make would wait for itself */
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
