/*
 * Telling the program what a device has, by the job's charges: the rule of reported.h applied, and
 * counted where it hides what the host had more. Thread-safe.
 */
#ifndef SPILLWAY_TOLD_H
#define SPILLWAY_TOLD_H

#include <stddef.h>

#include "core/budget/device.h"
#include "core/budget/reported.h"

/* Returns what the device has to the program: `limit` bytes instead of the hardware's. */
uint64_t told_total(struct device *device, uint64_t hardware);
bool told_memory(struct device *device, struct reported *memory); /* as reported_memory() */
void told_info(struct device *device, size_t *free, size_t *total);

#endif
