/* SPDX-License-Identifier: MIT */
/* A resource for tests, and how many of them are alive. Included once by a test program. */
#ifndef SPILLWAY_TEST_THING_H
#define SPILLWAY_TEST_THING_H

#include <check.h>
#include <stdlib.h>

#include "core/registry/registry.h"

static _Atomic int alive, destroyed_twice;

enum { THING_LIVES = 0x11fe };

struct thing {
	struct resource resource;
	int value;
	_Atomic int life;
};

static inline uint64_t thing_memory(const struct resource *resource)
{
	return (uint64_t)((const struct thing *)resource)->value;
}

static inline void thing_destroy(struct resource *resource)
{
	struct thing *thing = (struct thing *)resource;

	if (atomic_exchange(&thing->life, 0) != THING_LIVES)
		atomic_fetch_add(&destroyed_twice, 1);
	atomic_fetch_sub(&alive, 1);
	free(resource);
}

static const struct resource_type type[] = {
    {.name = "thing", .memory_used = thing_memory, .destroy = thing_destroy},
    {.name = "other", .destroy = thing_destroy},
    {.name = "third", .destroy = thing_destroy},
};

static inline struct resource *thing_new(const struct resource_type *of, int value)
{
	struct thing *thing = malloc(sizeof *thing);

	thing->value = value;
	atomic_init(&thing->life, THING_LIVES);
	resource_init(&thing->resource, of);
	atomic_fetch_add(&alive, 1);
	return &thing->resource;
}

static inline int value_of(const struct resource *resource)
{
	return ((const struct thing *)resource)->value;
}

static struct registry *registry;

static inline void setup(void)
{
	alive = 0;
	registry = registry_create("job", 4711, 0);
	ck_assert_ptr_nonnull(registry);
}

static inline void teardown(void)
{
	registry_destroy(registry);
	ck_assert_int_eq(alive, 0);
	ck_assert_int_eq(destroyed_twice, 0);
}

#endif
