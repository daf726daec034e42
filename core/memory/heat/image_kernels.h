/* SPDX-License-Identifier: MIT */
/*
 * Parameters of kernels, as cubins (.nv.info) say for drivers that do not tell. As image.h: read no
 * further than the image's own headers say, and only after the driver has taken it.
 */
#ifndef SPILLWAY_IMAGE_KERNELS_H
#define SPILLWAY_IMAGE_KERNELS_H

#include <stddef.h>
#include <stdint.h>

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
