/* SPDX-License-Identifier: MIT */
/*
 * Answers of events and streams before, while and after work runs, and the order in which work
 * runs.
 */
#include "tests/conformance/transcript.h"

static CUdeviceptr sink;

static void ask_events(void)
{
	CUevent event, other, untimed;
	CUstream stream;
	struct hold hold;
	float ms = -1;

	tell_status("create an event with unknown flags", cuEventCreate(&event, 0x100));
	tell_status("create a timed interprocess event",
	            cuEventCreate(&event, CU_EVENT_INTERPROCESS));
	tell_status("destroy no event", cuEventDestroy(NULL));
	CU(cuEventCreate(&event, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&other, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	tell_status("query an event never recorded", cuEventQuery(event));
	tell_status("wait for an event never recorded", cuEventSynchronize(event));
	tell_status("stream waits for an event never recorded",
	            cuStreamWaitEvent(stream, event, 0));
	tell_status("elapsed time of events never recorded", cuEventElapsedTime(&ms, event, other));

	hold_stream(&hold, stream);
	CU(cuEventRecord(event, stream));
	CU(cuEventRecord(other, stream));
	CU(cuEventRecord(untimed, stream));
	tell_status("query an event behind work", cuEventQuery(event));
	tell_status("query a stream with work", cuStreamQuery(stream));
	tell_status("elapsed time before both are done", cuEventElapsedTime(&ms, event, other));
	tell_status("stream waits with unknown flags", cuStreamWaitEvent(stream, event, 0x100));
	hold_end(&hold);
	tell_status("wait for an event behind work", cuEventSynchronize(other));
	tell_status("query it then", cuEventQuery(other));
	tell_status("query the one before it", cuEventQuery(event));
	CU(cuStreamSynchronize(stream));
	tell_status("query the stream then", cuStreamQuery(stream));
	TELL_VALUE("elapsed time", cuEventElapsedTime(&ms, event, other), "%s",
	           ms >= 0 ? "not negative" : "negative");
	TELL_VALUE("elapsed time backwards", cuEventElapsedTime(&ms, other, event), "%s",
	           ms <= 0 ? "not positive" : "positive");
	tell_status("elapsed time to an event without timing",
	            cuEventElapsedTime(&ms, event, untimed));

	/* Recording anew takes the place of the old recording. */
	hold_stream(&hold, stream);
	CU(cuEventRecord(event, stream));
	tell_status("query an event recorded again behind work", cuEventQuery(event));
	hold_end(&hold);
	CU(cuEventSynchronize(event));

	/* A destroyed event and a destroyed stream finish by themselves. */
	hold_stream(&hold, stream);
	CU(cuEventRecord(event, stream));
	tell_status("destroy an event behind work", cuEventDestroy(event));
	CU(cuMemsetD32Async(sink, 4711, 1, stream));
	tell_status("destroy a stream with work", cuStreamDestroy(stream));
	hold_end(&hold);
	unsigned value = 0;
	CU(cuCtxSynchronize());
	TELL_VALUE("what the destroyed stream did", cuMemcpyDtoH(&value, sink, sizeof(value)), "%u",
	           value);
	CU(cuEventDestroy(other));
	CU(cuEventDestroy(untimed));
}

static void ask_streams(void)
{
	CUstream stream, blocking, other;
	CUcontext context = NULL, current;
	CUevent event;
	struct hold hold;
	unsigned flags = 99;
	int priority = 99, least, greatest;
	unsigned long long id = 0, next_id = 0;

	tell_status("create a stream with unknown flags", cuStreamCreate(&stream, 0x100));
	tell_status("create a stream into NULL", cuStreamCreate(NULL, 0));
	tell_status("destroy the default stream", cuStreamDestroy(NULL));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	TELL_VALUE("flags of a non-blocking stream", cuStreamGetFlags(stream, &flags), "%u", flags);
	TELL_VALUE("flags of a default stream", cuStreamGetFlags(blocking, &flags), "%u", flags);
	TELL_VALUE("priority", cuStreamGetPriority(stream, &priority), "%d", priority);
	CU(cuCtxGetStreamPriorityRange(&least, &greatest));
	tell_bool("greater priorities are lower numbers", greatest <= least && greatest <= 0);
	CU(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, greatest - 100));
	CU(cuStreamGetPriority(other, &priority));
	tell_bool("a priority beyond the range is clamped", priority == greatest);
	CU(cuStreamDestroy(other));
	CU(cuCtxGetCurrent(&current));
	TELL_VALUE("context of a stream", cuStreamGetCtx(stream, &context), "%s",
	           context == current ? "the current" : "another");
	CU(cuStreamGetId(stream, &id));
	CU(cuStreamGetId(blocking, &next_id));
	tell_bool("streams have different ids", id != next_id);

	/* The legacy default stream waits for blocking streams, and they for it. */
	hold_stream(&hold, stream);
	CU(cuMemsetD32Async(sink, 1, 1, NULL));
	tell_status("the legacy stream beside a held non-blocking one", cuStreamSynchronize(NULL));
	CU(cuMemsetD32Async(sink, 2, 1, blocking));
	tell_status("a default stream beside it", cuStreamSynchronize(blocking));
	tell_status("the held one", cuStreamQuery(stream));
	hold_end(&hold);
	CU(cuStreamSynchronize(stream));

	hold_stream(&hold, blocking);
	CU(cuMemsetD32Async(sink, 3, 1, NULL));
	tell_status("the legacy stream behind a held default one", cuStreamQuery(NULL));
	CU(cuStreamCreate(&other, CU_STREAM_DEFAULT));
	CU(cuMemsetD32Async(sink, 4, 1, other));
	tell_status("another default stream behind the legacy one", cuStreamQuery(other));
	CU(cuMemsetD32Async(sink + 4, 5, 1, stream));
	tell_status("a non-blocking stream beside them", cuStreamSynchronize(stream));
	CU(cuMemsetD32Async(sink + 4, 6, 1, CU_STREAM_PER_THREAD));
	tell_status("the per-thread stream behind the legacy one",
	            cuStreamQuery(CU_STREAM_PER_THREAD));
	hold_end(&hold);
	CU(cuCtxSynchronize());
	unsigned values[2] = {0};
	CU(cuMemcpyDtoH(values, sink, sizeof(values)));
	tell("what was written last", "%u %u", values[0], values[1]);

	/* A stream waits for the event as it was when it began to wait. */
	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CU(cuEventRecord(event, other));
	CU(cuStreamWaitEvent(stream, event, 0));
	hold_stream(&hold, other);
	CU(cuEventRecord(event, other));
	tell_status("a stream that waits for an older recording", cuStreamSynchronize(stream));
	CU(cuStreamWaitEvent(stream, event, 0));
	tell_status("and for the newer one", cuStreamQuery(stream));
	hold_end(&hold);
	CU(cuStreamSynchronize(stream));
	CU(cuStreamDestroy(stream));
	CU(cuStreamDestroy(blocking));
	CU(cuStreamDestroy(other));
	CU(cuEventDestroy(event));
}

static CUresult in_callback = CUDA_SUCCESS, callback_status = CUDA_ERROR_UNKNOWN;

static void CUDA_CB call_driver(CUstream stream, CUresult status, void *data)
{
	CUdeviceptr memory = 0;

	(void)stream;
	(void)data;
	callback_status = status;
	in_callback = cuMemAlloc(&memory, 4096);
}

static void ask_callbacks(void)
{
	tell_status("add a callback with flags", cuStreamAddCallback(NULL, call_driver, NULL, 1));
	CU(cuStreamAddCallback(NULL, call_driver, NULL, 0));
	CU(cuCtxSynchronize());
	tell_status("what a callback is told", callback_status);
	tell_status("a driver call in a callback", in_callback);
}

int main(void)
{
	char name[256];

	client_open_device(name);
	sink = client_alloc(8);
	ask_events();
	ask_streams();
	ask_callbacks();
	client_free(&sink, 8);
	client_close_device(0);
	return 0;
}
