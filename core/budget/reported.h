/* SPDX-License-Identifier: MIT */
/*
 * Reported memory: a program is told `limit` bytes instead of the hardware's. By `auto` TensorFlow
 * and XLA are told the hardware's total, as far as the job's host memory makes up for it. They take
 * 75 % and more of the total and fail beyond that. For example, told a limit of 64 MiB, a JAX
 * training of 100 MiB would end at 48 MiB, with nothing spilled. The one rule for callers of CUDA
 * and of NVML; where it hides memory that the host adds, that is counted. Thread-safe.
 *
 * The answer does not grow with the limit, because growth can be taken back and frameworks size
 * themselves once by it. XLA and TensorFlow take three quarters at the start, and PyTorch makes its
 * segments' addresses for it.
 */
#ifndef SPILLWAY_REPORTED_H
#define SPILLWAY_REPORTED_H

#include "core/budget/device.h"

struct reported {
	uint64_t total, used, free; /* bytes */
};

/*
 * Replaces the hardware's figures by those for the program, where the job has so many bytes charged
 * on either tier. False, and nothing is changed, where the settings leave the truth as it is.
 */
bool reported_memory(const struct config_gpu *settings, uint64_t on_device, uint64_t on_host,
                     struct reported *memory);

/* Does so for a device by its settings and the job's charges. */
bool report_memory(struct device *device, struct reported *memory);

#endif
