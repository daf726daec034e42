/* SPDX-License-Identifier: MIT */
/* How much host memory this process may still take. Thread-safe; opens files, so not for hot paths.
 */
#ifndef SPILLWAY_HOST_MEMORY_H
#define SPILLWAY_HOST_MEMORY_H

#include <stdint.h>

#include "core/config/config.h"

/*
 * Returns the value of host_memory = `setting` now, where `charged` bytes are held already:
 * CONFIG_AUTO is half of the memory that the machine would have left without them, as long as it
 * keeps a 20th of all its memory. It is no more than half of the room of the memory cgroups. For
 * example, with 100 GiB left and a cgroup with room for 32 GiB it is 16 GiB.
 */
uint64_t host_memory_limit(uint64_t setting, uint64_t charged);
/* Returns likewise the value by the settings of a device, with the bounds on their host_memory. */
uint64_t host_memory_of(const struct config_gpu *settings, uint64_t charged);
/* Returns likewise how much memory that leaves the device may make of it. */
uint64_t host_memory_of_moves(const struct config_gpu *settings, uint64_t charged);

#endif
