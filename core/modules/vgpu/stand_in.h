/* SPDX-License-Identifier: MIT */
/*
 * HAMi mode: the process was given our object by its name, libvgpu.so, by HAMi, its DRA driver,
 * KAI's isolator or Volcano's device plugin, and finds the behaviour of HAMi-core.
 *
 * cache   the path of the container's shared region (region.h), by which its job is named. These
 *         products call it CUDA_DEVICE_MEMORY_SHARED_CACHE
 * orders  the limits and shares in the region: those of the container, or later ones of the monitor
 *
 * The container's values are read from its first process, as far as that is readable, and from the
 * region, because a process's own environment may have been cleared, or changed.
 */
#ifndef SPILLWAY_STAND_IN_H
#define SPILLWAY_STAND_IN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Says that we stand in, as a file in this folder; before anything is configured. Again is fine.
 */
void stand_in_begin(const char *folder);
bool stand_in_is(void);
/*
 * Completes the environment, an array of allocated texts, by the container's values. In HAMi mode
 * they are HAMi's variables, which go before the process's own. Else, where a device of `spillway
 * cdi` was given, they are those of ours that it lacks. Returns the array, which may be another one
 * by then.
 */
#define STAND_IN_MARK "SPILLWAY_DEVICE=yes"
char **stand_in_complete(char **environment);
/*
 * Writes where the job's files belong: beside the cache. Returns false where they belong nowhere in
 * particular. That is so without a cache, and in the folder of libvgpu.so itself, because HAMi's
 * monitor reads no cache in a folder of more than two files.
 */
bool stand_in_directory(const char *cache, char *path, size_t size);
/* Returns the level for the log that HAMi-core's variable asks for; NULL: none. */
const char *stand_in_log(void);

/* The directory that HAMi and Volcano mount into each container from the node. */
#define STAND_IN_NODE "/tmp/vgpulock"

/* "/proc", unless a test has another. */
extern const char *stand_in_proc;

#endif
