/* SPDX-License-Identifier: MIT */
/*
 * An injection library: the driver loads it in cuInit, and it calls the driver by the program's
 * names. Built with INSIDE_CALLS it does so in the midst of the program's calls, too, as profilers
 * do.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

int InitializeInjection(void);
int InitializeInjection(void)
{
	int (*init)(unsigned int), (*version_of)(int *), (*allocate)(uint64_t *, size_t);
	int (*create)(void **, unsigned int, int);
	int version = 0;
	void *context;
	uint64_t p = 0;

	*(void **)&init = dlsym(RTLD_DEFAULT, "cuInit");
	*(void **)&version_of = dlsym(RTLD_DEFAULT, "cuDriverGetVersion");
	*(void **)&create = dlsym(RTLD_DEFAULT, "cuCtxCreate_v2");
	*(void **)&allocate = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
	if (!init || !version_of || !create || !allocate)
		return 0;
	printf("injection: cuInit %d", init(0));
	printf(" version %d", version_of(&version) ? -1 : version);
	printf(" context %d", create(&context, 0, 0));
	printf(" alloc %d\n", allocate(&p, 4096));
	return p != 0;
}

#ifdef INSIDE_CALLS
void InsideCall(void);
void InsideCall(void)
{
	static int depth, object;
	int (*allocate)(uint64_t *, size_t), (*release)(uint64_t);
	int (*launch)(void *, int, int, int, int, int, int, int, void *, void **, void **);
	uint64_t p = 0;

	if (depth)
		return;
	depth++;
	*(void **)&allocate = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
	*(void **)&release = dlsym(RTLD_DEFAULT, "cuMemFree_v2");
	*(void **)&launch = dlsym(RTLD_DEFAULT, "cuLaunchKernel");
	if (allocate(&p, 2 << 20) || launch(&object, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) ||
	    release(p))
		printf("InsideCall: refused\n");
	depth--;
}
#endif
