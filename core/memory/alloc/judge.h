/* SPDX-License-Identifier: MIT */
/* What the driver thinks of allocating now, where memory is made without it. */
#ifndef SPILLWAY_JUDGE_H
#define SPILLWAY_JUDGE_H

#include "core/cuda/context.h"

/*
 * Asks what the driver thinks of allocating now: a capture may forbid it, and is invalidated by it;
 * in a broken context nothing is allocated, and the driver is left to say so. Memory of the arena
 * needs no context, and would not show it. in_pool: it is from a pool, and in stream order; now_ns:
 * clock_coarse(). CUDA_ERROR_NOT_SUPPORTED: the driver is to serve it itself.
 */
CUresult judge(const struct context *context, bool in_pool, uint64_t now_ns);

#endif
