/* SPDX-License-Identifier: MIT */
/*
 * All functions of the driver: a weak body that refuses for each, and the table of them. Where the
 * software GPU implements one, its definition takes the place of the weak one.
 */
#include "tests/softgpu/entry_points.h"

#include <stddef.h>

#include "tests/softgpu/config.h"

#define NOT_SUPPORTED 801 /* CUDA_ERROR_NOT_SUPPORTED */

static int refuse(const char *symbol, bool *said)
{
	if (!__atomic_exchange_n(said, true, __ATOMIC_RELAXED))
		say("%s is not supported", symbol);
	return NOT_SUPPORTED;
}

#define X(symbol, name, version, per_thread)                           \
	__attribute__((weak, visibility("default"))) int symbol(void); \
	__attribute__((weak, visibility("default"))) int symbol(void)  \
	{                                                              \
		static bool said;                                      \
		return refuse(#symbol, &said);                         \
	}
#include "tests/softgpu/entry_points.def"
#undef X

const struct entry_point entry_points[] = {
#define X(symbol, name, version, per_thread) {#symbol, name, version, per_thread, symbol},
#include "tests/softgpu/entry_points.def"
#undef X
    {0},
};
