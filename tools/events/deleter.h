/* SPDX-License-Identifier: MIT */
/*
 * Anonymous resources and their deleters: in the registry like all others (walked, counted, reached
 * by handle), but under a generated name and owned by a deleter.
 *
 * deleter  a resource itself; with its last reference its resource leaves the registry. That may be
 *          gone already, deleted by handle or cleaned up with its container: then nothing happens,
 *          because its name is never given again
 *
 * The registry outlives its deleters. Thread-safe.
 */
#ifndef SPILLWAY_TOOLS_DELETER_H
#define SPILLWAY_TOOLS_DELETER_H

#include "core/registry/registry.h"

/*
 * Registers the resource (container as in registry_add()) and takes over the caller's reference.
 * *deleter: one reference, the caller's. Returns 0 or as registry_add(), and the resource is the
 * caller's still.
 */
int registry_add_anonymous(struct registry *registry, const char *container,
                           struct resource *resource, struct resource **deleter);
/* Makes the handle of the deleter's resource, also where that is gone. */
void deleter_handle(const struct resource *deleter, struct handle *handle);

extern const struct resource_type deleter_type;

#endif
