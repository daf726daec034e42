/* SPDX-License-Identifier: MIT */
/*
 * The shapes of copies. Each function fills in that of a copy but for its stream, and returns
 * false if it has none that core/memory/copy/async.h knows: NULL, no bytes, an array at an end,
 * rows or layers that overlap. Such a copy is the driver's to judge.
 */
#ifndef SPILLWAY_SHAPE_H
#define SPILLWAY_SHAPE_H

#include "core/memory/copy/async.h"

bool shape_of_bytes(CUdeviceptr to, CUdeviceptr from, size_t size, struct async_copy *shape);
bool shape_of_2d(const CUDA_MEMCPY2D *copy, struct async_copy *shape);
bool shape_of_3d(const CUDA_MEMCPY3D *copy, struct async_copy *shape);
bool shape_of_peer(const CUDA_MEMCPY3D_PEER *copy, struct async_copy *shape);
bool shape_is_regular(const struct async_copy *shape);

#endif
