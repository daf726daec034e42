/* SPDX-License-Identifier: MIT */
/*
 * Resources: counted references to typed objects; the first member of every registered object.
 * Thread-safe.
 */
#ifndef SPILLWAY_RESOURCE_H
#define SPILLWAY_RESOURCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/clock.h"

enum { REGISTRY_NAME_MAX = 32, REGISTRY_HANDLE_MAX = 200 };

struct resource;

/* One per kind of resource, static; `name` is the type's name and must be unique. */
struct resource_type {
	const char *name; /* "allocation", "stream", ... */
	uint64_t (*memory_used)(
	    const struct resource
	        *resource); /* NULL: none; may be called under the registry's lock */
	void (*describe)(const struct resource *resource, char *buf, size_t size); /* NULL: name */
	void (*destroy)(struct resource *resource); /* last reference gone; frees the struct */
	/*
	 * Where a struct resource_chain is in it, so that those of a container can be listed; 0:
	 * nowhere.
	 */
	size_t chain;
	/*
	 * It leaves without a mark (registry_take_before()), because no caller asks whether it
	 * does; of several of one address the newest is found.
	 */
	bool leaves_unmarked;
};

/* First member of every registered object. */
struct resource {
	const struct resource_type *type;
	_Atomic uint32_t references;
	_Atomic uint32_t leaving; /* threads that ask the driver to let it go; under the lock */
	uint64_t born_ns;         /* CLOCK_MONOTONIC, to some milliseconds */
	union {                   /* the registry's */
		uint64_t entry;   /* the number of its entry by address */
		struct resource *next_taken; /* while it lets go of many */
	};
};

/* Links those of a container that are named by address; the registry's. */
struct resource_chain {
	struct resource_chain *next, **link;
	uint64_t object;
};

/*
 * Begins with 1 reference. born_ns: by clock_coarse(), for the exact one costs as much as all else.
 */
static inline void resource_init_at(struct resource *resource, const struct resource_type *type,
                                    uint64_t born_ns)
{
	*resource = (struct resource){.type = type, .references = 1, .born_ns = born_ns};
}
static inline void resource_init(struct resource *resource, const struct resource_type *type)
{
	resource_init_at(resource, type, clock_coarse());
}
struct resource *resource_hold(struct resource *resource);
/*
 * Takes a reference for a caller that knows the resource without one. Returns false when its last
 * one is gone, and destroy() has begun.
 */
bool resource_hold_if_alive(struct resource *resource);
void resource_release(struct resource *resource); /* NULL is fine; last one destroys */

/*
 * Returns whether the driver is asked to let it go now, so that its address may soon stand for
 * another one.
 */
static inline bool resource_is_leaving(const struct resource *resource)
{
	return atomic_load_explicit(&resource->leaving, memory_order_relaxed) != 0;
}
/* Hashes the name of a type (FNV-1a). */
uint64_t registry_type_hash(const char *type_name);

#endif
