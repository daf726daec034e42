/*
 * Images of device code: what one may take on the device when it is loaded.
 *
 * An upper bound for measured.h, not an estimate: variables as large as their sections or declarations say, and room
 * for code and what the driver makes along with it. An image comes without a size: it is read no further than its
 * own headers say, which the driver followed before us, and only after the driver has taken it.
 */
#ifndef SPILLWAY_IMAGE_H
#define SPILLWAY_IMAGE_H

#include <stdint.h>

/* For what cannot be read: packed images, unknown ones, files. */
#define IMAGE_MOST_UNKNOWN ((uint64_t)512 << 20)

/* PTX, a cubin, a fat binary or the structure around one, as cuModuleLoadData takes them; loaded successfully. */
uint64_t image_most(const void *image);

#endif
