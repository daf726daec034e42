/* SPDX-License-Identifier: MIT */
/*
 * NVML's memory queries: what a process of the job that asks for a device's memory is told.
 *
 * A process that takes part in the job answers from what it has. The process may not use CUDA, as
 * nvidia-smi does not: what the job has comes from its segment then, and the limit from the job's
 * living processes, else from the configuration, which is read again when a file has changed.
 */
#ifndef SPILLWAY_NVML_MEMORY_H
#define SPILLWAY_NVML_MEMORY_H

#include "core/config/config.h"
#include "core/budget/reported.h"

/*
 * Replaces in *memory what the hardware says by what is to be told. Returns false, and changes
 * nothing, where the hardware's answer is the truth. device: as NVML knows it; ordinal is NVML's
 * index, memory what the hardware has. Thread-safe, also in a forked child. Opens files where the
 * process takes no part.
 */
bool nvml_memory_reported(const struct config_device *device, struct reported *memory);

#endif
