/* SPDX-License-Identifier: MIT */
/* Waiting for the GPU: then memory can be given back, and moved. */
#include "shim/shim.h"

#include "core/cuda/idle.h"
#include "core/job/job.h"
#include "core/memory/alloc/free.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/move/lull.h"

/*
 * Hooks a wait. Where work is waited for, the driver gives back what its pools need not keep; where
 * all of it was, what was freed goes. That the program has waited comes last: what else is to be
 * done now would wait for what moves.
 */
#define WAITS(symbol, is_for_all, parameters, arguments) \
	HOOK(symbol, parameters)                         \
	{                                                \
		KEEP_ERRNO;                              \
		CUresult result;                         \
                                                         \
		job_break();                             \
		result = REAL(symbol)(arguments);        \
		if (job_is_active())                     \
			vmem_waited();                   \
		idle_note(result);                       \
		if (result != CUDA_SUCCESS)              \
			return result;                   \
		if (is_for_all && job_is_active())       \
			freed_settle();                  \
		lull_has_come();                         \
		return result;                           \
	}

WAITS(cuCtxSynchronize, true, void, )
WAITS(cuCtxSynchronize_v2, true, CUcontext ctx, ctx)
WAITS(cuEventSynchronize, false, CUevent hEvent, hEvent)
WAITS(cuStreamSynchronize, false, CUstream hStream, hStream)
WAITS(cuStreamSynchronize_ptsz, false, CUstream hStream, hStream)
