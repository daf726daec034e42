/* cuInit: where Spillway's part in the process begins. */
#include "shim/shim.h"

#include "core/job.h"

HOOK(cuInit, unsigned int Flags)
{
	CUresult result = REAL(cuInit)(Flags);

	if (result == CUDA_SUCCESS)
		job_start();
	return result;
}
