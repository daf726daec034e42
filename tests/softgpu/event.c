/* SPDX-License-Identifier: MIT */
/* Events. An event is its last recording, a mark; waiting for one is waiting for that mark. */
#include "tests/softgpu/driver.h"

#include <stdlib.h>

#include "tests/softgpu/capture.h"
#include "tests/softgpu/memory.h"
#include "tests/softgpu/work.h"

struct event {
	struct handle handle;
	struct context *context;
	unsigned int flags;
	struct mark *mark;           /* NULL: never recorded */
	struct shared_event *shared; /* in its place where other processes may have the event */
	struct captured_event captured;
	struct event *prev, *next;
};

#define EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

void mark_release(struct mark *mark)
{
	if (--mark->references == 0)
		free(mark);
}

static struct event *event_new(struct context *context, unsigned int flags)
{
	struct event *event = calloc(1, sizeof(*event));
	if (!event || !handle_add(&event->handle, HANDLE_EVENT)) {
		free(event);
		return NULL;
	}
	event->context = context;
	event->flags = flags;
	DL_APPEND(context->events, event);
	return event;
}

static void event_free(struct event *event)
{
	DL_DELETE(event->context->events, event);
	handle_remove(&event->handle);
	captured_event_clear(&event->captured);
	if (event->mark)
		mark_release(event->mark); /* work that was queued keeps it */
	if (event->shared)
		shared_event_release(event->shared);
	handle_free(event);
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned int flags)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	bool between_processes = flags & CU_EVENT_INTERPROCESS;
	if (!out || (flags & ~(unsigned int)EVENT_FLAGS) ||
	    (between_processes && !(flags & CU_EVENT_DISABLE_TIMING)))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct event *event = event_new(context, flags);
	if (!event)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	if (between_processes && !(event->shared = shared_event_new())) {
		event_free(event);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	*out = (CUevent)event;
	return leave(CUDA_SUCCESS);
}

/* Enters a call about an event; a wrong handle is INVALID_HANDLE. */
static CUresult enter_event(const char *call, CUevent handle, struct event **event)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	*event = handle_find(handle, HANDLE_EVENT);
	return *event ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

void events_forget_context(struct context *context)
{
	struct event *event, *next;
	DL_FOREACH_SAFE(context->events, event, next)
	{
		event_free(event);
	}
}

static CUresult destroy(const char *call, CUevent handle)
{
	struct event *event;
	CUresult result = enter_event(call, handle, &event);
	if (result != CUDA_SUCCESS)
		return result;
	event_free(event);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuEventDestroy(CUevent handle)
{
	return destroy(__func__, handle);
}

EXPORT CUresult cuEventDestroy_v2(CUevent handle)
{
	return destroy(__func__, handle);
}

/* The work that is the event's next recording; the event takes it for its own with recorded(). */
static struct work *recording(void)
{
	struct mark *mark = calloc(1, sizeof(*mark));
	struct work *work = calloc(1, sizeof(*work));
	if (!mark || !work) {
		free(mark);
		free(work);
		return NULL;
	}
	mark->references = 1;
	work->mark = mark;
	return work;
}

static void recorded(struct event *event, struct mark *mark)
{
	if (event->mark)
		mark_release(event->mark);
	event->mark = mark;
	captured_event_clear(&event->captured);
}

struct context *event_context(CUevent handle)
{
	const struct event *event = handle_find(handle, HANDLE_EVENT);
	return event ? event->context : NULL;
}

struct work *event_record_work(CUevent handle)
{
	struct event *event = handle_find(handle, HANDLE_EVENT);
	if (event && event->shared)
		return shared_event_record_work(event->shared, event->context);
	struct work *work = event ? recording() : NULL;
	if (!work)
		return NULL;
	work->mark->references++;
	recorded(event, work->mark);
	return work;
}

/* Waits for as long as an event in a legacy stream costs its stream, where that is asked for. */
static CUresult rest(struct work *work, CUresult broken)
{
	(void)work;
	(void)broken;
	struct timespec time = {.tv_nsec = (long)config()->legacy_event_ns};
	clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
	return CUDA_SUCCESS;
}

struct work *event_wait_work(CUevent handle)
{
	const struct event *event = handle_find(handle, HANDLE_EVENT);
	if (event && event->shared)
		return shared_event_wait_work(event->shared, event->context);
	struct work *work = event ? calloc(1, sizeof(*work)) : NULL;
	if (work && event->mark) {
		work->wait = event->mark;
		work->wait->references++;
	}
	return work;
}

static CUresult submit(struct stream *stream, struct work *work)
{
	return work ? stream_submit(stream, work) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* In a captured stream a recording is a point of the capture, or a node when asked to be. */
static CUresult capture_record(struct stream *stream, struct event *event, bool external)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD,
	                            .eventRecord.event = (CUevent)event};
	return external ? capture_add(stream, &params)
	                : capture_record_event(stream, &event->captured);
}

static CUresult record(const char *call, CUevent handle, CUstream stream_handle, unsigned int flags)
{
	struct event *event;
	CUresult result = enter_event(call, handle, &event);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(current_context(), stream_handle);
	/* An event belongs to its context: recording it elsewhere is an error. */
	if (!stream || stream->context != event->context)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	bool external = flags & CU_EVENT_RECORD_EXTERNAL;
	if (flags & ~(unsigned int)CU_EVENT_RECORD_EXTERNAL || (external && !stream->capture))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (stream->capture)
		return leave(capture_record(stream, event, external));
	if (event->shared)
		return leave(
		    submit(stream, shared_event_record_work(event->shared, stream->context)));
	struct work *work = recording();
	if (!work)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	struct mark *mark = work->mark;
	if (stream->legacy && config()->legacy_event_ns)
		work->run = rest;
	mark->references++;
	result = stream_submit(stream, work);
	if (result == CUDA_SUCCESS)
		recorded(event, mark);
	else
		mark_release(mark);
	return leave(result);
}

