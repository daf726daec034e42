/* SPDX-License-Identifier: MIT */
/*
 * A driver that breaks as real ones were seen to. It opens, and then cuMemCreate kills the process
 * or never comes back. With BROKEN_DRIVER=hangs it is also deaf to signals that can be caught. For
 * tests of the answers from such a driver.
 */
#include <cuda.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT CUresult cuInit(unsigned flags)
{
	(void)flags;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	*device = ordinal;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	(void)device;
	*context = (CUcontext)&cuInit;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
	(void)context;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	(void)flags;
	*stream = (CUstream)&cuInit;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *base, size_t size, size_t alignment,
                                    CUdeviceptr wanted, unsigned long long flags)
{
	(void)size, (void)alignment, (void)wanted, (void)flags;
	*base = 1u << 21;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                            const CUmemAllocationProp *properties, unsigned long long flags)
{
	const char *how = getenv("BROKEN_DRIVER");
	sigset_t all;

	(void)handle, (void)size, (void)properties, (void)flags;
	if (!how || strcmp(how, "hangs") != 0) {
		signal(SIGSEGV, SIG_DFL); /* a sanitizer has one of its own */
		raise(SIGSEGV);
	}
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (;;)
		pause();
}
