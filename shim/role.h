/* SPDX-License-Identifier: MIT */
/*
 * The role in which the object is preloaded: libspillway.so, or libvgpu.so, which is one file and
 * contains the files that stand beside the other.
 */
#ifndef SPILLWAY_ROLE_H
#define SPILLWAY_ROLE_H

#include <stdbool.h>

extern const struct shim_role {
	bool stands_in; /* for HAMi-core's libvgpu.so */
	/* The bytes of libspillway-nvml.so, and their end; NULL: it is a file of its own. */
	const char *nvml, *nvml_end;
} shim_role;

/* Tells the configuration the role, before it is read. */
void shim_take_role(void);

#endif
