/* SPDX-License-Identifier: MIT */
/*
 * Step container: a container for one step of the program; resources that are made within the step
 * go with its end.
 *
 * It exists in the registry only once a resource was put in, so an empty step costs nothing. A
 * resource that comes after the end is refused. Thread-safe, except for the beginning.
 */
#ifndef SPILLWAY_STEP_CONTAINER_H
#define SPILLWAY_STEP_CONTAINER_H

#include "core/registry/registry.h"

struct step_container {
	struct registry *registry;
	uint64_t number;
	_Atomic unsigned int state;
};

/* Begins a new step, in a struct that is no longer in use. Allocates nothing. */
static inline void step_container_begin(struct step_container *step, struct registry *registry,
                                        uint64_t number)
{
	step->registry = registry;
	step->number = number;
	atomic_store(&step->state, 0);
}
/* As registry_lookup_or_create() in the step's container. Returns NULL when the step has ended. */
struct resource *step_container_lookup_or_create(struct step_container *step,
                                                 const struct resource_type *type, const char *name,
                                                 struct resource *(*create)(void *cookie),
                                                 void *cookie);
/* Cleans up; once. Returns the number of resources dropped. */
size_t step_container_end(struct step_container *step);

#endif
