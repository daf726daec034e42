/* SPDX-License-Identifier: MIT */
/*
 * Images of device code: their pieces, and the most that one may take on the device when it is
 * loaded.
 *
 * The latter is an upper bound for measured.h, not an estimate: variables as large as their
 * sections or declarations say, and room for code and the driver's additions. An image comes
 * without a size: it is read no further than its own headers say, which the driver followed before
 * us, and only after the driver has taken it.
 */
#ifndef SPILLWAY_IMAGE_H
#define SPILLWAY_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

enum image_kind { IMAGE_PTX, IMAGE_CUBIN, IMAGE_PACKED };

/* size: bytes of it; of a cubin that stands alone unknown, UINT32_MAX. */
typedef void image_piece(void *cookie, enum image_kind kind, const void *piece, uint64_t size);

/* The most that an image takes which cannot be read: packed ones, unknown ones, files. */
#define IMAGE_MOST_UNKNOWN ((uint64_t)512 << 20)

/*
 * Returns the most bytes that an image can take, or IMAGE_MOST_UNKNOWN. It is PTX, a cubin, a fat
 * binary or the structure around one, as cuModuleLoadData takes them; loaded successfully.
 */
uint64_t image_most(const void *image);
/*
 * Calls each() for the image, or for the pieces of a fat binary. False: it is none of these, or
 * broken from some place on.
 */
bool image_each(const void *image, image_piece *each, void *cookie);

#endif
