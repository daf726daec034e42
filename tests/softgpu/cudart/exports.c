/*
 * All functions of libcudart.so.13: a weak body that refuses for each, in whose place comes a
 * definition anywhere else.
 */
#include <stdio.h>
#include <stdlib.h>

#define NOT_SUPPORTED 801 /* cudaErrorNotSupported */

static int refuse(const char *name)
{
	if (!getenv("SOFTGPU_QUIET"))
		fprintf(stderr, "softgpu: %s is not supported\n", name);
	return NOT_SUPPORTED;
}

#define X(name)                                                      \
	__attribute__((weak, visibility("default"))) int name(void); \
	__attribute__((weak, visibility("default"))) int name(void)  \
	{                                                            \
		return refuse(#name);                                \
	}
#include "tests/softgpu/cudart/exports.def"
#undef X
