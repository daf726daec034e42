/* SPDX-License-Identifier: MIT */
/*
 * The answer of a generated library's function. The library jumps to softgpu_refuse() with the
 * function's record.
 */
#ifndef SPILLWAY_STAND_IN_H
#define SPILLWAY_STAND_IN_H

#include <stdint.h>

#define STAND_IN_REFUSE  "softgpu_refuse"
#define STAND_IN_LIBRARY "libsoftgpu-refuse.so" /* the soname of the library that has it */

enum stand_in_kind {
	STAND_IN_STATUS, /* it answers its library's status for "not supported" */
	STAND_IN_TEXT,   /* it answers a text that says the same */
	STAND_IN_FATAL,  /* its library has no such status: the process ends by SIGABRT */
};

struct stand_in {
	int32_t name; /* bytes from the record to the function's name */
	int32_t kind;
	int32_t status;
	int32_t is_said;
};

#endif
