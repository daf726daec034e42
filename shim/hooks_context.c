/* SPDX-License-Identifier: MIT */
/* Contexts: objects made in one go with it. */
#include "shim/interop.h"
#include "shim/track.h"

#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/cuda/idle.h"
#include "core/job/job.h"
#include "core/memory/arena/elastic.h"

/* --- made --- */

static struct measuring begin_making(CUdevice dev)
{
	KEEP_ERRNO;
	struct measuring measuring = {0};

	if (job_is_active())
		measured_begin_context(&measuring, device_set_by_handle(job_devices(), dev));
	return measuring;
}

/*
 * Enters a context that did not exist before. The context known under its handle is leaving, or
 * ended without our seeing it.
 */
static void context_enter_new(CUcontext made, CUdevice dev, CUgreenCtx green)
{
	struct context last;

	if (context_find(made, &last) && context_gone(&last))
		job_left_context(&last);
	context_enter(made, dev, green);
}

static void end_making(const struct measuring *measuring, CUcontext made, CUdevice dev)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return;
	if (made)
		context_enter_new(made, dev, NULL);
	measured_end_context(measuring, made);
}

/*
 * A context is charged its measured size. The first forms have the second's parameters, on 64-bit
 * machines.
 */
#define MAKES_CONTEXT(symbol, out, dev, ...)                                                    \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                             \
	{                                                                                       \
		struct asking asking = {0};                                                     \
		CUresult result;                                                                \
		do {                                                                            \
			struct measuring measuring = begin_making(dev);                         \
			result = REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__));                    \
			end_making(&measuring, result == CUDA_SUCCESS && (out) ? *(out) : NULL, \
			           dev);                                                        \
		} while (others_gave(result, &dev, &asking));                                   \
		return result;                                                                  \
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

/*
 * The calls that begin and end a device's own context, of which there is one handle: whether it
 * lives is asked of the driver, and may not change in between. No thread waits at the gate with it.
 */
typedef LOCK_OF(PRIMARY) primary_lock;
static primary_lock primary_locks[DEVICE_MAX] = {[0 ... DEVICE_MAX - 1] = LOCK_FREE};

static primary_lock *lock_of_primary(CUdevice dev)
{
	return &primary_locks[(unsigned int)dev % DEVICE_MAX];
}

/*
 * Takes the lock. Returns whether the context is new: then it is measured, which may wait for other
 * processes, and so begins before the lock is taken.
 */
static bool lock_primary(CUdevice dev, struct measuring *measuring)
{
	for (;;) {
		bool seems_new = !primary_is_active(dev);

		*measuring = seems_new ? begin_making(dev) : (struct measuring){0};
		lock_acquire(lock_of_primary(dev));
		if (seems_new == !primary_is_active(dev))
			return seems_new;
		lock_release(lock_of_primary(dev));
		if (seems_new)
			end_making(measuring, NULL, dev);
	}
}

/* Retains a primary context. *is_new: it did not live before. */
static CUresult retain_primary(CUcontext *out, CUdevice dev, struct measuring *measuring,
                               bool *is_new)
{
	CUresult result;

	*is_new = lock_primary(dev, measuring);
	result = REAL(cuDevicePrimaryCtxRetain)(out, dev);
	lock_release(lock_of_primary(dev));
	return result;
}

