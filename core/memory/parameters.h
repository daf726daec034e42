/*
 * Parameters of kernels: how many there are and how large, for who looks for addresses in them.
 *
 * Asked of the driver (12.4 and later) once per function and kept until functions go. Thread-safe.
 */
#ifndef SPILLWAY_PARAMETERS_H
#define SPILLWAY_PARAMETERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/driver.h"

struct parameter {
	uint16_t index;
	uint16_t words; /* of 8 bytes that it is large; never 0: smaller ones are left out */
};

struct parameters {
	size_t count;
	struct parameter parameter[];
};

/*
 * The parameters of a CUfunction or CUkernel, valid until parameters_release(); NULL: nobody knows. False, and
 * nothing is held: another thread is at it (never with wait). Asks the driver where the function is new.
 */
bool parameters_hold(CUfunction function, bool wait, const struct parameters **parameters);
void parameters_release(void);

/* Handles are about to become invalid: what is known of any function is forgotten, and asked again when needed. */
void parameters_forget(void);

#endif
