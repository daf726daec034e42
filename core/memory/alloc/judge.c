/* Judging. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/judge.h"

#include "core/cuda/idle.h"
#include "core/memory/uses/overhead.h"

static CUresult try_tiny(void)
{
	CUdeviceptr tiny;
	CUresult result = driver.cuMemAlloc_v2(&tiny, 1);

	if (result == CUDA_SUCCESS) {
		driver.cuMemFree_v2(tiny);
		overhead_note(); /* the driver's page was its own for a moment */
	}
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

CUresult judge(const struct context *context, bool in_pool, uint64_t now_ns)
{
	CUresult result = idle_judge(context, now_ns);

	if (result == CUDA_SUCCESS)
		return result;
	/* From a pool it may allocate in other streams. */
	if (idle_is_refused(result))
		return in_pool ? CUDA_SUCCESS : try_tiny();
	return try_tiny() == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
