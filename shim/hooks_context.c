/* Contexts: what was made in one goes with it. */
#include "shim/shim.h"

#include "core/job.h"

/* Enters the context now current into the books. */
static CUresult note_current(CUresult result)
{
	KEEP_ERRNO;
	struct context context;

	if (result == CUDA_SUCCESS && job_is_active())
		context_current(&context);
	return result;
}

HOOK(cuCtxCreate_v2, CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return note_current(REAL(cuCtxCreate_v2)(pctx, flags, dev));
}

HOOK(cuCtxCreate_v3, CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
     unsigned int flags, CUdevice dev)
{
	return note_current(REAL(cuCtxCreate_v3)(pctx, paramsArray, numParams, flags, dev));
}

HOOK(cuCtxCreate_v4, CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
     CUdevice dev)
{
	return note_current(REAL(cuCtxCreate_v4)(pctx, ctxCreateParams, flags, dev));
}

/* The books are closed after the driver agreed, our own memory before: it needs the context. */
HOOK(cuCtxDestroy_v2, CUcontext ctx)
{
	KEEP_ERRNO;
	CUresult result;

	if (!job_is_active())
		return REAL(cuCtxDestroy_v2)(ctx);
	job_leave_context(ctx, true);
	result = REAL(cuCtxDestroy_v2)(ctx);
	if (result == CUDA_SUCCESS)
		context_forget(ctx);
	return result;
}

static bool find_primary(CUdevice dev, CUcontext *primary)
{
	unsigned int flags;
	int is_active = 0;
	CUcontext context;
	struct context known;

	if (!job_is_active() ||
	    REAL(cuDevicePrimaryCtxGetState)(dev, &flags, &is_active) != CUDA_SUCCESS || !is_active)
		return false;
	/* Retaining tells its handle; the reference is given back at once. */
	if (REAL(cuDevicePrimaryCtxRetain)(&context, dev) != CUDA_SUCCESS)
		return false;
	REAL(cuDevicePrimaryCtxRelease_v2)(dev);
	*primary = context;
	return context_find(context, &known);
}

HOOK(cuDevicePrimaryCtxRelease_v2, CUdevice dev)
{
	KEEP_ERRNO;
	CUcontext primary = NULL;
	bool known = find_primary(dev, &primary);
	CUresult result = REAL(cuDevicePrimaryCtxRelease_v2)(dev);
	unsigned int flags;
	int is_active = 1;

	/* Whether this was the last reference is known only now. */
	if (known && result == CUDA_SUCCESS &&
	    REAL(cuDevicePrimaryCtxGetState)(dev, &flags, &is_active) == CUDA_SUCCESS &&
	    !is_active) {
		job_leave_context(primary, false);
		context_forget(primary);
	}
	return result;
}

HOOK(cuDevicePrimaryCtxReset_v2, CUdevice dev)
{
	KEEP_ERRNO;
	CUcontext primary = NULL;
	bool known = find_primary(dev, &primary);
	CUresult result;

	if (known)
		job_leave_context(primary, true);
	result = REAL(cuDevicePrimaryCtxReset_v2)(dev);
	if (known && result == CUDA_SUCCESS)
		context_forget(primary);
	return result;
}
