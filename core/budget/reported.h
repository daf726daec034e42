/*
 * Reported memory: a program is told `limit` bytes instead of the hardware's. The one rule for
 * those who ask CUDA and those who ask NVML. Thread-safe.
 */
#ifndef SPILLWAY_REPORTED_H
#define SPILLWAY_REPORTED_H

#include "core/config/config.h"

struct reported {
	uint64_t total, used, free; /* bytes */
};

/*
 * Returns the total a program is told. hardware: bytes the device has; on_host: bytes the job holds
 * in place of device memory.
 */
uint64_t reported_total(const struct config_gpu *settings, uint64_t hardware, uint64_t on_host);
/*
 * Replaces what the hardware says by what the program is to be told, where the job has so many
 * bytes charged on either side. False, and nothing is changed, where the settings leave the truth
 * as it is.
 */
bool reported_memory(const struct config_gpu *settings, uint64_t on_device, uint64_t on_host,
                     struct reported *memory);

/*
 * Returns whether a program that is told `total` of the hardware's bytes could have more of them,
 * on the host.
 */
bool reported_hides_host(const struct config_gpu *settings, uint64_t hardware, uint64_t total);

#endif
