/* SPDX-License-Identifier: MIT */
/* Stream capture: captured calls, calls that invalidate it, by thread, and its end. */
#include "tests/conformance/transcript.h"

#include <pthread.h>
#include <stdio.h>

static CUstream stream, other, blocking;
static CUevent outside, event;
static CUdeviceptr memory;

static const char *capture_status(CUstream of)
{
	CUstreamCaptureStatus status = (CUstreamCaptureStatus)99;
	CUresult result = cuStreamIsCapturing(of, &status);

	if (result != CUDA_SUCCESS)
		return client_error_name(result);
	return status == CU_STREAM_CAPTURE_STATUS_NONE          ? "none"
	       : status == CU_STREAM_CAPTURE_STATUS_ACTIVE      ? "active"
	       : status == CU_STREAM_CAPTURE_STATUS_INVALIDATED ? "invalidated"
	                                                        : "another";
}

/* A call made while a capture is active; what it gives. */
typedef CUresult made_call(void);

static CUresult allocate(void)
{
	CUdeviceptr more = 0;
	CUresult result = cuMemAlloc(&more, 4096);

	if (result == CUDA_SUCCESS)
		cuMemFree(more);
	return result;
}

static CUresult synchronise_context(void)
{
	return cuCtxSynchronize();
}

static CUresult synchronise_stream(void)
{
	return cuStreamSynchronize(stream);
}

static CUresult query_stream(void)
{
	return cuStreamQuery(stream);
}

static CUresult query_other_stream(void)
{
	return cuStreamQuery(other);
}

static CUresult query_event(void)
{
	return cuEventQuery(outside);
}

static CUresult query_captured_event(void)
{
	return cuEventQuery(event);
}

static CUresult synchronise_captured_event(void)
{
	return cuEventSynchronize(event);
}

static CUresult copy_synchronously(void)
{
	unsigned value = 0;

	return cuMemcpyHtoD(memory, &value, sizeof(value));
}

static CUresult use_legacy_stream(void)
{
	return cuMemsetD32Async(memory, 0, 1, CU_STREAM_LEGACY);
}

static CUresult destroy_event(void)
{
	CUevent fresh;
	CUresult result = cuEventCreate(&fresh, CU_EVENT_DISABLE_TIMING);

	return result == CUDA_SUCCESS ? cuEventDestroy(fresh) : result;
}

static const struct {
	const char *name;
	made_call *call;
} calls[] = {
    {"cuMemAlloc", allocate},
    {"cuCtxSynchronize", synchronise_context},
    {"cuStreamSynchronize of the stream", synchronise_stream},
    {"cuStreamQuery of the stream", query_stream},
    {"cuStreamQuery of another stream", query_other_stream},
    {"cuEventQuery of an event outside", query_event},
    {"cuEventQuery of a captured event", query_captured_event},
    {"cuEventSynchronize of a captured event", synchronise_captured_event},
    {"cuMemcpyHtoD", copy_synchronously},
    {"cuEventCreate and cuEventDestroy", destroy_event},
};

