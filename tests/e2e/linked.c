/* SPDX-License-Identifier: MIT */
/*
 * linked: is linked to every function of the driver. It calls those that are newer than CUDA 13.0
 * without arguments, and prints each answer. It stays clear of cuda.h, where they are types.
 */
#include <stdio.h>

#define X(symbol, name, version, per_thread) extern int symbol(void *, void *, void *, void *);
#include "tests/softgpu/entry_points.def"
#undef X

/* By the address, and by a call that the loader resolves. */
struct linked {
	const char *symbol;
	int version;
	int (*address)(void *, void *, void *, void *);
	int (*call)(void);
};

#define X(symbol, name, version, per_thread)           \
	static int call_##symbol(void)                 \
	{                                              \
		return symbol(NULL, NULL, NULL, NULL); \
	}
#include "tests/softgpu/entry_points.def"
#undef X

static const struct linked all[] = {
#define X(symbol, name, version, per_thread) {#symbol, version, symbol, call_##symbol},
#include "tests/softgpu/entry_points.def"
#undef X
};

int main(void)
{
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		if (all[i].version > 13000)
			printf("%s %d %d\n", all[i].symbol, all[i].call(),
			       all[i].address(NULL, NULL, NULL, NULL));
	return 0;
}
