/*
 * What images say of their kernels' parameters, for drivers that do not tell. As image.h: read no further than the
 * image's own headers say, and only after the driver has taken it.
 */
#ifndef SPILLWAY_IMAGE_KERNELS_H
#define SPILLWAY_IMAGE_KERNELS_H

#include <stddef.h>

#include "core/memory/heat/parameters.h"

/* name is `length` characters long. The parameters are found's to free(). */
typedef void image_kernel(void *cookie, const char *name, size_t length,
                          struct parameters *parameters);
/* Of a fat binary each piece that is not packed is read, so a kernel may come several times. */
void image_each_kernel(const void *image, image_kernel *found, void *cookie);

#endif
