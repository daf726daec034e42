/* SPDX-License-Identifier: MIT */
/*
 * /etc/ld.so.cache, the loader's index of library folders.
 *
 * The format is glibc's "glibc-ld.so.cache1.1", sometimes behind the older "ld.so-1.7.0" one; the
 * file is checked before it is believed, an odd one counts as empty. Allocates nothing.
 */
#ifndef SPILLWAY_LOADER_CACHE_H
#define SPILLWAY_LOADER_CACHE_H

#include <stdbool.h>

/*
 * Offers each path of the library `name` for this architecture to accept(), in the cache's order,
 * until one is accepted. Returns whether one was. The path lives for the call only.
 */
bool loader_cache_find(const char *name, bool (*accept)(void *cookie, const char *path),
                       void *cookie);

#endif
