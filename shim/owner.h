/* SPDX-License-Identifier: MIT */
/* Owners of objects. */
#ifndef SPILLWAY_SHIM_OWNER_H
#define SPILLWAY_SHIM_OWNER_H

#include "core/registry/object.h"
#include "shim/shim.h"

#define HANDLE(object) ((uint64_t)(uintptr_t)(object))

/* Returns the address of its owner; its own when it has none. */
uint64_t owner_of(const struct resource_type *type, uint64_t object);

#endif
