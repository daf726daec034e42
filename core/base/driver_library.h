/* SPDX-License-Identifier: MIT */
/*
 * Finds the CUDA driver library a program would get without Spillway.
 *
 * Places, in order: SPILLWAY_DRIVER, the file the program named, LD_LIBRARY_PATH, the loader's
 * cache, the usual folders. The loader's own search by name would find the shim, because its SONAME
 * is the driver's. Allocates nothing.
 *
 * The search skips a file that is no library for this machine. One search serves the shim and
 * doctor, so doctor's answer is the shim's.
 */
#ifndef SPILLWAY_DRIVER_LIBRARY_H
#define SPILLWAY_DRIVER_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#define DRIVER_LIBRARY "libcuda.so.1"
/*
 * The shim, for any glibc from 2.28 on, and beside it the same for 2.34 and newer alone, with which
 * no library is loaded.
 */
#define SHIM_LIBRARY "libspillway.so"
#define SHIM_OF_2_34 "libspillway-2.34.so"
/*
 * The companion library has the driver's functions that the shim does not know (shim/attach.c,
 * tools/doctor/companion.h). Each goes on in that function of the shim.
 */
#define COMPANION_LIBRARY "libspillway-companion.so"
#define COMPANION_COMMON  "spillway_unlisted"

/*
 * Fills path (of PATH_MAX bytes or more) with an absolute path and *from with the place that had
 * it; false when there is none, *from then names where was looked. The shim (may be NULL) and the
 * one beside it are passed over; asked may be NULL. A set-uid process ignores the environment, as
 * its loader does. *named_is_bad: SPILLWAY_DRIVER is set and is no usable library.
 */
bool driver_library_find(const char *shim, const char *asked, char *path, size_t size,
                         const char **from, bool *named_is_bad);

/*
 * Returns whether dlopen(file) asks for a driver: by a name that drivers have, by a link to such a
 * file, or by the path of a file that says it is known as DRIVER_LIBRARY. errno is not preserved.
 *
 * A copy of another name that was passed on would be a driver of its own, some of whose calls of
 * itself reach the shim.
 */
bool driver_library_is_asked(const char *file);

/*
 * Finds where dlopen(file) would find the driver it asks for: a path, or a name that is looked for
 * in the same places as above. Returns false when there is nothing there that can be loaded.
 */
bool driver_library_locate(const char *file, char *path, size_t size);

#endif
