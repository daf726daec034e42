/* SPDX-License-Identifier: MIT */
/*
 * glibc's dlopen and dlmopen: those of that name are ours (trampolines.S).
 */
#ifndef SPILLWAY_SHIM_REAL_DLOPEN_H
#define SPILLWAY_SHIM_REAL_DLOPEN_H

#include <dlfcn.h>

/* NULL until they are looked for; then never. */
extern void *(*shim_real_dlopen)(const char *file, int mode);
extern void *(*shim_real_dlmopen)(Lmid_t namespace, const char *file, int mode);
void shim_find_real_dlopen(void);
void shim_find_real_dlmopen(void);

/* Calls glibc's dlopen, which has been looked for; another thread may write down the same again. */
static inline void *real_dlopen(const char *file, int mode)
{
	void *(*real)(const char *, int) = __atomic_load_n(&shim_real_dlopen, __ATOMIC_RELAXED);

	return real(file, mode);
}

#endif
