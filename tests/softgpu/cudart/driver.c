/* SPDX-License-Identifier: MIT */
/*
 * The driver, opened as libcudart does: dlopen by name, then cuGetProcAddress_v2 for each function.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/softgpu/cudart/cudart.h"

struct driver driver;
static int state_of_driver;
static __typeof__(cuGetProcAddress_v2) *resolve;

/* Stands for whatever an older driver does not have. */
static CUresult missing(void)
{
	return (CUresult)cudaErrorCallRequiresNewerDriver;
}

static void ask(void *field, const char *name, int version, cuuint64_t flags)
{
	void *function = NULL;
	CUdriverProcAddressQueryResult status;
	if (resolve(name, &function, version, flags, &status) != CUDA_SUCCESS || !function)
		function = (void *)missing;
	*(void **)field = function;
}

static void open_once(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library)
		*(void **)&resolve = dlsym(library, "cuGetProcAddress_v2");
	if (!resolve) {
		if (!getenv("SOFTGPU_QUIET"))
			fprintf(stderr, "softgpu: no driver: %s\n", dlerror());
		state_of_driver = cudaErrorInsufficientDriver;
		return;
	}
#define CALL(name, version, like) ask(&driver.name, #name, version, 0);
#define CALL_ON_STREAM(name, version, twin_version, like)  \
	ask(&driver.name[LEGACY], #name, version, 0);      \
	ask(&driver.name[PER_THREAD], #name, twin_version, \
	    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
#include "tests/softgpu/cudart/requests.def"
#undef CALL
#undef CALL_ON_STREAM

	int version = 0;
	state_of_driver = (int)driver.cuInit(0);
	if (state_of_driver == cudaSuccess && driver.cuDriverGetVersion(&version) == CUDA_SUCCESS &&
	    version < RUNTIME_VERSION / 1000 * 1000)
		state_of_driver = cudaErrorInsufficientDriver;
}

int open_driver(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, open_once);
	return state_of_driver;
}

EXPORT cudaError_t cudaRuntimeGetVersion(int *version)
{
	if (!version)
		return finish(cudaErrorInvalidValue);
	*version = RUNTIME_VERSION;
	return cudaSuccess;
}

EXPORT cudaError_t cudaDriverGetVersion(int *version)
{
	if (!version)
		return finish(cudaErrorInvalidValue);
	open_driver();
	/* No driver is version 0, and no error. */
	*version = 0;
	return resolve ? finish((int)driver.cuDriverGetVersion(version)) : cudaSuccess;
}

static cudaError_t cudaGetDriverEntryPointByVersion_on(enum twin twin, const char *name,
                                                       void **function, unsigned int version,
                                                       unsigned long long flags,
                                                       enum cudaDriverEntryPointQueryResult *status)
{
	int error = open_driver();
	if (error != cudaSuccess)
		return finish(error);
	if (flags == cudaEnableDefault && twin == PER_THREAD)
		flags = cudaEnablePerThreadDefaultStream;
	return finish((int)driver.cuGetProcAddress(name, function, (int)version, flags,
	                                           (CUdriverProcAddressQueryResult *)status));
}

EXPORT_TWINS(cudaGetDriverEntryPointByVersion, _ptsz,
             (const char *name, void **function, unsigned int version, unsigned long long flags,
              enum cudaDriverEntryPointQueryResult *status),
             name, function, version, flags, status)

static cudaError_t cudaGetDriverEntryPoint_on(enum twin twin, const char *name, void **function,
                                              unsigned long long flags,
                                              enum cudaDriverEntryPointQueryResult *status)
{
	return cudaGetDriverEntryPointByVersion_on(twin, name, function, RUNTIME_VERSION, flags,
	                                           status);
}

EXPORT_TWINS(cudaGetDriverEntryPoint, _ptsz,
             (const char *name, void **function, unsigned long long flags,
              enum cudaDriverEntryPointQueryResult *status),
             name, function, flags, status)
