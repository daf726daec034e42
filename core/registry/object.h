/*
 * Object: the resource for a CUDA object that needs no book-keeping but its name, container and
 * bytes (contexts, modules, streams, events, ...).
 */
#ifndef SPILLWAY_OBJECT_H
#define SPILLWAY_OBJECT_H

#include "core/registry/registry.h"

#define OBJECT_TYPES(X) \
	X(context)      \
	X(module)       \
	X(library)      \
	X(stream)       \
	X(event)        \
	X(graph_exec)

#define X(name) extern const struct resource_type object_type_##name;
OBJECT_TYPES(X)
#undef X

/* Registers a CUDA object by its address. 0 or a negative errno (as registry_add_object). */
int object_track(struct registry *registry, const char *container, const struct resource_type *type,
                 const void *object, uint64_t bytes);
/* Forgets it; its bytes, 0 when it was not tracked. */
uint64_t object_forget(struct registry *registry, const char *container,
                       const struct resource_type *type, const void *object);

#endif
