/* SPDX-License-Identifier: MIT */
/* How many blocks run at once. */
#ifndef SOFTGPU_OCCUPANCY_H
#define SOFTGPU_OCCUPANCY_H

#include "tests/softgpu/module.h"

int blocks_per_multiprocessor(const struct function *function, unsigned int threads,
                              size_t dynamic_shared);

#endif
