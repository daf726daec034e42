/* SPDX-License-Identifier: MIT */
/* How much host memory this process may still take. Thread-safe; opens files, so not for hot paths.
 */
#ifndef SPILLWAY_HOST_MEMORY_H
#define SPILLWAY_HOST_MEMORY_H

#include <stdint.h>

#include "core/config/config.h"

/*
 * Returns what host_memory = `setting` comes to now, where `charged` bytes are held already:
 * CONFIG_AUTO is half of what the machine would have left without them, as long as it keeps a 20th
 * of all its memory, and no more than half of what the memory cgroups leave.
 */
uint64_t host_memory_limit(uint64_t setting, uint64_t charged);
/* Returns likewise what the settings of a device come to, with what binds their host_memory. */
uint64_t host_memory_of(const struct config_gpu *settings, uint64_t charged);
/* Returns likewise how much memory that leaves the device may make of it. */
uint64_t host_memory_of_moves(const struct config_gpu *settings, uint64_t charged);

#endif
