/*
 * Bytes of arrays and mipmapped arrays. Their layout is the driver's own: they cannot be on the
 * host, are charged the bytes they hold, and what the driver takes beyond that is measured.
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
 * Returns what its layout may take beyond so many bytes: padding and tiles at most double what is
 * not tiny; formats that are not known have no figure to go by, and 1 GiB is much.
 */
uint64_t array_most_beyond(uint64_t bytes);

#endif
