/* SPDX-License-Identifier: MIT */
/*
 * Looked up: the resources of one device of a process, as it listed them, in a registry of the
 * tool's, so that handles are looked up and verified as the process itself would.
 */
#ifndef SPILLWAY_TOOL_LOOKED_UP_H
#define SPILLWAY_TOOL_LOOKED_UP_H

#include "core/registry/registry.h"

/* One that was listed. */
struct listed {
	uint64_t bytes, age_ns;
	struct handle handle;
};

/* The fate of a handle. */
struct looked_up {
	const struct listed *listed; /* NULL: it is not there */
	char *why;                   /* then: for people, the caller frees it */
};

struct looked_up_device;

/*
 * Creates one of the GPU of this number in the process, with the listed resources among others.
 * Without memory the tool ends.
 */
struct looked_up_device *looked_up_create(const char *job, int process, int gpu,
                                          const struct listed *listed, size_t count);
void looked_up_destroy(struct looked_up_device *device);
/* Looks up n handles of this device. */
void looked_up_find(struct looked_up_device *device, const struct handle *handles, size_t n,
                    struct looked_up *found);
/* Bytes of all that is there. */
uint64_t looked_up_bytes(struct looked_up_device *device);

#endif
