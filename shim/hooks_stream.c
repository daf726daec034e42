/* SPDX-License-Identifier: MIT */
/*
 * Streams: made and destroyed; and what is put into them beside launches, copies and fills: events,
 * the program's own functions, waits for and writes of values, batches of them, memory for one
 * stream, semaphores and resources of other APIs. That passes the gate.
 */
#include "shim/track.h"

#include "core/cuda/idle.h"
#include "core/job/job.h"

/* Notes a stream that the legacy default stream waits for, before it can be used. */
static void note_blocking(unsigned int flags)
{
	if (!(flags & CU_STREAM_NON_BLOCKING))
		blocking_stream_is_used();
}

HOOK(cuStreamCreate, CUstream *phStream, unsigned int Flags)
{
	note_blocking(Flags);
	return NOTED(CREATED(REAL(cuStreamCreate)(phStream, Flags), stream, phStream));
}

HOOK(cuStreamCreateWithPriority, CUstream *phStream, unsigned int flags, int priority)
{
	note_blocking(flags);
	return NOTED(
	    CREATED(REAL(cuStreamCreateWithPriority)(phStream, flags, priority), stream, phStream));
}

static CUresult destroy(CUstream stream, CUresult (*real)(CUstream))
{
	KEEP_ERRNO;
	CUresult result;

	job_leave_stream(stream);
	idle_streams_leave();
	result = NOTED(DESTROYED(PASSING_GATE(real(stream)), stream, stream));
	idle_streams_left();
	return result;
}

HOOK(cuStreamDestroy, CUstream hStream)
{
	return destroy(hStream, REAL(cuStreamDestroy));
}

HOOK(cuStreamDestroy_v2, CUstream hStream)
{
	return destroy(hStream, REAL(cuStreamDestroy_v2));
}

HOOK(cuGreenCtxStreamCreate, CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
     int priority)
{
	return NOTED(HANDED_OUT(REAL(cuGreenCtxStreamCreate)(phStream, greenCtx, flags, priority),
	                        stream, phStream, NULL, green_context, greenCtx));
}

GATED(cuCtxRecordEvent, (CUcontext, hCtx), (CUevent, hEvent))
GATED(cuCtxWaitEvent, (CUcontext, hCtx), (CUevent, hEvent))
GATED_2(cuGraphicsMapResources, cuGraphicsMapResources_ptsz, (unsigned int, count),
        (CUgraphicsResource *, resources), (CUstream, hStream))
GATED_2(cuGraphicsUnmapResources, cuGraphicsUnmapResources_ptsz, (unsigned int, count),
        (CUgraphicsResource *, resources), (CUstream, hStream))
GATED(cuGreenCtxRecordEvent, (CUgreenCtx, hCtx), (CUevent, hEvent))
GATED(cuGreenCtxWaitEvent, (CUgreenCtx, hCtx), (CUevent, hEvent))
GATED_2(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, (CUstream, hStream), (CUhostFn, fn),
        (void *, userData))
GATED_2(cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz, (CUstream, hStream), (CUhostFn, fn),
        (void *, userData), (unsigned int, syncMode))

GATED_2(cuSignalExternalSemaphoresAsync, cuSignalExternalSemaphoresAsync_ptsz,
        (const CUexternalSemaphore *, extSemArray),
        (const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *, paramsArray), (unsigned int, numExtSems),
        (CUstream, stream))
GATED_2(cuStreamAddCallback, cuStreamAddCallback_ptsz, (CUstream, hStream),
        (CUstreamCallback, callback), (void *, userData), (unsigned int, flags))
GATED_2(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz, (CUstream, hStream),
        (CUdeviceptr, dptr), (size_t, length), (unsigned int, flags))
GATED_2(cuStreamBatchMemOp, cuStreamBatchMemOp_ptsz, (CUstream, stream), (unsigned int, count),
        (CUstreamBatchMemOpParams *, paramArray), (unsigned int, flags))
GATED_2(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz, (CUstream, stream),
        (unsigned int, count), (CUstreamBatchMemOpParams *, paramArray), (unsigned int, flags))
GATED_2(cuStreamWaitEvent, cuStreamWaitEvent_ptsz, (CUstream, hStream), (CUevent, hEvent),
        (unsigned int, Flags))
GATED_2(cuStreamWaitValue32, cuStreamWaitValue32_ptsz, (CUstream, stream), (CUdeviceptr, addr),
        (cuuint32_t, value), (unsigned int, flags))
GATED_2(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz, (CUstream, stream),
        (CUdeviceptr, addr), (cuuint32_t, value), (unsigned int, flags))
GATED_2(cuStreamWaitValue64, cuStreamWaitValue64_ptsz, (CUstream, stream), (CUdeviceptr, addr),
        (cuuint64_t, value), (unsigned int, flags))
GATED_2(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz, (CUstream, stream),
        (CUdeviceptr, addr), (cuuint64_t, value), (unsigned int, flags))
GATED_2(cuStreamWriteValue32, cuStreamWriteValue32_ptsz, (CUstream, stream), (CUdeviceptr, addr),
        (cuuint32_t, value), (unsigned int, flags))
GATED_2(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz, (CUstream, stream),
        (CUdeviceptr, addr), (cuuint32_t, value), (unsigned int, flags))
GATED_2(cuStreamWriteValue64, cuStreamWriteValue64_ptsz, (CUstream, stream), (CUdeviceptr, addr),
        (cuuint64_t, value), (unsigned int, flags))
GATED_2(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz, (CUstream, stream),
        (CUdeviceptr, addr), (cuuint64_t, value), (unsigned int, flags))
GATED_2(cuWaitExternalSemaphoresAsync, cuWaitExternalSemaphoresAsync_ptsz,
        (const CUexternalSemaphore *, extSemArray),
        (const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, paramsArray), (unsigned int, numExtSems),
        (CUstream, stream))
