/* SPDX-License-Identifier: MIT */
/* Step containers. Rules: runs inside the user's process; no lock but the registry's. */
#include "core/registry/step_container.h"

#include <inttypes.h>
#include <stdio.h>

enum { IS_USED = 1, HAS_ENDED = 2 };

/* Returns the name that the step's container has in the registry: "step17", written to `name`. */
static const char *step_container_name(const struct step_container *step,
                                       char name[REGISTRY_NAME_MAX])
{
	snprintf(name, REGISTRY_NAME_MAX, "step%" PRIu64, step->number);
	return name;
}

static size_t step_container_clean_up(const struct step_container *step)
{
	char name[REGISTRY_NAME_MAX];

	return registry_cleanup(step->registry, step_container_name(step, name));
}

static bool has_ended(struct step_container *step)
{
	return atomic_load(&step->state) & HAS_ENDED;
}

/*
 * Marks the step as used, before a resource is put in: the thread that ends it later cleans up.
 * Returns false when it has ended before that.
 */
static bool use(struct step_container *step)
{
	return !(atomic_fetch_or(&step->state, IS_USED) & HAS_ENDED);
}

/* Returns whether the step ended while something was put in; cleans up then. */
static bool came_too_late(struct step_container *step)
{
	if (!has_ended(step))
		return false;
	step_container_clean_up(step);
	return true;
}

struct resource *step_container_lookup_or_create(struct step_container *step,
                                                 const struct resource_type *type, const char *name,
                                                 struct resource *(*create)(void *cookie),
                                                 void *cookie)
{
	char own_name[REGISTRY_NAME_MAX];
	struct resource *found;

	if (!use(step))
		return NULL;
	found = registry_lookup_or_create(step->registry, step_container_name(step, own_name), type,
	                                  name, create, cookie);
	if (!came_too_late(step))
		return found;
	resource_release(found);
	return NULL;
}

size_t step_container_end(struct step_container *step)
{
	unsigned int before = atomic_fetch_or(&step->state, HAS_ENDED);

	return before == IS_USED ? step_container_clean_up(step) : 0;
}
