/* SPDX-License-Identifier: MIT */
/*
 * All functions of a library (EXPORTS names its list): a weak body that refuses for each. A
 * definition anywhere else takes its place.
 */
#include "tests/softgpu/cublas/blas.h"

#define X(name)                                                      \
	__attribute__((weak, visibility("default"))) int name(void); \
	__attribute__((weak, visibility("default"))) int name(void)  \
	{                                                            \
		return blas_refuse(#name, "");                       \
	}
#include EXPORTS
