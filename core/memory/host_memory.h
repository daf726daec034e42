/* How much host memory this process may still take. Thread-safe; opens files, so not for hot paths.
 */
#ifndef SPILLWAY_HOST_MEMORY_H
#define SPILLWAY_HOST_MEMORY_H

#include <stdint.h>

/* The least of MemAvailable and what the memory cgroup (v2, as seen in a container) leaves; bytes.
 * UINT64_MAX when neither can be read. */
uint64_t host_memory_available(void);

#endif
