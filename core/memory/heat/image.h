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
#include <stddef.h>
#include <stdint.h>

enum image_kind { IMAGE_PTX, IMAGE_CUBIN, IMAGE_PACKED };

/* size: bytes of it; of a cubin that stands alone unknown, UINT32_MAX. */
typedef void image_piece(void *cookie, enum image_kind kind, const void *piece, uint64_t size);

/* For what cannot be read: packed images, unknown ones, files. */
#define IMAGE_MOST_UNKNOWN ((uint64_t)512 << 20)

/*
 * Returns the most bytes that an image can take, or IMAGE_MOST_UNKNOWN. It is PTX, a cubin, a fat
 * binary or the structure around one, as cuModuleLoadData takes them; loaded successfully.
 */
uint64_t image_most(const void *image);

/*
 * Parameters of kernels, as cubins (.nv.info) say for drivers that do not tell. As image.h: read no
 * further than the image's own headers say, and only after the driver has taken it.
 */
enum { PARAMETERS_MAX = 4096 }; /* 32,764 bytes are the most that a kernel takes */

struct parameter {
	uint16_t index;
	uint16_t words; /* of 8 bytes that it is large; never 0: smaller ones are left out */
};

struct parameters {
	size_t count;
	struct parameter parameter[];
};

/* name is `length` characters long. The parameters are found's to free(). */
typedef void image_kernel(void *cookie, const char *name, size_t length,
                          struct parameters *parameters);
/*
 * Calls found() for each kernel. Of a fat binary each piece that is not packed is read, so a kernel
 * may come several times.
 */
void image_each_kernel(const void *image, image_kernel *found, void *cookie);

#endif
