/* SPDX-License-Identifier: MIT */
/* Profiler control: accepted, as without a profiler attached. */
#include "tests/softgpu/driver.h"

/* Declared in cudaProfiler.h, which not every set of headers has. */
EXPORT CUresult cuProfilerStart(void);
EXPORT CUresult cuProfilerStop(void);

static CUresult accept(const char *call)
{
	CUresult result = enter_driver(call);
	return result == CUDA_SUCCESS ? leave(CUDA_SUCCESS) : result;
}

EXPORT CUresult cuProfilerStart(void)
{
	return accept(__func__);
}

EXPORT CUresult cuProfilerStop(void)
{
	return accept(__func__);
}
