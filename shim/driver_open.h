/* SPDX-License-Identifier: MIT */
/* Opening the real driver. */
#ifndef SPILLWAY_SHIM_DRIVER_OPEN_H
#define SPILLWAY_SHIM_DRIVER_OPEN_H

#include <stddef.h>
#include <stdint.h>

/* The machine code of a library. */
struct code {
	uintptr_t start;
	size_t size;
};

/*
 * Returns the driver library that the process would have got without us, `asked` before all others
 * (NULL: none); NULL when there is none or it is unusable, logged once. found (PATH_MAX bytes) is
 * its path.
 */
void *driver_open(const char *asked, char *found, size_t size);
/* Returns the code of the library that holds the address. */
struct code driver_code(const void *address);

#endif
