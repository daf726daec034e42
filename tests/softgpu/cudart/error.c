/* SPDX-License-Identifier: MIT */
/* Errors: their names and texts, and the last one of each thread. */
#include "tests/softgpu/cudart/cudart.h"

static _Thread_local cudaError_t last_error;

cudaError_t finish(int error)
{
	if (error != cudaSuccess)
		last_error = (cudaError_t)error;
	return (cudaError_t)error;
}

cudaError_t pending_error(void)
{
	return last_error;
}

/* What broke a context is answered by every later call; forgetting it here does not mend that. */
EXPORT cudaError_t cudaGetLastError(void)
{
	cudaError_t error = last_error;
	last_error = cudaSuccess;
	return error;
}

EXPORT cudaError_t cudaPeekAtLastError(void)
{
	return last_error;
}

EXPORT const char *cudaGetErrorName(cudaError_t error)
{
	switch (error) {
#define X(name, text) \
	case name:    \
		return #name;
#include "tests/softgpu/cudart/errors.def"
#undef X
	default:
		return "unrecognized error code";
	}
}

EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	switch (error) {
#define X(name, text) \
	case name:    \
		return text;
#include "tests/softgpu/cudart/errors.def"
#undef X
	default:
		return "unrecognized error code";
	}
}

/* --- the driver's log, from CUDA 13 on --- */

#if CUDART_MAJOR != 12
EXPORT cudaError_t cudaLogsRegisterCallback(cudaLogsCallback_t function, void *data,
                                            cudaLogsCallbackHandle *handle)
{
	RUN(driver.cuLogsRegisterCallback((CUlogsCallback)function, data,
	                                  (CUlogsCallbackHandle *)handle));
}

EXPORT cudaError_t cudaLogsUnregisterCallback(cudaLogsCallbackHandle handle)
{
	RUN(driver.cuLogsUnregisterCallback((CUlogsCallbackHandle)handle));
}

EXPORT cudaError_t cudaLogsCurrent(cudaLogIterator *iterator, unsigned int flags)
{
	RUN(driver.cuLogsCurrent(iterator, flags));
}

EXPORT cudaError_t cudaLogsDumpToFile(cudaLogIterator *iterator, const char *path,
                                      unsigned int flags)
{
	RUN(driver.cuLogsDumpToFile(iterator, path, flags));
}

EXPORT cudaError_t cudaLogsDumpToMemory(cudaLogIterator *iterator, char *buffer, size_t *size,
                                        unsigned int flags)
{
	RUN(driver.cuLogsDumpToMemory(iterator, buffer, size, flags));
}
#endif
