/* SPDX-License-Identifier: MIT */
/*
 * Another library that is preloaded and stands before the driver. It wraps dlopen and
 * cuMemAlloc_v2, each by the next function of that name. At exit it says on stderr how often it was
 * called.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>

int cuMemAlloc_v2(unsigned long long *address, size_t size);

static _Atomic unsigned long opened, allocated;

void *dlopen(const char *file, int mode)
{
	void *(*next)(const char *, int);

	*(void **)&next = dlsym(RTLD_NEXT, "dlopen");
	opened++;
	return next(file, mode);
}

int cuMemAlloc_v2(unsigned long long *address, size_t size)
{
	int (*next)(unsigned long long *, size_t);

	*(void **)&next = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
	allocated++;
	return next ? next(address, size) : 999;
}

__attribute__((destructor)) static void say_counts(void)
{
	fprintf(stderr, "neighbour_preload: dlopen=%lu cuMemAlloc=%lu\n", opened, allocated);
}
