/* SPDX-License-Identifier: MIT */
/* How much host memory this process may still take. Thread-safe; opens files, so not for hot paths.
 */
#ifndef SPILLWAY_HOST_MEMORY_H
#define SPILLWAY_HOST_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/config/config.h"

/*
 * Returns the value of host_memory = `setting` now, where `charged` bytes are held already:
 * CONFIG_AUTO is half of the memory that the machine would have left without them, as long as it
 * keeps a 20th of all its memory. It is no more than half of the room of the memory cgroups. For
 * example, with 100 GiB left and a cgroup with room for 32 GiB it is 16 GiB. at_most_auto: a number
 * of bytes above that counts as CONFIG_AUTO.
 */
uint64_t host_memory_limit(uint64_t setting, bool at_most_auto, uint64_t charged);

#endif
