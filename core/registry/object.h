/* SPDX-License-Identifier: MIT */
/*
 * Object: the resource for a CUDA object that needs no book-keeping but its address, container,
 * bytes and owner (contexts, modules, streams, events, ...).
 *
 * owner   what an object goes with: a function with its module, a stream with its green context.
 *         When the owner is destroyed, what it owns leaves the registry, in whatever container or
 *         device it is.
 *
 * Thread-safe.
 *
 * Of a graph's nodes is kept what pacing and memory ask for: grids and bytes.
 */
#ifndef SPILLWAY_OBJECT_H
#define SPILLWAY_OBJECT_H

#include "core/registry/registry.h"

/*
 * Those that weigh nothing and have nothing of their own take 88 bytes, streams 160, the others
 * 136.
 */
#define OBJECT_TYPES_LIGHT(X) \
	X(context)            \
	X(green_context)      \
	X(peer_access)        \
	X(ipc_event)          \
	X(conditional)        \
	X(texture)            \
	X(surface)            \
	X(texture_reference)  \
	X(external_semaphore)

/* And are made and destroyed all the time. */
#define OBJECT_TYPES_EVENT(X) X(event)

#define OBJECT_TYPES_WEIGHED(X) \
	X(module)               \
	X(library)              \
	X(kernel)               \
	X(function)             \
	X(global)               \
	X(graph)                \
	X(graph_node)           \
	X(graph_body)           \
	X(graph_exec)           \
	X(user_object)          \
	X(external_memory)      \
	X(mapped_buffer)        \
	X(mipmapped_array)      \
	X(graphics_resource)

/* And are listed by their context. */
#define OBJECT_TYPES_CHAINED(X) X(stream)

#define OBJECT_TYPES(X)         \
	OBJECT_TYPES_LIGHT(X)   \
	OBJECT_TYPES_EVENT(X)   \
	OBJECT_TYPES_WEIGHED(X) \
	OBJECT_TYPES_CHAINED(X)

#define X(name) extern const struct resource_type object_type_##name;
OBJECT_TYPES(X)
#undef X

/*
 * What an object weighs: its device memory; what a kernel node or all kernel nodes of a graph
 * launch.
 */
struct object_weight {
	uint64_t bytes;
	uint64_t most;        /* of code: device memory it may come to */
	uint64_t threads;     /* of grids, saturating */
	int64_t uses;         /* references that others hold on it, as far as they were told of */
	unsigned int kernels; /* kernel nodes */
	unsigned int
	    changes; /* times it was made anew: what was learnt about it may be out of date */
};

struct object_entry {
	const struct resource_type *type;
	uint64_t address;
	struct object_weight weight; /* of a type that weighs nothing: 0 */
	unsigned int flags;          /* it was made with */
	struct resource *owner;      /* an object, referenced by the caller; NULL: nobody */
};

/*
 * Registers a CUDA object by its address; what that stood for before is gone. Of what an owner
 * hands out again object_belongs_to() says so first. Returns 0 or a negative errno (as
 * registry_add_object).
 */
int object_enter(struct registry *registry, const char *container,
                 const struct object_entry *entry);
/* Tracks in the same way an object with nothing but an address. */
int object_track(struct registry *registry, const char *container, const struct resource_type *type,
                 const void *address);
/* Returns the sum over what the object owns of a type. */
struct object_weight object_owned_weight(struct resource *owner, const struct resource_type *type);
uint64_t object_owner(struct resource *object); /* its address; 0: none */
struct object_owner {
	const struct resource_type *type;
	uint64_t address;
};
/* Returns whether an object is in this container that this owns, and neither is leaving. */
bool object_belongs_to(struct registry *registry, const char *container,
                       const struct resource_type *type, uint64_t object,
                       const struct object_owner *owner);
struct object_weight object_weight(struct resource *object);
unsigned int object_flags(const struct resource *object);
/* Counts as a change. */
void object_weigh(struct resource *object, const struct object_weight *weight);
void object_use(struct resource *object, int64_t change);
/*
 * Returns what is kept for an object as long as it lives, with a reference for the caller: made
 * when it is first asked for, the same from then on, released with the object. NULL: create()
 * failed or answered another type, something of another type is kept already (both are said), or
 * the object's type weighs nothing. Of two who ask first at the same time both may create, and one
 * resource is released again.
 */
struct resource *object_kept(struct resource *object, const struct resource_type *type,
                             struct resource *(*create)(void *cookie), void *cookie);

#endif
