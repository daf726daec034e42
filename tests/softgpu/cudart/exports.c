/* SPDX-License-Identifier: MIT */
/*
 * All functions of libcudart: a weak body that refuses for each. A definition anywhere else takes
 * its place.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define NOT_SUPPORTED 801 /* cudaErrorNotSupported */

static int refuse(const char *name, bool *said)
{
	if (!__atomic_exchange_n(said, true, __ATOMIC_RELAXED) && !getenv("SOFTGPU_QUIET"))
		fprintf(stderr, "softgpu: %s is not supported\n", name);
	return NOT_SUPPORTED;
}

#define BODY(name)                                                   \
	__attribute__((weak, visibility("default"))) int name(void); \
	__attribute__((weak, visibility("default"))) int name(void)  \
	{                                                            \
		static bool said;                                    \
		return refuse(#name, &said);                         \
	}
#define X BODY
#if CUDART_MAJOR == 12
#define X12 BODY
#define X13(name)
#else
#define X12(name)
#define X13 BODY
#endif
#include "tests/softgpu/cudart/exports.def"
