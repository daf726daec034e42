/* SPDX-License-Identifier: MIT */
/* SOFTGPU_TRACE: a file that gets a line for each launch that is no part of a capture. */
#ifndef SOFTGPU_TRACE_H
#define SOFTGPU_TRACE_H

#include <stdint.h>

/* shape: grid and block, NULL for a graph. Nothing where no trace was asked for. Thread-safe. */
void trace_launch(const void *function, const char *name, const uint32_t grid[3],
                  const uint32_t block[3]);

#endif
