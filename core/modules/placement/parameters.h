/* SPDX-License-Identifier: MIT */
/*
 * Parameters of kernels: how many there are and how large, for a search of addresses in them.
 *
 * Asked of the driver (12.4 and later) once per function and kept until functions go. An older
 * driver does not tell: then they are read from the cubins that functions come from; of functions
 * that come as PTX they are unknown. Thread-safe.
 */
#ifndef SPILLWAY_PARAMETERS_H
#define SPILLWAY_PARAMETERS_H

#include <stdbool.h>

#include "core/cuda/driver.h"
#include "core/memory/arena/heat.h"
#include "core/registry/registry.h"

/* --- parameters of an image --- */

/*
 * Parameters of kernels, as cubins (.nv.info) say for drivers that do not tell. As for images, no
 * read goes further than the image's own headers say, and only after the driver has taken it.
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

/* --- parameters of a function --- */

/*
 * Returns in *parameters those of a CUfunction or CUkernel, valid until parameters_release(); NULL:
 * unknown. False, and nothing is held: another thread is at it (never with wait). Asks the driver
 * where the function is new.
 */
bool parameters_hold(CUfunction function, bool wait, const struct parameters **parameters);
void parameters_release(void);

/* Fills in what the kernel says of modules, libraries and their functions. */
void parameters_add_calls(struct placement_calls *calls);

#endif
