/* SPDX-License-Identifier: MIT */
/*
 * Memory that graphs allocate: addresses come with the node, physical memory with a launch, and the
 * driver keeps it for the next until it is trimmed. Charged for the reserved bytes that the driver
 * reports. It is asked after each launch, upload, trim and end of a graph once there is a graph
 * with such a node. Thread-safe.
 */
#ifndef SPILLWAY_GRAPH_MEMORY_H
#define SPILLWAY_GRAPH_MEMORY_H

#include <stdatomic.h>

#include "core/budget/device.h"

extern _Atomic bool graph_memory_expected;

/* Notes that a graph got a node that allocates, or one that cannot be looked into. */
static inline void graph_memory_expect(void)
{
	atomic_store_explicit(&graph_memory_expected, true, memory_order_relaxed);
}

/*
 * Returns whether such a node was noted. One relaxed load: all that a launch pays where no graph
 * allocates.
 */
static inline bool graph_memory_is_expected(void)
{
	return __builtin_expect(atomic_load_explicit(&graph_memory_expected, memory_order_relaxed),
	                        0);
}

void graph_memory_settle_all(void);
static inline void graph_memory_settle(void)
{
	if (graph_memory_is_expected())
		graph_memory_settle_all();
}

/* Has the device's graphs give back unused memory. Whether anything came back. */
bool graph_memory_make_room(struct device *device);

/* Sets the devices, before any other call. */
void graph_memory_start(struct device_set *set);

#endif
