/* SPDX-License-Identifier: MIT */
/*
 * In use: the figures of NVML and the driver about a device's memory, of all processes.
 *
 * NVML needs no context, and alone knows all memory of a process; it is loaded in a named job. The
 * driver is asked in a context. Neither is asked while a capture is active: a query from another
 * thread could invalidate it. Thread-safe; makes driver calls, so no caller may hold a lock that
 * the driver's callbacks need.
 */
#ifndef SPILLWAY_IN_USE_H
#define SPILLWAY_IN_USE_H

#include "core/budget/device.h"

/*
 * Asks NVML for the bytes in use. NULL, or false when called: it does not tell. Set before the
 * first context is made.
 */
extern bool (*in_use_by_nvml)(const struct config_device *device, uint64_t *used);
/*
 * Asks NVML for the bytes that this process has. NULL, or false when called: it does not know the
 * process, as in some Docker containers.
 */
extern bool (*in_use_by_process)(const struct config_device *device, uint64_t *used);

/*
 * Asks NVML for the limits that it keeps for a cgroup, by the directory of that. NULL, or false
 * when called: it keeps none. Soft 0 and hard UINT64_MAX: there is no such limit.
 */
extern bool (*in_use_limits_by_nvml)(const struct config_device *device, const char *cgroup,
                                     uint64_t *soft, uint64_t *hard);

/*
 * Asks NVML for the device's whole memory: beside a cgroup's hard limit the driver tells that
 * instead. 0, or NULL: not known.
 */
extern uint64_t (*in_use_whole_by_nvml)(const struct config_device *device);

/* Opens NVML for a device, before it is asked: that takes longer. NULL: as above. */
extern void (*in_use_open_nvml)(const struct config_device *device);

/* Asks NVML. */
bool in_use_without_context(const struct device *device, uint64_t *used);
/*
 * Asks the driver in any context of the device: the current one if it can be, else one that is
 * pushed for the while.
 */
bool in_use_by_context(const struct device *device, uint64_t *used);
/* Asks either for the free bytes. Returns false where they are unknown. */
bool in_use_free(const struct device *device, uint64_t *bytes);

#endif
