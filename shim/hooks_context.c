/* Contexts: what was made in one goes with it. */
#include "shim/interop.h"
#include "shim/track.h"

#include "core/job.h"
#include "core/memory/peer.h"

/* --- made --- */

static struct measuring begin_making(CUdevice dev)
{
	KEEP_ERRNO;
	struct measuring measuring = {0};

	if (job_is_active())
		measured_begin_context(&measuring, device_set_by_handle(job_devices(), dev));
	return measuring;
}

static void end_making(const struct measuring *measuring, CUcontext made, CUdevice dev)
{
	KEEP_ERRNO;
	struct context stale;

	if (!job_is_active())
		return;
	/* One of this handle ended without our seeing it, and all that was in it. */
	if (made && context_find(made, &stale)) {
		job_leave_context(made, false);
		job_left_context(made);
	}
	if (made)
		context_enter(made, dev, NULL);
	measured_end_context(measuring, made);
}

/* What a context takes is charged to it. The first forms have the second's parameters, on 64-bit machines. */
#define MAKES_CONTEXT(symbol, out, dev, ...)                                                  \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                           \
	{                                                                                     \
		struct measuring measuring = begin_making(dev);                               \
		CUresult result = REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__));                 \
		end_making(&measuring, result == CUDA_SUCCESS && (out) ? *(out) : NULL, dev); \
		return result;                                                                \
	}

MAKES_CONTEXT(cuCtxCreate, pctx, dev, (CUcontext *, pctx), (unsigned int, flags), (CUdevice, dev))
MAKES_CONTEXT(cuCtxCreate_v2, pctx, dev, (CUcontext *, pctx), (unsigned int, flags),
              (CUdevice, dev))
MAKES_CONTEXT(cuCtxCreate_v3, pctx, dev, (CUcontext *, pctx), (CUexecAffinityParam *, paramsArray),
              (int, numParams), (unsigned int, flags), (CUdevice, dev))
MAKES_CONTEXT(cuCtxCreate_v4, pctx, dev, (CUcontext *, pctx), (CUctxCreateParams *, params),
              (unsigned int, flags), (CUdevice, dev))
MAKES_CONTEXT(cuGLCtxCreate, pCtx, device, (CUcontext *, pCtx), (unsigned int, Flags),
              (CUdevice, device))
MAKES_CONTEXT(cuGLCtxCreate_v2, pCtx, device, (CUcontext *, pCtx), (unsigned int, Flags),
              (CUdevice, device))
MAKES_CONTEXT(cuVDPAUCtxCreate, pCtx, device, (CUcontext *, pCtx), (unsigned int, flags),
              (CUdevice, device), (vdp_handle, vdpDevice),
              (vdp_get_proc_address *, vdpGetProcAddress))
MAKES_CONTEXT(cuVDPAUCtxCreate_v2, pCtx, device, (CUcontext *, pCtx), (unsigned int, flags),
              (CUdevice, device), (vdp_handle, vdpDevice),
              (vdp_get_proc_address *, vdpGetProcAddress))

static bool primary_is_active(CUdevice dev)
{
	unsigned int flags;
	int is_active = 0;

	return REAL(cuDevicePrimaryCtxGetState)(dev, &flags, &is_active) == CUDA_SUCCESS &&
	       is_active;
}

HOOK(cuDevicePrimaryCtxRetain, CUcontext *pctx, CUdevice dev)
{
	KEEP_ERRNO;
	struct measuring measuring = {0};
	bool is_new = job_is_active() && !primary_is_active(dev);
	CUresult result;

	if (is_new)
		measuring = begin_making(dev);
	result = REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
	if (result == CUDA_SUCCESS && pctx && job_is_active())
		context_enter(*pctx, dev, NULL);
	if (is_new)
		measured_end_context(&measuring, result == CUDA_SUCCESS && pctx ? *pctx : NULL);
	return result;
}

/* Stacks, heaps and buffers of the device's own. */
HOOK(cuCtxSetLimit, CUlimit limit, size_t value)
{
	CUcontext current = NULL;

	REAL(cuCtxGetCurrent)(&current);
	return MEASURED(REAL(cuCtxSetLimit)(limit, value), HANDLE(current), MEASURED_MOST_OBJECT);
}

/* --- current --- */

/* Enters the context now current into the books: the program may have it from elsewhere. */
static CUresult note_current(CUresult result)
{
	KEEP_ERRNO;
	struct context context;

	if (result == CUDA_SUCCESS && job_is_active())
		context_current(&context);
	return result;
}

HOOK(cuCtxPushCurrent, CUcontext ctx)
{
	return note_current(REAL(cuCtxPushCurrent)(ctx));
}

HOOK(cuCtxPushCurrent_v2, CUcontext ctx)
{
	return note_current(REAL(cuCtxPushCurrent_v2)(ctx));
}

HOOK(cuCtxPopCurrent, CUcontext *pctx)
{
	return note_current(REAL(cuCtxPopCurrent)(pctx));
}

