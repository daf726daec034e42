/* SPDX-License-Identifier: MIT */
/*
 * NVML's memory queries: the answer to a process of the job that asks for a device's memory.
 *
 * A process that takes part in the job answers from its own figures. The process may not use CUDA,
 * as nvidia-smi does not. Its job's memory comes from the segment then. The limit comes from the
 * job's living processes, else from the configuration, which is read again when a file has changed.
 */
#ifndef SPILLWAY_NVML_MEMORY_H
#define SPILLWAY_NVML_MEMORY_H

#include "core/config/config.h"
#include "core/budget/reported.h"

/*
 * Replaces the hardware's figures in *memory by the reported ones. Returns false, and changes
 * nothing, where the hardware's answer is the truth. device: as NVML knows it; ordinal is NVML's
 * index, memory the hardware's memory. Thread-safe, also in a forked child. Opens files where the
 * process takes no part.
 */
bool nvml_memory_reported(const struct config_device *device, struct reported *memory);

#endif
