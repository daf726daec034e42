/* SPDX-License-Identifier: MIT */
/*
 * unlisted: is linked to a driver that is newer than Spillway (later_driver.c). It calls the
 * driver's functions in each way in which a program gets them. It prints each answer.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/e2e/later_driver.h"

#define TEXT             "seven"
#define ALL              1, 2.5, TEXT, 3.5f, 4L, 5L, 6L, 7L, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15L
#define CHECK(name, got) printf("%s: %g\n", name, (double)(got))

static __typeof__(cuInventedSum) *const address = cuInventedSum;

static void check_found(const char *name, void *function)
{
	__typeof__(cuInventedSum) *found = (__typeof__(cuInventedSum) *)function;

	CHECK(name, found ? found(ALL) : -1);
}

static void check_handle(const char *file)
{
	void *library = dlopen(file, RTLD_NOW);

	check_found(file, library ? dlsym(library, "cuInventedSum") : NULL);
	printf("%s: cuMemAlloc_v2 is %s\n", file,
	       library && dlsym(library, "cuMemAlloc_v2") == dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")
	           ? "the program's"
	           : "another");
	if (library)
		dlclose(library);
}

int main(void)
{
	CUcontext context = NULL, current = NULL;
	void *function = NULL;

	CHECK("before cuInit", cuInventedScale(2));
	if (cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
	    cuCtxSetCurrent(context) != CUDA_SUCCESS)
		return 1;
	errno = ENOTTY;
	CHECK("called", cuInventedSum(ALL));
	CHECK("errno is kept", errno == ENOTTY);
	CHECK("called again", cuInventedSum(ALL));
	CHECK("its address", address(ALL));
	CHECK("a double", cuInventedScale(1.5));
	CHECK("the context is the driver's",
	      cuInventedContext(&current) == CUDA_SUCCESS && current == context && context != NULL);
	check_found("dlsym of all", dlsym(RTLD_DEFAULT, "cuInventedSum"));
	check_handle("libcuda.so.1");
	check_handle("libcuda.so");
	cuGetProcAddress("cuInventedSum", &function, 13060, 0, NULL);
	check_found("cuGetProcAddress", function);
	CHECK("a newer form", cuMemMap_v8(1, 1));
	CHECK("a newer form again", cuMemMap_v8(1, 1));
	return 0;
}
