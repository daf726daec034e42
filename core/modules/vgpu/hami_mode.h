/* SPDX-License-Identifier: MIT */
/*
 * HAMi mode: the process was given our object by its name, libvgpu.so, by HAMi, its DRA driver,
 * KAI's isolator or Volcano's device plugin, and finds the behaviour of HAMi-core.
 *
 * cache    the path of the container's shared region (region.h), by which its job is named. These
 *          products call it CUDA_DEVICE_MEMORY_SHARED_CACHE
 * monitor  the node's process that reads the region. Its settings are the limits and shares there:
 *          those of the container, or later ones
 *
 * The container's values are read from its first process, as far as that is readable, and from the
 * region, because a process's own environment may have been cleared, or changed.
 */
#ifndef SPILLWAY_HAMI_MODE_H
#define SPILLWAY_HAMI_MODE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Says that the process is in HAMi mode, by a file in this folder. It is called before anything is
 * configured. Again is fine.
 */
void hami_mode_begin(const char *folder);
bool hami_mode_is(void);
/*
 * Completes the environment, an array of allocated texts, by the container's values. In HAMi mode
 * they are HAMi's variables, which go before the process's own. Else, where a device of `spillway
 * cdi` was given, they are those of ours that it lacks. Returns the array, which may be another one
 * by then.
 */
#define HAMI_MODE_MARK "SPILLWAY_DEVICE=yes"
char **hami_mode_complete(char **environment);
/*
 * Writes where the job's files belong: beside the cache. Returns false where they belong nowhere in
 * particular. That is so without a cache, and in the folder of libvgpu.so itself, because HAMi's
 * monitor reads no cache in a folder of more than two files.
 */
bool hami_mode_directory(const char *cache, char *path, size_t size);
/* Returns the level for the log that HAMi-core's variable asks for; NULL: none. */
const char *hami_mode_log(void);

/* The directory that HAMi and Volcano mount into each container from the node. */
#define HAMI_MODE_NODE "/tmp/vgpulock"

/* "/proc", unless a test has another. */
extern const char *hami_mode_proc;

#endif
