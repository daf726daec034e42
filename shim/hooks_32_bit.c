/* SPDX-License-Identifier: MIT */
/*
 * The forms from before CUDA 3.2, with sizes and addresses of 32 bits.
 *
 * No memory of ours is at such an address, so they go straight to the driver. It answers them as it
 * would without us, and memory that it gives by them is in no books. Those that take device memory
 * are refused where memory is limited, or it would be beyond the limit.
 */
#include "core/budget/device.h"
#include "core/budget/terms.h"
#include "core/cuda/context.h"
#include "core/job/job.h"
#include "shim/shim.h"

static bool form_32_bit_is_limited(void)
{
	KEEP_ERRNO;
	struct context context;

	return job_is_active() && context_current(&context) &&
	       terms_of(context.device).limit != CONFIG_UNLIMITED;
}

#define REFUSED_WHERE_LIMITED(symbol, ...)                                                    \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                           \
	{                                                                                     \
		return form_32_bit_is_limited() ? CUDA_ERROR_NOT_SUPPORTED                    \
		                                : REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)); \
	}

REFUSED_WHERE_LIMITED(cuMemAlloc, (CUdeviceptr_v1 *, dptr), (unsigned int, bytesize))
REFUSED_WHERE_LIMITED(cuMemAllocPitch, (CUdeviceptr_v1 *, dptr), (unsigned int *, pPitch),
                      (unsigned int, WidthInBytes), (unsigned int, Height),
                      (unsigned int, ElementSizeBytes))
REFUSED_WHERE_LIMITED(cuArrayCreate, (CUarray *, pHandle),
                      (const CUDA_ARRAY_DESCRIPTOR_v1 *, pAllocateArray))
REFUSED_WHERE_LIMITED(cuArray3DCreate, (CUarray *, pHandle),
                      (const CUDA_ARRAY3D_DESCRIPTOR_v1 *, pAllocateArray))
