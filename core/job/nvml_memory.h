/*
 * What a process of the job that asks NVML for a device's memory is told.
 *
 * A process that takes part in the job answers from what it has. The process may not use CUDA, as nvidia-smi does not:
 * what the job has comes from its segment then, and the limit from the job's living processes, else from the
 * configuration, which is read again when a file has changed.
 */
#ifndef SPILLWAY_NVML_MEMORY_H
#define SPILLWAY_NVML_MEMORY_H

#include "core/config/config.h"
#include "core/budget/reported.h"

/*
 * device: as NVML knows it; ordinal is NVML's index, memory what the hardware has. *memory: what the
 * hardware says, replaced by what is to be told. False, and nothing is changed, where it is the truth.
 * Thread-safe, also in a forked child. Opens files where the process takes no part.
 */
bool nvml_memory_reported(const struct config_device *device, struct reported *memory);

/*
 * The ordinal CUDA gives a device in a process where CUDA_VISIBLE_DEVICES is `visible` (NULL: not set), -1
 * when it shows the process no such device. In CUDA's default order the fastest comes first, in NVML's the
 * lowest PCI bus id: index is right where all GPUs are alike.
 */
int nvml_memory_ordinal(const char *visible, int index, const char *uuid);

#endif
