/* Events and streams: made, shared with other processes, destroyed. */
#include "shim/track.h"

#include "core/job.h"

CREATES(cuEventCreate, event, phEvent, (CUevent *, phEvent), (unsigned int, Flags))
CREATES(cuIpcOpenEventHandle, event, phEvent, (CUevent *, phEvent), (CUipcEventHandle, handle))
DESTROYS(cuEventDestroy, event, hEvent, (CUevent, hEvent))
DESTROYS(cuEventDestroy_v2, event, hEvent, (CUevent, hEvent))

/* Other processes may wait for it, as long as it lives. */
HOOK(cuIpcGetEventHandle, CUipcEventHandle *pHandle, CUevent event)
{
	CUresult result = REAL(cuIpcGetEventHandle)(pHandle, event);

	if (result == CUDA_SUCCESS)
		track_owned(&object_type_ipc_event, HANDLE(event), NULL, &object_type_event,
		            HANDLE(event));
	return result;
}

HOOK(cuStreamCreate, CUstream *phStream, unsigned int Flags)
{
	return CREATED_MEASURED(REAL(cuStreamCreate)(phStream, Flags), stream, phStream);
}

HOOK(cuStreamCreateWithPriority, CUstream *phStream, unsigned int flags, int priority)
{
	return CREATED_MEASURED(REAL(cuStreamCreateWithPriority)(phStream, flags, priority), stream,
	                        phStream);
}

static CUresult destroy(CUstream stream, CUresult (*real)(CUstream))
{
	KEEP_ERRNO;

	job_leave_stream(stream);
	return DESTROYED_MEASURED(PASSING_GATE(real(stream)), stream, stream);
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
	return HANDED_OUT(
	    MEASURED(REAL(cuGreenCtxStreamCreate)(phStream, greenCtx, flags, priority),
	             phStream ? HANDLE(*phStream) : 0, MEASURED_MOST_OBJECT),
	    stream, phStream, NULL, green_context, greenCtx);
}
