/* SPDX-License-Identifier: MIT */
/*
 * Object: the resource for a CUDA object that needs no book-keeping but its address, container,
 * bytes and owner (contexts, modules, streams, events, ...).
 *
 * owner   the object with which another one goes: a module for its functions, a green context for
 *         its streams. When the owner is destroyed, its objects leave the registry, in any
 *         container or device.
 *
 * Thread-safe.
 *
 * Of a graph's nodes the registry keeps the figures that pacing and memory need: grids and bytes.
 */
#ifndef SPILLWAY_OBJECT_H
#define SPILLWAY_OBJECT_H

#include "core/registry/registry.h"

/* Types without a weight and without data of their own take 88 bytes, streams 160, the rest 136. */
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
 * The weight of an object: its device memory; the launch of a kernel node or of all kernel nodes of
 * a graph.
 */
struct object_weight {
	uint64_t bytes;
	uint64_t most;    /* of code: device memory it may come to */
	uint64_t threads; /* of grids, saturating */
	int64_t uses;     /* references that other objects hold on it, as far as they are known */
	unsigned int kernels; /* kernel nodes */
	unsigned int changes; /* times it was made anew: facts learnt about it may be out of date */
};

struct object_entry {
	const struct resource_type *type;
	uint64_t address;
	struct object_weight weight; /* of a type that weighs nothing: 0 */
	unsigned int flags;          /* it was made with */
	struct resource *owner;      /* an object, referenced by the caller; NULL: none */
};

/*
 * Registers a CUDA object by its address; the object there before is gone. Of an object that an
 * owner hands out again object_belongs_to() says so first. Returns 0 or a negative errno (as
 * registry_add_object).
 */
int object_enter(struct registry *registry, const char *container,
                 const struct object_entry *entry);
/* Tracks in the same way an object with nothing but an address. */
static inline int object_track(struct registry *registry, const char *container,
                               const struct resource_type *type, const void *address)
{
	struct object_entry entry = {.type = type, .address = (uintptr_t)address};

	return object_enter(registry, container, &entry);
}
/* Returns the sum over the object's own objects of a type. */
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
 * Returns the resource that is kept for an object as long as it lives, with a reference for the
 * caller. It is made at the first request, the same from then on, and released with the object.
 * NULL: create() failed or answered another type, a resource of another type is kept already (both
 * are logged), or the object's type weighs nothing. Of two threads that ask first at the same time
 * both may create, and one resource is released again.
 */
struct resource *object_kept(struct resource *object, const struct resource_type *type,
                             struct resource *(*create)(void *cookie), void *cookie);

#endif
