/* SPDX-License-Identifier: MIT */
/* A registry, as the files of this room know it. Private. */
#ifndef SPILLWAY_REGISTRY_PRIVATE_H
#define SPILLWAY_REGISTRY_PRIVATE_H

#include <pthread.h>

#include "core/base/lock.h"
#include "core/registry/container.h"

/* A type that was met; they are few and stay. Within the process the pointer stands for the hash.
 */
struct known_type {
	const struct resource_type *type;
	uint64_t hash;
	_Atomic uint64_t *count; /* resources of it; changes under the lock */
	_Atomic uint64_t own_count;
	struct known_type *next;
};

/* A create() that runs now, on its caller's stack; other threads that want the same wait for it. */
struct creation {
	const char *container;
	const struct resource_type *type;
	const char *name;
	pthread_t thread;
	struct creation *next;
};

struct registry {
	char job[64];
	int process;
	int gpu;
	QUICK_LOCK_OF(REGISTRY) lock;   /* guards all below; never held while foreign code runs */
	_Atomic uint32_t created;       /* changes when a creation has ended */
	struct container *containers;   /* uthash */
	struct container *found_last;   /* of them: mostly the next to be looked for; or NULL */
	struct address_table addresses; /* of all containers */
	struct known_type *types;       /* the one used last comes first */
	struct creation *creations;
};

/*
 * Returns the name of a container, NULL or "" being the default one. NULL: there can be none of
 * this name.
 */
const char *registry_container_name(const char *container);
/* Finds a container; under the lock. Returns NULL when there is none. */
struct container *registry_find_container(struct registry *registry, const char *name);
/* Counts resources of a type, more or fewer; under the lock. */
static inline void known_type_count(struct known_type *known, uint64_t change)
{
	uint64_t count = atomic_load_explicit(known->count, memory_order_relaxed);

	atomic_store_explicit(known->count, count + change, memory_order_relaxed);
}
/* Finds a type by its hash; under the lock. Returns NULL when it was never met. */
const struct resource_type *registry_find_type(const struct registry *registry, uint64_t hash);

#endif
