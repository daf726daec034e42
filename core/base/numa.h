/* SPDX-License-Identifier: MIT */
/*
 * NUMA nodes of the host, as /sys and /proc tell of them. Allocates nothing; opens files, so it is
 * not for hot paths. Thread-safe.
 */
#ifndef SPILLWAY_NUMA_H
#define SPILLWAY_NUMA_H

#include <stdbool.h>
#include <stdint.h>

enum { NUMA_NODES_MAX = 16 };

/*
 * Lists nodes from which a driver gives memory: those that have memory and processors, and that
 * this process may use, the nearest to `from` first (itself, if it is one). Drivers refuse all
 * other nodes, or crash (NVIDIA/nccl#2106, #2190). Returns how many there are; 0: the machine does
 * not say. `root` stands before each path: "" except in tests.
 */
int numa_nodes(const char *root, int from, int nodes[NUMA_NODES_MAX]);
/*
 * Returns whether this process may use some of the machine's nodes alone, and the memory they have
 * in all, and free or in files. `root` as above.
 */
bool numa_memory(const char *root, uint64_t *total, uint64_t *available);

#endif
