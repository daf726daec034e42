/* SPDX-License-Identifier: MIT */
/* cuInit: where Spillway's part in the process begins. */
#include "shim/shim.h"

#include "core/job/job.h"
#include "shim/attach.h"
#include "shim/nvml.h"

/*
 * A library that the driver loads in cuInit (CUDA_INJECTION64_PATH) may call it again, before it is
 * done.
 */
static __thread bool initialising __attribute__((tls_model("initial-exec")));

HOOK(cuInit, unsigned int Flags)
{
	CUresult result;

	if (initialising)
		return REAL(cuInit)(Flags);
	initialising = true;
	result = REAL(cuInit)(Flags);
	initialising = false;
	if (result == CUDA_SUCCESS) {
		nvml_tells_used();
		if (!job_start()) {
			shim_refuse();
			result = CUDA_ERROR_NOT_PERMITTED;
		}
	}
	return result;
}