static CUresult cuEventRecord_on(const char *call, CUevent event, CUstream stream)
{
	return record(call, event, stream, 0);
}
EXPORT_ON_STREAM(cuEventRecord, (CUevent event, CUstream stream), event, stream)

static CUresult cuEventRecordWithFlags_on(const char *call, CUevent event, CUstream stream,
                                          unsigned int flags)
{
	return record(call, event, stream, flags);
}
EXPORT_ON_STREAM(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int flags),
                 event, stream, flags)

/*
 * All that the context has been given, in whatever stream: a stream of its own waits for the
 * others.
 */
EXPORT CUresult cuCtxRecordEvent(CUcontext handle, CUevent event_handle)
{
	struct event *event;
	CUresult result = enter_event(__func__, event_handle, &event);
	if (result != CUDA_SUCCESS)
		return result;
	struct context *context = handle ? context_find(handle) : current_context();
	if (!context)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	if (event->context != context || event->shared)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	result = capture_check_context(context);
	if (result != CUDA_SUCCESS)
		return leave(result);
	if (!context->recorder)
		context->recorder = stream_create(context, CU_STREAM_NON_BLOCKING, 0);
	struct work *work = context->recorder ? recording() : NULL;
	if (!work)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	struct stream *stream;
	DL_FOREACH (context->streams, stream) {
		if (stream != context->recorder && !stream_idle(stream) &&
		    !work_depend(work, stream, stream->issued)) {
			work_free(work);
			return leave(CUDA_ERROR_OUT_OF_MEMORY);
		}
	}
	struct mark *mark = work->mark;
	mark->references++;
	result = stream_submit(context->recorder, work);
	if (result == CUDA_SUCCESS)
		recorded(event, mark);
	else
		mark_release(mark);
	return leave(result);
}

static CUresult cuStreamWaitEvent_on(const char *call, CUstream handle, CUevent event_handle,
                                     unsigned int flags)
{
	struct event *event;
	CUresult result = enter_event(call, event_handle, &event);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(current_context(), handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	bool external = flags & CU_EVENT_WAIT_EXTERNAL;
	if (flags & ~(unsigned int)CU_EVENT_WAIT_EXTERNAL || (external && !stream->capture))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (external) {
		CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT,
		                            .eventWait.event = event_handle};
		return leave(capture_add(stream, &params));
	}
	if (stream->capture || event->captured.capture)
		return leave(capture_wait_event(stream, &event->captured));
	result = capture_check_queue(stream);
	if (result != CUDA_SUCCESS)
		return leave(result);
	if (event->shared)
		return leave(
		    submit(stream, shared_event_wait_work(event->shared, stream->context)));
	if (!event->mark || event->mark->done)
		return leave(CUDA_SUCCESS);
	struct work *work = calloc(1, sizeof(*work));
	if (!work)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	work->wait = event->mark;
	work->wait->references++;
	return leave(stream_submit(stream, work));
}
EXPORT_ON_STREAM(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags), stream,
                 event, flags)

EXPORT CUresult cuEventQuery(CUevent handle)
{
	struct event *event;
	CUresult result = enter_event(__func__, handle, &event);
	if (result != CUDA_SUCCESS)
		return result;
	result = capture_check_event(&event->captured);
	if (result == CUDA_SUCCESS)
		result = event->context->error;
	if (result != CUDA_SUCCESS)
		return leave(result);
	bool done =
	    event->shared ? shared_event_is_done(event->shared) : !event->mark || event->mark->done;
	return leave(done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}

EXPORT CUresult cuEventSynchronize(CUevent handle)
{
	struct event *event;
	CUresult result = enter_event(__func__, handle, &event);
	if (result != CUDA_SUCCESS)
		return result;
	result = capture_check_event(&event->captured);
	if (result != CUDA_SUCCESS)
		return leave(result);
	struct context *context = event->context;
	struct mark *mark = event->mark;
	if (event->shared)
		shared_event_synchronize(event->shared);
	if (mark) {
		mark->references++;
		while (!mark->done)
			wait_for_progress();
		mark_release(mark);
	}
	pools_trim(context);
	return leave(context->error);
}

static CUresult elapsed(const char *call, float *milliseconds, CUevent start_handle,
                        CUevent end_handle)
{
	struct event *start;
	CUresult result = enter_event(call, start_handle, &start);
	if (result != CUDA_SUCCESS)
		return result;
	struct event *end = handle_find(end_handle, HANDLE_EVENT);
	if (!end || start->context != end->context)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!milliseconds)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (start->captured.capture || end->captured.capture)
		return leave(CUDA_ERROR_CAPTURED_EVENT);
	if (!start->mark || !end->mark || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!start->mark->done || !end->mark->done)
		return leave(CUDA_ERROR_NOT_READY);
	int64_t difference = (int64_t)(end->mark->time_ns - start->mark->time_ns);
	*milliseconds = (float)((double)difference / 1e6);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	return elapsed(__func__, milliseconds, start, end);
}

EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
	return elapsed(__func__, milliseconds, start, end);
}

EXPORT CUresult cuIpcGetEventHandle(CUipcEventHandle *out, CUevent handle)
{
	struct event *event;
	CUresult result = enter_event(__func__, handle, &event);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!event->shared)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	shared_event_export(event->shared, out);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct shared_event *shared = shared_event_import(&handle);
	if (!shared)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	struct event *event = event_new(context, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS);
	if (!event) {
		shared_event_release(shared);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	event->shared = shared;
	*out = (CUevent)event;
	return leave(CUDA_SUCCESS);
}
