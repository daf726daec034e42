/*
 * Object: the resource for a CUDA object that needs no book-keeping but its address, container, bytes and
 * owner (contexts, modules, streams, events, ...).
 *
 * owner   what an object goes with: a function with its module, a stream with its green context. When the
 *         owner is destroyed, what it owns leaves the registry, in whatever container or device it is.
 *
 * Thread-safe.
 */
#ifndef SPILLWAY_OBJECT_H
#define SPILLWAY_OBJECT_H

#include "core/registry/registry.h"

#define OBJECT_TYPES(X)       \
	X(context)            \
	X(green_context)      \
	X(peer_access)        \
	X(module)             \
	X(library)            \
	X(kernel)             \
	X(function)           \
	X(global)             \
	X(stream)             \
	X(event)              \
	X(ipc_event)          \
	X(graph)              \
	X(graph_node)         \
	X(graph_body)         \
	X(graph_exec)         \
	X(conditional)        \
	X(user_object)        \
	X(texture)            \
	X(surface)            \
	X(texture_reference)  \
	X(external_memory)    \
	X(external_semaphore) \
	X(mapped_buffer)      \
	X(mipmapped_array)    \
	X(graphics_resource)

#define X(name) extern const struct resource_type object_type_##name;
OBJECT_TYPES(X)
#undef X

/* What an object weighs: its device memory; what a kernel node or all kernel nodes of a graph launch. */
struct object_weight {
	uint64_t bytes;
	uint64_t most;        /* of code: device memory it may come to */
	uint64_t threads;     /* of grids, saturating */
	unsigned int kernels; /* kernel nodes */
	unsigned int
	    changes;  /* times it was made anew: what was learnt about it may be out of date */
	int64_t uses; /* references that others hold on it, as far as they were told of */
};

struct object_entry {
	const struct resource_type *type;
	uint64_t address;
	struct object_weight weight;
	struct resource *owner; /* an object, referenced by the caller; NULL: nobody */
};

/*
 * Registers a CUDA object by its address; what that stood for before is gone. What is known already as this
 * very owner's stays as it is. 0 or a negative errno (as registry_add_object).
 */
int object_enter(struct registry *registry, const char *container,
                 const struct object_entry *entry);
/* Likewise, with nothing but an address. */
int object_track(struct registry *registry, const char *container, const struct resource_type *type,
                 const void *address);
/* Forgets it, if the registry still has this very one. */
void object_leave(struct resource *object);

/* Gives what nobody owns to an owner. */
void object_give(struct resource *object, struct resource *owner);
/* The sum over what it owns of a type. */
struct object_weight object_owned_weight(struct resource *owner, const struct resource_type *type);
uint64_t object_owner(struct resource *object); /* its address; 0: none */
struct object_weight object_weight(struct resource *object);
/* Counts as a change. */
void object_weigh(struct resource *object, const struct object_weight *weight);
void object_use(struct resource *object, int64_t change);

#endif
