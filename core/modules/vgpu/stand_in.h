/* SPDX-License-Identifier: MIT */
/*
 * Standing in for HAMi-core: the process was given our object by its name, libvgpu.so, by HAMi, its
 * DRA driver, KAI's isolator or Volcano's device plugin, and is to find what HAMi-core would be.
 *
 * cache   the path of the container's shared region (region.h), by which its job is named; those
 *         who give it say CUDA_DEVICE_MEMORY_SHARED_CACHE
 * orders  what stands in the region of limits and shares: what the container was given, or what the
 *         monitor has written since
 *
 * What the container was given is asked of its first process, as far as that may be read, and of
 * the region, because a process's own environment may have been cleared, or changed.
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
 * Completes the environment, an array of allocated texts, by what the container was given: where we
 * stand in by HAMi's variables, which go before the process's own; else, where a device of
 * `spillway cdi` was given, by those of ours that it lacks. Returns the array, which may be another
 * one by then.
 */
#define STAND_IN_MARK "SPILLWAY_DEVICE=yes"
char **stand_in_complete(char **environment);
/*
 * Writes where the job's files belong: beside the cache. Returns false where they belong nowhere
 * in particular: without a cache, and in the folder of libvgpu.so itself, because HAMi's monitor
 * reads no cache in a folder of more than two files.
 */
bool stand_in_directory(const char *cache, char *path, size_t size);
/* Returns the level for the log that HAMi-core's variable asks for; NULL: none. */
const char *stand_in_log(void);

/* What HAMi and Volcano mount into each container from the node. */
#define STAND_IN_NODE "/tmp/vgpulock"

/* "/proc", unless a test has another. */
extern const char *stand_in_proc;

#endif
