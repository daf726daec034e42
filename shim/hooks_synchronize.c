/* Waiting for the GPU: then memory can be given back, and moved. */
#include "shim/shim.h"

#include "core/job/job.h"
#include "core/memory/alloc/free.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/move/lull.h"

/* Where work is waited for, the driver gives back what its pools need not keep. */
#define SETTLED(call)                  \
	({                             \
		KEEP_ERRNO;            \
		CUresult result_;      \
		job_break();           \
		result_ = (call);      \
		if (job_is_active())   \
			vmem_waited(); \
		result_;               \
	})

static CUresult all_is_done(CUresult result)
{
	KEEP_ERRNO;

	if (result == CUDA_SUCCESS && job_is_active())
		freed_settle();
	return result;
}

/*
 * Notes that the program has waited. Comes last: what else is to be done now would wait for what
 * moves.
 */
static CUresult waited(CUresult result)
{
	if (result == CUDA_SUCCESS)
		lull_has_come();
	return result;
}

HOOK(cuCtxSynchronize, void)
{
	return waited(all_is_done(SETTLED(REAL(cuCtxSynchronize)())));
}

HOOK(cuCtxSynchronize_v2, CUcontext ctx)
{
	return waited(all_is_done(SETTLED(REAL(cuCtxSynchronize_v2)(ctx))));
}

HOOK(cuEventSynchronize, CUevent hEvent)
{
	return waited(SETTLED(REAL(cuEventSynchronize)(hEvent)));
}

HOOK(cuStreamSynchronize, CUstream hStream)
{
	return waited(SETTLED(REAL(cuStreamSynchronize)(hStream)));
}

HOOK(cuStreamSynchronize_ptsz, CUstream hStream)
{
	return waited(SETTLED(REAL(cuStreamSynchronize_ptsz)(hStream)));
}
