/* SPDX-License-Identifier: MIT */
/*
 * Streams: made and destroyed; and work put into them beside launches, copies and fills: events,
 * the program's own functions, waits for and writes of values, batches of them, memory for one
 * stream, semaphores and resources of other APIs. That passes the gate.
 */
#include "core/cuda/idle.h"
#include "core/job/job.h"
#include "core/job/pace.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/move/idle_point.h"
#include "shim/shim.h"
#include "shim/track.h"

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

static CUresult stream_do_destroy(CUstream stream, CUresult (*real)(CUstream))
{
	KEEP_ERRNO;
	CUresult result;

	job_pace_leave_stream(stream);
	idle_streams_leave();
	result = NOTED(DESTROYED(PASSING_GATE(real(stream)), stream, stream));
	idle_streams_left();
	return result;
}

HOOK(cuStreamDestroy, CUstream hStream)
{
	return stream_do_destroy(hStream, REAL(cuStreamDestroy));
}

HOOK(cuStreamDestroy_v2, CUstream hStream)
{
	return stream_do_destroy(hStream, REAL(cuStreamDestroy_v2));
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

/*
 * Events: made, shared with other processes, recorded, destroyed.
 *
 * An idle slot that is due is put before an event that keeps time, so that a timed span does not
 * begin with it. The event at the end of a span is recorded at once, because the slot was put
 * before the first one. Of a chain of events with work between them each is both, and their times
 * contain the slots.
 */

/* Its flags are kept: whether it keeps time is asked when it is recorded. */
AFTER(cuEventCreate, (CUevent *, phEvent), (unsigned int, Flags))
{
	if (phEvent)
		track_enter(&(struct object_entry){
		    .type = &object_type_event, .address = HANDLE(*phEvent), .flags = Flags});
}

CREATES(cuIpcOpenEventHandle, event, phEvent, (CUevent *, phEvent), (CUipcEventHandle, handle))
DESTROYS(cuEventDestroy, event, hEvent, (CUevent, hEvent))
DESTROYS(cuEventDestroy_v2, event, hEvent, (CUevent, hEvent))

/* Other processes may wait for it, as long as it lives. */
AFTER(cuIpcGetEventHandle, (CUipcEventHandle *, pHandle), (CUevent, event))
{
	track_owned(&object_type_ipc_event, HANDLE(event), NULL, &object_type_event, HANDLE(event));
}

/* Puts the idle slot before an event that keeps time: a timed span does not begin with one. */
static void before_record(CUevent event)
{
	struct resource *known;
	bool keeps_time = false;

	if (!job_launch_has_actions() || !job_is_active())
		return;
	known = context_find_object(&object_type_event, HANDLE(event));
	if (known)
		keeps_time = !(object_flags(known) & CU_EVENT_DISABLE_TIMING);
	resource_release(known);
	if (keeps_time)
		job_before_timing();
}

#define RECORDS(symbol, ...)                                                     \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                              \
	{                                                                        \
		before_record(hEvent);                                           \
		return PASSING_GATE(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__))); \
	}

RECORDS(cuEventRecord, (CUevent, hEvent), (CUstream, hStream))
RECORDS(cuEventRecord_ptsz, (CUevent, hEvent), (CUstream, hStream))
RECORDS(cuEventRecordWithFlags, (CUevent, hEvent), (CUstream, hStream), (unsigned int, flags))
RECORDS(cuEventRecordWithFlags_ptsz, (CUevent, hEvent), (CUstream, hStream), (unsigned int, flags))

/* Waiting for the GPU: then memory can be given back, and moved. */

/* Gives back memory that the program has freed and need not be kept. */
static void stream_has_waited(void)
{
	freed_waited();
	pools_settle();
}

/*
 * Hooks a wait. Where work is waited for, the driver gives back memory that its pools need not
 * keep; where all of it was, freed memory goes. idle_point_has_come() is last: from then on memory
 * may move, and the other actions would wait for that.
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
			stream_has_waited();             \
		idle_note(result);                       \
		if (result != CUDA_SUCCESS)              \
			return result;                   \
		if (is_for_all && job_is_active())       \
			freed_settle();                  \
		idle_point_has_come();                   \
		return result;                           \
	}

WAITS(cuCtxSynchronize, true, void, )
WAITS(cuCtxSynchronize_v2, true, CUcontext ctx, ctx)
WAITS(cuEventSynchronize, false, CUevent hEvent, hEvent)
WAITS(cuStreamSynchronize, false, CUstream hStream, hStream)
WAITS(cuStreamSynchronize_ptsz, false, CUstream hStream, hStream)