HOOK(cuCtxPopCurrent_v2, CUcontext *pctx)
{
	return note_current(REAL(cuCtxPopCurrent_v2)(pctx));
}

HOOK(cuCtxSetCurrent, CUcontext ctx)
{
	return note_current(REAL(cuCtxSetCurrent)(ctx));
}

/* --- destroyed --- */

/* The books are closed after the driver agreed, our own memory before: it needs the context. */
static CUresult destroy(CUcontext ctx, CUresult (*real)(CUcontext))
{
	KEEP_ERRNO;
	struct leaving cost;
	CUresult result;

	if (!job_is_active())
		return PASSING_GATE(real(ctx));
	job_leave_context(ctx, true);
	cost = begin_forgetting(HANDLE(ctx));
	context_close(ctx);
	result = PASSING_GATE(real(ctx));
	end_forgetting(&cost, result);
	if (result == CUDA_SUCCESS)
		job_left_context(ctx);
	else
		context_reopen(ctx);
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

HOOK(cuCtxAttach, CUcontext *pctx, unsigned int flags)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuCtxAttach)(pctx, flags);

	if (result == CUDA_SUCCESS && pctx && job_is_active())
		context_use(*pctx, 1);
	return result;
}

/* The last one destroys. */
HOOK(cuCtxDetach, CUcontext ctx)
{
	KEEP_ERRNO;
	CUresult result;

	if (!job_is_active() || context_use(ctx, 0) <= 1)
		return destroy(ctx, REAL(cuCtxDetach));
	result = PASSING_GATE(REAL(cuCtxDetach)(ctx));
	if (result == CUDA_SUCCESS)
		context_use(ctx, -1);
	return result;
}

static bool find_primary(CUdevice dev, CUcontext *primary)
{
	CUcontext context;
	struct context known;

	if (!job_is_active() || !primary_is_active(dev))
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
	CUresult result;

	if (known)
		context_close(primary);
	result = PASSING_GATE(real(dev));
	/* Whether this was the last reference is known only now. */
	if (known && result == CUDA_SUCCESS && !primary_is_active(dev)) {
		struct leaving cost = begin_forgetting(HANDLE(primary));

		job_leave_context(primary, false);
		end_forgetting(&cost, result);
		job_left_context(primary);
	} else if (known) {
		context_reopen(primary);
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
	struct leaving cost = {0};
	CUresult result;

	if (known) {
		job_leave_context(primary, true);
		cost = begin_forgetting(HANDLE(primary));
		context_close(primary);
	}
	result = PASSING_GATE(real(dev));
	if (known) {
		end_forgetting(&cost, result);
		if (result == CUDA_SUCCESS)
			job_left_context(primary);
		else
			context_reopen(primary);
	}
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

/* --- other devices' memory --- */

/* In the books of the context that may now reach, by the one that is reached. */
HOOK(cuCtxEnablePeerAccess, CUcontext peerContext, unsigned int Flags)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuCtxEnablePeerAccess)(peerContext, Flags);
	struct context own, peer;

	if (result != CUDA_SUCCESS)
		return result;
	track(&object_type_peer_access, HANDLE(peerContext), 0);
	if (job_is_active() && context_current(&own) && context_find(peerContext, &peer))
		peer_reaches(peer.device, own.device);
	return result;
}

DESTROYS(cuCtxDisablePeerAccess, peer_access, peerContext, (CUcontext, peerContext))

/* --- green contexts: parts of a device's multiprocessors --- */

HOOK(cuGreenCtxCreate, CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	return CREATED_MEASURED(REAL(cuGreenCtxCreate)(phCtx, desc, dev, flags), green_context,
	                        phCtx);
}

/* Its context is met now; which device it is of, it says itself. */
HOOK(cuCtxFromGreenCtx, CUcontext *pContext, CUgreenCtx hCtx)
{
	KEEP_ERRNO;
	CUresult result = REAL(cuCtxFromGreenCtx)(pContext, hCtx);
	CUdevice dev = 0;
	CUcontext popped;

	if (result != CUDA_SUCCESS || !pContext || !job_is_active() ||
	    REAL(cuCtxPushCurrent_v2)(*pContext) != CUDA_SUCCESS)
		return result;
	if (REAL(cuCtxGetDevice)(&dev) == CUDA_SUCCESS)
		context_enter(*pContext, dev, hCtx);
	REAL(cuCtxPopCurrent_v2)(&popped);
	return result;
}

HOOK(cuGreenCtxDestroy, CUgreenCtx hCtx)
{
	KEEP_ERRNO;
	struct context own;
	bool has_context = job_is_active() && context_of_green(hCtx, &own);
	CUresult result;

	if (has_context) {
		job_leave_context(own.handle, true);
		context_close(own.handle);
	}
	result =
	    DESTROYED_MEASURED(PASSING_GATE(REAL(cuGreenCtxDestroy)(hCtx)), green_context, hCtx);
	if (has_context && result == CUDA_SUCCESS)
		job_left_context(own.handle);
	else if (has_context)
		context_reopen(own.handle);
	return result;
}
