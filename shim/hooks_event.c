/* SPDX-License-Identifier: MIT */
/*
 * Events: made, shared with other processes, recorded, destroyed.
 *
 * An event that keeps time comes after a slot that is due; one that may end what is timed is
 * recorded at once. Of a chain of events with work between them each is both, and what they time
 * contains the slots.
 */
#include "shim/track.h"

#include "core/job/job.h"

/* Its flags are kept: whether it keeps time is asked when it is recorded. */
AFTER(cuEventCreate, (CUevent *, phEvent), (unsigned int, Flags))
{
	if (phEvent)
		track_flagged(&object_type_event, HANDLE(*phEvent), Flags);
}

CREATES(cuIpcOpenEventHandle, event, phEvent, (CUevent *, phEvent), (CUipcEventHandle, handle))
DESTROYS(cuEventDestroy, event, hEvent, (CUevent, hEvent))
DESTROYS(cuEventDestroy_v2, event, hEvent, (CUevent, hEvent))

/* Other processes may wait for it, as long as it lives. */
AFTER(cuIpcGetEventHandle, (CUipcEventHandle *, pHandle), (CUevent, event))
{
	track_owned(&object_type_ipc_event, HANDLE(event), NULL, &object_type_event, HANDLE(event));
}

/* Puts the idle slot before an event that keeps time: what is timed does not begin with one. */
static void before_record(CUevent event)
{
	struct resource *known;
	bool keeps_time = false;

	if (!job_launch_is_paced() || !job_is_active())
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
