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

/* The first forms have the same parameters as the second, on 64-bit machines. */
HOOK(cuCtxCreate, CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return note_current(REAL(cuCtxCreate)(pctx, flags, dev));
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
static CUresult destroy(CUcontext ctx, CUresult (*real)(CUcontext))
{
	KEEP_ERRNO;
	CUresult result;

	if (!job_is_active())
		return real(ctx);
	job_leave_context(ctx, true);
	result = real(ctx);
	if (result == CUDA_SUCCESS)
		context_forget(ctx);
	return result;
}

HOOK(cuCtxDestroy, CUcontext ctx)
{
	return destroy(ctx, REAL(cuCtxDestroy));
}

HOOK(cuCtxDestroy_v2, CUcontext ctx)
{
	return destroy(ctx, REAL(cuCtxDestroy_v2));
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

static CUresult release_primary(CUdevice dev, CUresult (*real)(CUdevice))
{
	KEEP_ERRNO;
	CUcontext primary = NULL;
	bool known = find_primary(dev, &primary);
	CUresult result = real(dev);
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

HOOK(cuDevicePrimaryCtxRelease, CUdevice dev)
{
	return release_primary(dev, REAL(cuDevicePrimaryCtxRelease));
}

HOOK(cuDevicePrimaryCtxRelease_v2, CUdevice dev)
{
	return release_primary(dev, REAL(cuDevicePrimaryCtxRelease_v2));
}

static CUresult reset_primary(CUdevice dev, CUresult (*real)(CUdevice))
{
	KEEP_ERRNO;
	CUcontext primary = NULL;
	bool known = find_primary(dev, &primary);
	CUresult result;

	if (known)
		job_leave_context(primary, true);
	result = real(dev);
	if (known && result == CUDA_SUCCESS)
		context_forget(primary);
	return result;
}

HOOK(cuDevicePrimaryCtxReset, CUdevice dev)
{
	return reset_primary(dev, REAL(cuDevicePrimaryCtxReset));
}

HOOK(cuDevicePrimaryCtxReset_v2, CUdevice dev)
{
	return reset_primary(dev, REAL(cuDevicePrimaryCtxReset_v2));
}
