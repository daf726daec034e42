/* SPDX-License-Identifier: MIT */
/* Finds glibc's dlopen and dlmopen behind ours. */
#include "shim/real_dlopen.h"

#include <stddef.h>

void *(*shim_real_dlopen)(const char *file, int mode);
void *(*shim_real_dlmopen)(Lmid_t namespace, const char *file, int mode);

static void *no_dlopen(const char *file, int mode)
{
	(void)file;
	(void)mode;
	return NULL;
}

static void *no_dlmopen(Lmid_t namespace, const char *file, int mode)
{
	(void)namespace;
	(void)file;
	(void)mode;
	return NULL;
}

/*
 * Finds the next function of this name, or else `otherwise`. Every caller finds the same address,
 * so a race is harmless.
 */
static void find_real(void **real, const char *symbol, void *otherwise)
{
	if (!__atomic_load_n(real, __ATOMIC_RELAXED)) {
		void *found = dlsym(RTLD_NEXT, symbol);

		__atomic_store_n(real, found ? found : otherwise, __ATOMIC_RELAXED);
	}
}

void shim_find_real_dlopen(void)
{
	find_real((void **)&shim_real_dlopen, "dlopen", (void *)no_dlopen);
}

void shim_find_real_dlmopen(void)
{
	find_real((void **)&shim_real_dlmopen, "dlmopen", (void *)no_dlmopen);
}