HOOK(cuDevicePrimaryCtxRetain, CUcontext *pctx, CUdevice dev)
{
	KEEP_ERRNO;
	struct asking asking = {0};
	bool is_new;
	CUresult result;

	if (!job_is_active())
		return REAL(cuDevicePrimaryCtxRetain)(pctx, dev);
	do {
		struct measuring measuring = {0};

		result = retain_primary(pctx, dev, &measuring, &is_new);
		if (is_new)
			end_making(&measuring, result == CUDA_SUCCESS && pctx ? *pctx : NULL, dev);
		else if (result == CUDA_SUCCESS && pctx)
			context_enter(*pctx, dev, NULL);
	} while (others_gave(result, &dev, &asking));
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
#define CHANGES_CURRENT(symbol, ...)       \
	AFTER(symbol, __VA_ARGS__)         \
	{                                  \
		struct context context;    \
		context_current(&context); \
	}

CHANGES_CURRENT(cuCtxPushCurrent, (CUcontext, ctx))
CHANGES_CURRENT(cuCtxPushCurrent_v2, (CUcontext, ctx))
CHANGES_CURRENT(cuCtxPopCurrent, (CUcontext *, pctx))
CHANGES_CURRENT(cuCtxPopCurrent_v2, (CUcontext *, pctx))
CHANGES_CURRENT(cuCtxSetCurrent, (CUcontext, ctx))

/* --- destroyed --- */

/* Ends a context's leaving, after the driver's answer: its records go, or stay. */
static void end_leaving(struct context *context, struct leaving *cost, bool gone)
{
	/* Not where another thread, which was given the handle, does it. */
	if (gone && context_gone(context))
		job_left_context(context);
	else
		job_stay_context(context);
	measured_left_context(cost, context->device, gone);
}

/*
 * Ends a context by the driver's call, which the last of its holders makes for good: which is the
 * last is known only when the driver has agreed to all.
 */
static CUresult context_destroy(CUcontext ctx, CUresult (*real)(CUcontext), bool is_counted)
{
	KEEP_ERRNO;
	struct context context;
	struct leaving cost;
	CUresult result;

	if (!job_is_active() || !context_leave(ctx, &context))
		return PASSING_GATE(real(ctx));
	job_leave_context(&context);
	cost = measured_leave(ctx);
	result = PASSING_GATE(real(ctx));
	end_leaving(&context, &cost,
	            result == CUDA_SUCCESS && (!is_counted || context_detach(&context)));
	return result;
}

HOOK(cuCtxDestroy, CUcontext ctx)
{
	return context_destroy(ctx, REAL(cuCtxDestroy), false);
}

HOOK(cuCtxDestroy_v2, CUcontext ctx)
{
	return context_destroy(ctx, REAL(cuCtxDestroy_v2), false);
}

HOOK(cuCtxDetach, CUcontext ctx)
{
	return context_destroy(ctx, REAL(cuCtxDetach), true);
}

AFTER(cuCtxAttach, (CUcontext *, pctx), (unsigned int, flags))
{
	if (pctx)
		context_attach(*pctx);
}

static bool find_primary(CUdevice dev, CUcontext *primary)
{
	bool found;

	lock_acquire(lock_of_primary(dev));
	/* Retaining tells its handle; the reference is given back at once. */
	found =
	    primary_is_active(dev) && REAL(cuDevicePrimaryCtxRetain)(primary, dev) == CUDA_SUCCESS;
	if (found)
		REAL(cuDevicePrimaryCtxRelease_v2)(dev);
	lock_release(lock_of_primary(dev));
	return found;
}

/* Releases or resets a primary context. *gone: with the last reference, or because it is reset. */
static CUresult end_primary(CUdevice dev, CUresult (*real)(CUdevice), bool resets, bool *gone)
{
	CUresult result;

	lock_acquire(lock_of_primary(dev));
	result = real(dev);
	*gone = result == CUDA_SUCCESS && (resets || !primary_is_active(dev));
	lock_release(lock_of_primary(dev));
	return result;
}

static CUresult leave_primary(CUdevice dev, CUresult (*real)(CUdevice), bool resets)
{
	KEEP_ERRNO;
	CUcontext primary = NULL;
	struct context context;
	struct leaving cost;
	CUresult result;
	bool gone;

	if (!job_is_active() || !find_primary(dev, &primary) || !context_leave(primary, &context))
		return PASSING_GATE(real(dev));
	job_leave_context(&context);
	cost = measured_leave(primary);
	result = PASSING_GATE(end_primary(dev, real, resets, &gone));
	end_leaving(&context, &cost, gone);
	return result;
}

#define LEAVES_PRIMARY(symbol, resets)                           \
	HOOK(symbol, CUdevice dev)                               \
	{                                                        \
		return leave_primary(dev, REAL(symbol), resets); \
	}

LEAVES_PRIMARY(cuDevicePrimaryCtxRelease, false)
LEAVES_PRIMARY(cuDevicePrimaryCtxRelease_v2, false)
LEAVES_PRIMARY(cuDevicePrimaryCtxReset, true)
LEAVES_PRIMARY(cuDevicePrimaryCtxReset_v2, true)

/* --- other devices' memory --- */

/* Enters it in the books of the context that may now reach, by the one that is reached. */
AFTER(cuCtxEnablePeerAccess, (CUcontext, peerContext), (unsigned int, Flags))
{
	struct context own, peer;

	track(&object_type_peer_access, HANDLE(peerContext), 0);
	if (context_current(&own) && context_find(peerContext, &peer))
		elastic_open_to(peer.device, own.device);
}

DESTROYS(cuCtxDisablePeerAccess, peer_access, peerContext, (CUcontext, peerContext))

/* --- green contexts: parts of a device's multiprocessors --- */

HOOK(cuGreenCtxCreate, CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev, unsigned int flags)
{
	return CREATED_MEASURED(REAL(cuGreenCtxCreate)(phCtx, desc, dev, flags), green_context,
	                        phCtx);
}

/* Its context is met now; which device it is of, it says itself. */
AFTER(cuCtxFromGreenCtx, (CUcontext *, pContext), (CUgreenCtx, hCtx))
{
	struct context last;
	CUdevice dev = 0;
	CUcontext popped;

	if (!pContext || REAL(cuCtxPushCurrent_v2)(*pContext) != CUDA_SUCCESS)
		return;
	if (REAL(cuCtxGetDevice)(&dev) != CUDA_SUCCESS)
		dev = -1;
	REAL(cuCtxPopCurrent_v2)(&popped);
	/* Each time it is the same, unless it was another's of this handle. */
	if (context_find(*pContext, &last) && (last.leaving || (last.green && last.green != hCtx)))
		context_enter_new(*pContext, dev, hCtx);
	else
		context_enter(*pContext, dev, hCtx);
}

HOOK(cuGreenCtxDestroy, CUgreenCtx hCtx)
{
	KEEP_ERRNO;
	struct context own;
	bool has_context =
	    job_is_active() && context_of_green(hCtx, &own) && context_leave(own.handle, &own);
	struct leaving cost = {0};
	CUresult result;

	if (has_context) {
		job_leave_context(&own);
		cost = measured_leave(own.handle);
	}
	idle_streams_leave();
	result =
	    DESTROYED_MEASURED(PASSING_GATE(REAL(cuGreenCtxDestroy)(hCtx)), green_context, hCtx);
	idle_streams_left();
	if (has_context)
		end_leaving(&own, &cost, result == CUDA_SUCCESS);
	return result;
}