static const struct {
	const char *name;
	CUstreamCaptureMode mode;
} modes[] = {
    {"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
    {"thread local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
    {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED},
};

struct from_thread {
	made_call *call;
	CUresult result;
};

static void *call_from_thread(void *data)
{
	struct from_thread *from = data;
	CUcontext context;

	CU(cuDevicePrimaryCtxRetain(&context, 0));
	CU(cuCtxSetCurrent(context));
	from->result = from->call();
	CU(cuDevicePrimaryCtxRelease(0));
	return NULL;
}

/* Each call in a capture of each mode, from the capturing thread and from another. */
static void ask_call(const char *name, made_call *call, size_t mode, bool from_other_thread)
{
	char question[160];
	CUgraph graph = NULL;
	CUresult result;

	CU(cuStreamBeginCapture(stream, modes[mode].mode));
	CU(cuMemsetD32Async(memory, 1, 1, stream));
	CU(cuEventRecord(event, stream));
	if (from_other_thread) {
		pthread_t thread;
		struct from_thread from = {.call = call};
		pthread_create(&thread, NULL, call_from_thread, &from);
		pthread_join(thread, NULL);
		result = from.result;
	} else {
		result = call();
	}
	const char *after = capture_status(stream);
	CUresult end = cuStreamEndCapture(stream, &graph);
	snprintf(question, sizeof(question), "%s%s, %s capture", name,
	         from_other_thread ? " from another thread" : "", modes[mode].name);
	tell(question, "%s, then %s, end %s, %s", client_error_name(result), after,
	     client_error_name(end), graph ? "a graph" : "no graph");
	if (graph)
		CU(cuGraphDestroy(graph));
	/* The event was captured: recorded anew it is an ordinary one again. */
	CU(cuEventRecord(event, stream));
	CU(cuStreamSynchronize(stream));
}

static void ask_begin_and_end(void)
{
	CUgraph graph = NULL;
	size_t nodes = 0;

	tell_status("begin on the legacy stream",
	            cuStreamBeginCapture(CU_STREAM_LEGACY, CU_STREAM_CAPTURE_MODE_GLOBAL));
	tell_status("end what did not begin", cuStreamEndCapture(stream, &graph));
	tell_status("begin in an unknown mode",
	            cuStreamBeginCapture(stream, (CUstreamCaptureMode)99));
	tell("status before", "%s", capture_status(stream));
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	tell("status while capturing", "%s", capture_status(stream));
	tell("status of another stream", "%s", capture_status(other));
	tell_status("begin twice", cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	tell("status after beginning twice", "%s", capture_status(stream));
	tell_status("end", cuStreamEndCapture(stream, &graph));
	if (graph) {
		CU(cuGraphGetNodes(graph, NULL, &nodes));
		CU(cuGraphDestroy(graph));
	}
	tell("nodes of an empty capture", "%zu", nodes);

	CU(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
	tell("status of the legacy stream while a default stream captures", "%s",
	     capture_status(CU_STREAM_LEGACY));
	tell("and of the capturing one then", "%s", capture_status(blocking));
	tell_status("use of the legacy stream then", use_legacy_stream());
	tell("status after its use", "%s", capture_status(blocking));
	CUresult end = cuStreamEndCapture(blocking, &graph);
	tell("end after its use", "%s, %s", client_error_name(end), graph ? "a graph" : "no graph");
	if (end == CUDA_SUCCESS && graph)
		CU(cuGraphDestroy(graph));
}

static void ask_joins(void)
{
	CUgraph graph = NULL;
	CUgraphExec exec;
	size_t nodes = 0, edges = 0;
	unsigned value = 0;

	/* A stream that forks and joins again. */
	CU(cuMemsetD32(memory, 0, 2));
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuEventRecord(event, stream));
	CU(cuStreamWaitEvent(other, event, 0));
	tell("a stream that waits for the capture", "%s", capture_status(other));
	CU(cuMemsetD32Async(memory, 11, 1, stream));
	CU(cuMemsetD32Async(memory + 4, 22, 1, other));
	CU(cuEventRecord(event, other));
	CU(cuStreamWaitEvent(stream, event, 0));
	CU(cuMemcpyDtoDAsync(memory + 8, memory + 4, 4, stream));
	tell_status("end of a capture that joined", cuStreamEndCapture(stream, &graph));
	CU(cuGraphGetNodes(graph, NULL, &nodes));
	CU(cuGraphGetEdges(graph, NULL, NULL, NULL, &edges));
	tell("its graph", "%zu nodes, %zu edges", nodes, edges);
	CU(cuMemcpyDtoH(&value, memory, sizeof(value)));
	tell("what capturing wrote", "%u", value);
	CU(cuGraphInstantiate(&exec, graph, 0));
	CU(cuGraphLaunch(exec, stream));
	CU(cuStreamSynchronize(stream));
	CU(cuMemcpyDtoH(&value, memory + 8, sizeof(value)));
	tell("what launching wrote", "%u", value);
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));

	/* A stream that does not join. */
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuEventRecord(event, stream));
	CU(cuStreamWaitEvent(other, event, 0));
	CU(cuMemsetD32Async(memory + 4, 22, 1, other));
	graph = NULL;
	CUresult end = cuStreamEndCapture(stream, &graph);
	tell("end of a capture that did not join", "%s, %s", client_error_name(end),
	     graph ? "a graph" : "no graph");
	tell("the other stream afterwards", "%s", capture_status(other));

	/* Only the stream that began may end. */
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CU(cuEventRecord(event, stream));
	CU(cuStreamWaitEvent(other, event, 0));
	tell_status("end on a stream that joined in", cuStreamEndCapture(other, &graph));
	cuStreamEndCapture(stream, &graph); /* whatever became of it */

	/* Two captures stay two. */
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CU(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
	CU(cuEventRecord(event, stream));
	tell_status("a capture that waits for another", cuStreamWaitEvent(other, event, 0));
	cuStreamEndCapture(other, &graph);
	cuStreamEndCapture(stream, &graph);

	/* Waiting for an event from outside the capture. */
	CU(cuEventRecord(outside, other));
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	tell_status("a capture that waits for an event from outside",
	            cuStreamWaitEvent(stream, outside, 0));
	graph = NULL;
	end = cuStreamEndCapture(stream, &graph);
	tell("its end", "%s, %s", client_error_name(end), graph ? "a graph" : "no graph");
	if (graph)
		CU(cuGraphDestroy(graph));
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
	return cuThreadExchangeStreamCaptureMode(mode);
}

/* A relaxed thread may make unsafe calls while it captures otherwise. */
static void ask_exchange(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUgraph graph = NULL;

	TELL_VALUE("exchange to relaxed", exchange(&mode), "from %d", (int)mode);
	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	tell_status("cuMemAlloc in a relaxed thread's global capture", allocate());
	tell("status of the capture", "%s", capture_status(stream));
	CU(cuStreamEndCapture(stream, &graph));
	CU(cuGraphDestroy(graph));
	TELL_VALUE("exchange back", exchange(&mode), "from %d", (int)mode);
	mode = (CUstreamCaptureMode)99;
	tell_status("exchange to an unknown mode", exchange(&mode));
}

static void *end_capture(void *data)
{
	CUgraph graph = NULL;
	CUcontext context;

	(void)data;
	CU(cuDevicePrimaryCtxRetain(&context, 0));
	CU(cuCtxSetCurrent(context));
	tell_status("end from another thread", cuStreamEndCapture(stream, &graph));
	CU(cuDevicePrimaryCtxRelease(0));
	return NULL;
}

static void ask_wrong_thread(void)
{
	pthread_t thread;
	CUgraph graph = NULL;

	CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	pthread_create(&thread, NULL, end_capture, NULL);
	pthread_join(thread, NULL);
	tell("status after that thread", "%s", capture_status(stream));
	tell_status("end from the thread that began", cuStreamEndCapture(stream, &graph));
	if (graph)
		CU(cuGraphDestroy(graph));
}

int main(void)
{
	char name[256];

	client_open_device(name);
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	CU(cuEventCreate(&outside, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CU(cuMemAlloc(&memory, 4096));
	CU(cuEventRecord(outside, other));
	CU(cuCtxSynchronize());
	ask_begin_and_end();
	ask_joins();
	ask_exchange();
	ask_wrong_thread();
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		for (size_t mode = 0; mode < 3; mode++)
			for (int thread = 0; thread < 2; thread++)
				ask_call(calls[i].name, calls[i].call, mode, thread);
	client_close_device(0);
	return 0;
}
