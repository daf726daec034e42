/* SPDX-License-Identifier: MIT */
/* Arrays: memory that only copies reach, in a layout of the driver's own. All under driver_lock. */
#ifndef SOFTGPU_ARRAY_H
#define SOFTGPU_ARRAY_H

#include "tests/softgpu/copy.h"
#include "tests/softgpu/memory.h"

/*
 * The side of a copy of that shape that begins at byte x of row y of plane z: INVALID_VALUE where
 * it leaves the array or parts an element.
 */
CUresult array_side(CUarray handle, uint64_t x, uint64_t y, uint64_t z,
                    const struct copy_shape *shape, struct copy_side *side);
/* Returns whether the array is one row, as the copies that know no rows want it. */
bool array_is_row(CUarray handle);

#endif
