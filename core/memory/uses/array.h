/* SPDX-License-Identifier: MIT */
/*
 * Bytes of arrays and mipmapped arrays. Their layout is the driver's own, so they cannot be on the
 * host. The most that the driver may take for one is charged first. Afterwards it is charged the
 * bytes it holds, and the driver's bytes beyond them are measured.
 */
#ifndef SPILLWAY_ARRAY_H
#define SPILLWAY_ARRAY_H

#include <stdint.h>

#include "core/cuda/driver.h"

/* The extent of an array, as far as its format is known. */
struct array_extent {
	size_t width, height, depth;
	unsigned int channels, levels;
	CUarray_format format;
	unsigned int flags;
};

/*
 * Returns the bytes that it holds: 0 where it has no memory of its own, or its format is not known;
 * UINT64_MAX beyond all.
 */
uint64_t array_bytes(const struct array_extent *extent);
/*
 * Returns the most that the driver may take for it: rows and planes in tiles, in whole blocks of
 * 2 MiB. For example, an array of 16 by 16 words holds 1 KiB, and the driver may take a block of
 * 2 MiB for it. An element of a format that is not known has 16 bytes. 0 where it has no memory of
 * its own.
 */
uint64_t array_taken(const struct array_extent *extent);
/* The driver takes memory in blocks of this size. */
#define ARRAY_UNIT ((uint64_t)2 << 20)

#endif
