/* SPDX-License-Identifier: MIT */
/*
 * Tests of stream capture: the calls that become nodes, and those that a capture forbids, by
 * thread.
 */
#include <pthread.h>
#include <stdint.h>

#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

static CUfunction fill_function(void)
{
	CUmodule module;
	CUfunction function;
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&function, module, "fill"));
	return function;
}

static CUstream new_stream(unsigned int flags)
{
	CUstream stream;
	OK(cuStreamCreate(&stream, flags));
	return stream;
}

static CUevent new_event(void)
{
	CUevent event;
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	return event;
}

static CUresult launch_fill(CUfunction fill, CUdeviceptr memory, uint32_t value, uint32_t count,
                            CUstream stream)
{
	void *parameters[] = {&memory, &value, &count};
	return cuLaunchKernel(fill, (count + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters,
	                      NULL);
}

static void begin(CUstream stream, CUstreamCaptureMode mode)
{
	OK(cuStreamBeginCapture_v2(stream, mode));
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
	CUstreamCaptureStatus status;
	OK(cuStreamIsCapturing(stream, &status));
	return status;
}

/* The capture in this stream counts no more; ends it. */
static void expect_invalidated(CUstream stream)
{
	CUgraph graph = (CUgraph)0x1234;
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuEventRecord(new_event(), stream));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamSynchronize(stream));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamEndCapture(stream, &graph));
	CHECK(graph == NULL && status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
	OK(cuStreamSynchronize(stream));
}

static void expect_valid(CUstream stream)
{
	CUgraph graph;
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphDestroy(graph));
}

static size_t count_of(CUgraph graph, CUgraphNodeType wanted)
{
	CUgraphNode nodes[64];
	size_t count = 64, found = 0;
	OK(cuGraphGetNodes(graph, nodes, &count));
	for (size_t i = 0; i < count; i++) {
		CUgraphNodeType type;
		OK(cuGraphNodeGetType(nodes[i], &type));
		found += type == wanted;
	}
	return found;
}

static void count_call(void *counter)
{
	__atomic_fetch_add((int *)counter, 1, __ATOMIC_SEQ_CST);
}

/* Every kind of work is taken down, not done; parameters are copied; replays do it each time. */
static void every_kind(void)
{
	start();
	CUfunction fill = fill_function();
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr a, b, c;
	uint32_t words[64], *pinned;
	int calls = 0;
	CUgraph graph;
	CUgraphExec exec;
	OK(cuMemAlloc_v2(&a, sizeof(words)));
	OK(cuMemAlloc_v2(&b, sizeof(words)));
	OK(cuMemAlloc_v2(&c, sizeof(words)));
	OK(cuMemAllocHost_v2((void **)&pinned, sizeof(words)));
	OK(cuMemsetD8Async(a, 0, sizeof(words), stream));
	OK(cuMemsetD8Async(c, 0, sizeof(words), stream));
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	uint32_t value = 7, count = 64;
	CUdeviceptr target = a;
	void *parameters[] = {&target, &value, &count};
	OK(cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
	target = 0, value = 0, count = 0; /* the capture has its own copy */
	OK(cuMemcpyDtoDAsync_v2(b, a, sizeof(words), stream));
	CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                      .srcDevice = b,
	                      .srcPitch = 32,
	                      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                      .dstDevice = c,
	                      .dstPitch = 64,
	                      .WidthInBytes = 16,
	                      .Height = 4};
	OK(cuMemcpy2DAsync_v2(&flat, stream));
	CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
	                     .srcDevice = c,
	                     .srcPitch = 64,
	                     .srcHeight = 2,
	                     .dstMemoryType = CU_MEMORYTYPE_HOST,
	                     .dstHost = pinned,
	                     .dstPitch = 16,
	                     .dstHeight = 2,
	                     .WidthInBytes = 16,
	                     .Height = 2,
	                     .Depth = 2};
	OK(cuMemcpy3DAsync_v2(&box, stream));
	OK(cuMemsetD32Async(a, 99, 64, stream));
	OK(cuMemsetD2D16Async(b, 8, 0x5a5a, 2, 3, stream));
	OK(cuLaunchHostFunc(stream, count_call, &calls));
	OK(cuMemcpyDtoHAsync_v2(words, a, sizeof(words), stream)); /* pageable: at each launch */
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuStreamSynchronize(stream));
	CHECK(calls == 0);
	CHECK(count_of(graph, CU_GRAPH_NODE_TYPE_KERNEL) == 1);
	CHECK(count_of(graph, CU_GRAPH_NODE_TYPE_MEMCPY) == 4);
	CHECK(count_of(graph, CU_GRAPH_NODE_TYPE_MEMSET) == 2);
	CHECK(count_of(graph, CU_GRAPH_NODE_TYPE_HOST) == 1);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphDestroy(graph)); /* the executable one is on its own */
	for (int round = 1; round <= 3; round++) {
		memset(pinned, 0, sizeof(words));
		memset(words, 0, sizeof(words));
		OK(cuGraphLaunch(exec, stream));
		OK(cuStreamSynchronize(stream));
		CHECK(calls == round);
		for (uint32_t row = 0; row < 4; row++)
			for (uint32_t x = 0; x < 4; x++)
				CHECK(pinned[4 * row + x] == 7 + 8 * row + x);
		for (int i = 0; i < 64; i++)
			CHECK(words[i] == 99);
		OK(cuMemcpyDtoH_v2(words, b, sizeof(words)));
		CHECK(words[0] == 0x5a5a5a5a && words[1] == 8 && words[2] == 0x5a5a5a5a &&
		      words[4] == 0x5a5a5a5a && words[6] == 13);
	}
	OK(cuGraphExecDestroy(exec));
}

/* Three streams: two branches fork off and join again; the shape is that of the events. */
static void fork_and_join(void)
{
	start();
	CUfunction fill = fill_function();
	CUstream main_stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUstream left = new_stream(CU_STREAM_NON_BLOCKING), right = new_stream(0);
	CUevent forked = new_event(), left_done = new_event(), right_done = new_event();
	CUdeviceptr memory;
	uint32_t words[300];
	CUgraph graph;
	CUgraphExec exec;
	OK(cuMemAlloc_v2(&memory, sizeof(words)));
	begin(main_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
	OK(cuMemsetD8Async(memory, 0, sizeof(words), main_stream));
	OK(cuEventRecord(forked, main_stream));
	OK(cuStreamWaitEvent(left, forked, 0));
	OK(cuStreamWaitEvent(right, forked, 0));
	CHECK(status_of(left) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
	cuuint64_t ids[2];
	CUstreamCaptureStatus status;
	OK(cuStreamGetCaptureInfo(main_stream, &status, &ids[0]));
	OK(cuStreamGetCaptureInfo(right, &status, &ids[1]));
	CHECK(ids[0] == ids[1]);
	OK(launch_fill(fill, memory, 1000, 100, left));
	OK(launch_fill(fill, memory + 400, 2000, 100, right));
	OK(launch_fill(fill, memory + 800, 3000, 100, main_stream));
	OK(cuEventRecord(left_done, left));
	OK(cuEventRecord(right_done, right));
	OK(cuStreamWaitEvent(main_stream, left_done, 0));
	OK(cuStreamWaitEvent(main_stream, right_done, 0));
	OK(cuMemcpyDtoHAsync_v2(words, memory, sizeof(words), main_stream));
	OK(cuStreamEndCapture(main_stream, &graph));
	CHECK(status_of(left) == CU_STREAM_CAPTURE_STATUS_NONE);
	size_t edges, roots;
	OK(cuGraphGetEdges(graph, NULL, NULL, &edges));
	OK(cuGraphGetRootNodes(graph, NULL, &roots));
	CHECK(edges == 6 && roots == 1);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (int round = 0; round < 5; round++) {
		memset(words, 0, sizeof(words));
		OK(cuGraphLaunch(exec, round % 2 ? left : main_stream));
		OK(cuStreamSynchronize(round % 2 ? left : main_stream));
		for (uint32_t i = 0; i < 300; i++)
			CHECK(words[i] == 1000 * (i / 100 + 1) + i % 100);
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

/* Ends captures badly. */
static void bad_ends(void)
{
	start();
	CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
	CUevent event = new_event();
	CUgraph graph = (CUgraph)0x1234;
	EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamEndCapture(a, &graph));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture_v2(NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBeginCapture_v2(a, 3));
	begin(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(CUDA_ERROR_ILLEGAL_STATE, cuStreamBeginCapture_v2(a, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamEndCapture(a, NULL));
	expect_valid(a);
	/* A branch that does not come back. */
	int calls = 0;
	begin(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuEventRecord(event, a));
	OK(cuStreamWaitEvent(b, event, 0));
	OK(cuLaunchHostFunc(b, count_call, &calls));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cuStreamEndCapture(a, &graph));
	CHECK(graph == NULL && status_of(a) == CU_STREAM_CAPTURE_STATUS_NONE &&
	      status_of(b) == CU_STREAM_CAPTURE_STATUS_NONE);
	/* One without work has nothing to bring back. */
	begin(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuEventRecord(event, a));
	OK(cuStreamWaitEvent(b, event, 0));
	expect_valid(a);
	/* Ended where it did not begin. */
	begin(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuEventRecord(event, a));
	OK(cuStreamWaitEvent(b, event, 0));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cuStreamEndCapture(b, &graph));
	expect_invalidated(a);
	CHECK(status_of(b) == CU_STREAM_CAPTURE_STATUS_NONE);
	/* One that joined may be destroyed before the end; what it did must still be joined. */
	for (int joins = 0; joins < 2; joins++) {
		CUevent done = new_event();
		begin(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
		OK(cuEventRecord(event, a));
		OK(cuStreamWaitEvent(b, event, 0));
		OK(cuLaunchHostFunc(b, count_call, &calls));
		OK(cuEventRecord(done, b));
		OK(cuStreamDestroy_v2(b));
		CHECK(status_of(a) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
		if (joins)
			OK(cuStreamWaitEvent(a, done, 0));
		EXPECT(joins ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
		       cuStreamEndCapture(a, &graph));
		b = new_stream(CU_STREAM_NON_BLOCKING);
	}
	OK(cuGraphDestroy(graph));
	/* The one where it began is not. */
	begin(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamDestroy_v2(a));
	expect_invalidated(a);
	OK(cuStreamDestroy_v2(a));
}

/* Connects the inside of a capture with the outside. */
static void boundaries(void)
{
	start();
	CUstream a = new_stream(CU_STREAM_NON_BLOCKING), b = new_stream(CU_STREAM_NON_BLOCKING);
	CUstream c = new_stream(CU_STREAM_NON_BLOCKING);
	CUevent event = new_event(), other = new_event();
	float milliseconds;
	/* Two captures may not meet. */
	begin(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	begin(b, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuEventRecord(event, a));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_MERGE, cuStreamWaitEvent(b, event, 0));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cuStreamWaitEvent(c, event, 0));
	expect_invalidated(a);
	expect_invalidated(b);
	/* A captured stream may not wait for what is not captured. */
	OK(cuEventRecord(other, c));
	begin(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(a, other, 0));
	expect_invalidated(a);
	/* Nor for what a capture before was. */
	begin(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuEventRecord(event, a));
	expect_valid(a);
	begin(a, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cuStreamWaitEvent(a, event, 0));
	expect_invalidated(a);
	EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuStreamWaitEvent(c, event, 0));
	/* A captured event has no state to ask for, even in relaxed mode. */
	CUresult (*asks[])(CUevent) = {cuEventQuery, cuEventSynchronize};
	for (int i = 0; i < 2; i++) {
		begin(a, CU_STREAM_CAPTURE_MODE_RELAXED);
		OK(cuEventRecord(event, a));
		EXPECT(CUDA_ERROR_CAPTURED_EVENT, asks[i](event));
		expect_invalidated(a);
		EXPECT(CUDA_ERROR_CAPTURED_EVENT, asks[i](event));
	}
	EXPECT(CUDA_ERROR_CAPTURED_EVENT, cuEventElapsedTime(&milliseconds, event, event));
	/* Recorded again, it is an event like others. */
	OK(cuEventRecord(event, c));
	OK(cuEventSynchronize(event));
	OK(cuEventQuery(event));
	/* External events are nodes, and nothing outside a capture. */
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuEventRecordWithFlags(event, c, CU_EVENT_RECORD_EXTERNAL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(c, event, CU_EVENT_WAIT_EXTERNAL));
	CUgraph graph;
	begin(a, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuStreamWaitEvent(a, other, CU_EVENT_WAIT_EXTERNAL));
	OK(cuEventRecordWithFlags(event, a, CU_EVENT_RECORD_EXTERNAL));
	OK(cuStreamEndCapture(a, &graph));
	OK(cuEventQuery(event));
	CHECK(count_of(graph, CU_GRAPH_NODE_TYPE_WAIT_EVENT) == 1);
	CHECK(count_of(graph, CU_GRAPH_NODE_TYPE_EVENT_RECORD) == 1);
}

/* Does what a captured stream itself cannot do, in any mode. */
static void unsupported_in_stream(void)
{
	CUcontext context = start();
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUresult (*calls[])(CUstream) = {cuStreamSynchronize, cuStreamQuery};
	for (int i = 0; i < 2; i++) {
		begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
		EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, calls[i](stream));
		expect_invalidated(stream);
	}
	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize());
	expect_invalidated(stream);
	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuCtxSetCurrent(NULL));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize_v2(context));
	OK(cuCtxSetCurrent(context));
	expect_invalidated(stream);
	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       cuStreamAddCallback(stream, (CUstreamCallback)(void *)count_call, NULL, 0));
	expect_invalidated(stream);
}

/* The legacy stream would wait for a captured blocking stream, but not for another. */
static void legacy_stream(void)
{
	start();
	CUdeviceptr memory;
	CUstreamCaptureStatus status;
	uint32_t word = 0;
	CUstream blocking = new_stream(0), free_stream = new_stream(CU_STREAM_NON_BLOCKING);
	OK(cuMemAlloc_v2(&memory, 16));
	begin(free_stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuMemcpyHtoD_v2(memory, &word, 4));
	OK(cuStreamSynchronize(NULL));
	OK(cuStreamIsCapturing(NULL, &status));
	expect_valid(free_stream);
	begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamIsCapturing(NULL, &status));
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
	       cuStreamGetCaptureInfo(CU_STREAM_LEGACY, &status, NULL));
	expect_valid(blocking); /* these two only ask */
	begin(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemcpyHtoD_v2(memory, &word, 4));
	expect_invalidated(blocking);
	begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuMemsetD8Async(memory, 0, 4, NULL));
	expect_invalidated(blocking);
	begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamSynchronize(NULL));
	expect_invalidated(blocking);
	begin(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, cuStreamQuery(NULL));
	expect_invalidated(blocking);
	OK(cuStreamQuery(NULL));
}

/* The calls that some thread makes, with its capture mode, while this one captures. */
struct deed {
	CUcontext context;
	CUstreamCaptureMode mode;
	CUresult (*act)(void);
	CUresult result;
};

static void *do_deed(void *argument)
{
	struct deed *deed = argument;
	CUstreamCaptureMode mode = deed->mode;
	OK(cuCtxSetCurrent(deed->context));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
	deed->result = deed->act();
	return NULL;
}

static CUresult from_another_thread(CUresult (*act)(void), CUstreamCaptureMode mode)
{
	struct deed deed = {.mode = mode, .act = act};
	pthread_t thread;
	OK(cuCtxGetCurrent(&deed.context));
	CHECK(pthread_create(&thread, NULL, do_deed, &deed) == 0);
	pthread_join(thread, NULL);
	return deed.result;
}

static CUresult from_this_thread(CUresult (*act)(void), CUstreamCaptureMode mode)
{
	CUstreamCaptureMode swapped = mode;
	OK(cuThreadExchangeStreamCaptureMode(&swapped));
	CUresult result = act();
	OK(cuThreadExchangeStreamCaptureMode(&swapped));
	CHECK(swapped == mode);
	return result;
}

static CUdeviceptr spare[4];
static void *spare_host;
static CUevent spare_event;

static CUresult allocate(void)
{
	CUdeviceptr memory;
	return cuMemAlloc_v2(&memory, 16);
}

static CUresult free_spare(void)
{
	static int next;
	return next < 3 ? cuMemFree_v2(spare[next++]) : CUDA_ERROR_UNKNOWN;
}

static CUresult allocate_host(void)
{
	void *memory;
	return cuMemHostAlloc(&memory, 16, 0);
}

static CUresult load_module(void)
{
	CUmodule module;
	return cuModuleLoadData(&module, kernels);
}

static CUresult copy_and_wait(void)
{
	uint32_t word;
	return cuMemcpyDtoH_v2(&word, spare[3], 4);
}

static CUresult ask_event(void)
{
	return cuEventQuery(spare_event);
}

/* Potentially unsafe calls: forbidden by whose capture, in which mode, to a thread in which. */
static void thread_modes(void)
{
	start();
	CUresult (*const acts[])(void) = {allocate, allocate_host, load_module, copy_and_wait,
	                                  ask_event};
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	spare_event = new_event();
	OK(cuMemAllocHost_v2(&spare_host, 16));
	for (int i = 0; i < 4; i++)
		OK(cuMemAlloc_v2(&spare[i], 16));
	for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++) {
		for (int capture_mode = 0; capture_mode < 3; capture_mode++) {
			for (int mode = 0; mode < 3; mode++) {
				bool here = capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
				            mode != CU_STREAM_CAPTURE_MODE_RELAXED;
				bool there = capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
				             mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
				begin(stream, (CUstreamCaptureMode)capture_mode);
				EXPECT(here ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS,
				       from_this_thread(acts[i], (CUstreamCaptureMode)mode));
				(here ? expect_invalidated : expect_valid)(stream);
				begin(stream, (CUstreamCaptureMode)capture_mode);
				EXPECT(there ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS,
				       from_another_thread(acts[i], (CUstreamCaptureMode)mode));
				(there ? expect_invalidated : expect_valid)(stream);
			}
		}
	}
	/* Freeing, where it is forbidden, frees nothing. */
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       from_another_thread(free_spare, CU_STREAM_CAPTURE_MODE_GLOBAL));
	expect_invalidated(stream);
	OK(cuMemFree_v2(spare[0]));
	/* The context as a whole, from any thread in any mode. */
	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	EXPECT(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
	       from_another_thread(cuCtxSynchronize, CU_STREAM_CAPTURE_MODE_RELAXED));
	expect_invalidated(stream);
}

static CUstream shared_stream;

static CUresult end_shared(void)
{
	CUgraph graph;
	CUresult result = cuStreamEndCapture(shared_stream, &graph);
	if (result == CUDA_SUCCESS)
		OK(cuGraphDestroy(graph));
	return result;
}

static void wrong_thread(void)
{
	start();
	shared_stream = new_stream(CU_STREAM_NON_BLOCKING);
	for (int mode = 0; mode < 2; mode++) {
		begin(shared_stream, (CUstreamCaptureMode)mode);
		EXPECT(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
		       from_another_thread(end_shared, CU_STREAM_CAPTURE_MODE_GLOBAL));
		expect_invalidated(shared_stream);
	}
	begin(shared_stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(from_another_thread(end_shared, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CHECK(status_of(shared_stream) == CU_STREAM_CAPTURE_STATUS_NONE);
}

/* The queries of all versions, and dependencies that the application changes itself. */
static void dependencies(void)
{
	start();
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUstreamCaptureStatus status;
	cuuint64_t id = 0, next_id = 0;
	CUgraph graph, ended;
	const CUgraphNode *nodes;
	const CUgraphEdgeData *edges;
	CUgraphNode first, second, third;
	size_t count = 99;
	int calls = 0;
	EXPECT(CUDA_ERROR_ILLEGAL_STATE,
	       cuStreamUpdateCaptureDependencies_v2(stream, NULL, NULL, 0, 0));
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &count));
	CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0 && count == 0);
	OK(cuLaunchHostFunc(stream, count_call, &calls));
	OK(cuStreamGetCaptureInfo_v3(stream, &status, &id, &graph, &nodes, &edges, &count));
	CHECK(count == 1 && edges[0].type == 0);
	first = nodes[0];
	/* A node made by hand, beside the stream's. */
	CUDA_HOST_NODE_PARAMS host = {.fn = count_call, .userData = &calls};
	OK(cuGraphAddHostNode(&second, graph, NULL, 0, &host));
	OK(cuStreamUpdateCaptureDependencies(stream, &second, 1,
	                                     CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	OK(cuLaunchHostFunc(stream, count_call, &calls));
	OK(cuStreamGetCaptureInfo_v2(stream, &status, &id, &graph, &nodes, &count));
	CHECK(count == 1);
	third = nodes[0];
	CUgraphNode before[3];
	count = 3;
	OK(cuGraphNodeGetDependencies(third, before, &count));
	CHECK(count == 2 && before[0] == first && before[1] == second && before[2] == NULL);
	/* Back to the first: the third is a branch that need not be joined. */
	OK(cuStreamUpdateCaptureDependencies_v2(stream, &first, NULL, 1,
	                                        CU_STREAM_SET_CAPTURE_DEPENDENCIES));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuStreamUpdateCaptureDependencies_v2(stream, (CUgraphNode *)&stream, NULL, 1, 0));
	/* The graph is not to be touched by others meanwhile. */
	CUgraphExec exec;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(third));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuStreamEndCapture(stream, &ended));
	CHECK(ended == graph);
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuStreamGetCaptureInfo(stream, &status, &next_id));
	CHECK(next_id != id);
	expect_valid(stream);
	/* On into the same graph, after its third node. */
	OK(cuStreamBeginCaptureToGraph(stream, graph, &third, NULL, 1,
	                               CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuLaunchHostFunc(stream, count_call, &calls));
	OK(cuStreamEndCapture(stream, NULL));
	count = 3;
	OK(cuGraphNodeGetDependentNodes(third, before, &count));
	CHECK(count == 1);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(calls == 4);
}

/* Memory that is allocated in a capture lives from launch to free. */
static void memory(void)
{
	start();
	CUfunction fill = fill_function();
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr inner, kept, plain;
	uint32_t words[64];
	CUgraph graph;
	CUgraphExec exec, second;
	cuuint64_t used, high;
	OK(cuMemAllocAsync(&plain, 64, stream));
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemAllocAsync(&inner, sizeof(words), stream));
	OK(cuMemAllocAsync(&kept, sizeof(words), stream));
	OK(launch_fill(fill, inner, 5, 64, stream));
	OK(cuMemcpyDtoDAsync_v2(kept, inner, sizeof(words), stream));
	OK(cuMemFreeAsync(inner, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(inner, stream)); /* twice */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(plain, stream)); /* not the graph's */
	OK(cuStreamEndCapture(stream, &graph));
	CHECK(count_of(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC) == 2);
	CHECK(count_of(graph, CU_GRAPH_NODE_TYPE_MEM_FREE) == 1);
	uint64_t before = physical_bytes(0);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&second, graph, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphClone(&graph, graph));
	CHECK(physical_bytes(0) == before); /* addresses only, until a launch */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(kept));
	for (int round = 0; round < 3; round++) {
		OK(cuGraphLaunch(exec, stream));
		EXPECT(CUDA_ERROR_INVALID_VALUE,
		       cuGraphLaunch(exec, stream)); /* kept is not freed */
		OK(cuMemcpyDtoHAsync_v2(words, kept, sizeof(words), stream));
		OK(cuStreamSynchronize(stream));
		for (uint32_t i = 0; i < 64; i++)
			CHECK(words[i] == 5 + i);
		OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
		OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
		CHECK(used == 4 * MIB && high == 4 * MIB);
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(inner)); /* its graph frees it */
		OK(round ? cuMemFreeAsync(kept, stream) : cuMemFree_v2(kept));
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(kept, stream));
	}
	OK(cuStreamSynchronize(stream));
	CHECK(physical_bytes(0) == before + 4 * MIB);
	OK(cuDeviceGraphMemTrim(0));
	CHECK(physical_bytes(0) == before);
	OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &used));
	CHECK(used == 0);
	OK(cuGraphExecDestroy(exec));
	/* Each launch may free what the one before left. */
	OK(cuGraphInstantiateWithFlags(&exec, graph,
	                               CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
	for (int round = 0; round < 3; round++)
		OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	OK(cuMemFreeAsync(kept, stream)); /* it outlived its graph */
	OK(cuStreamSynchronize(stream));
	/* So does the physical memory, for other graphs. */
	CHECK(physical_bytes(0) == before + 4 * MIB);
	OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &used));
	CHECK(used == 4 * MIB);
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemAllocAsync(&inner, sizeof(words), stream));
	OK(cuMemFreeAsync(inner, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(physical_bytes(0) == before + 4 * MIB);
	OK(cuDeviceGraphMemTrim(0));
	CHECK(physical_bytes(0) == before);
	OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &used));
	OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &high));
	CHECK(used == 0 && high == 4 * MIB);
}

/* 0 bytes are no node of a capture. */
static void no_memory(void)
{
	start();
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr nothing = 1;
	CUgraphNode node;
	CUgraph graph;
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
	    .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}}};
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemAllocAsync(&nothing, 0, stream));
	OK(cuStreamEndCapture(stream, &graph));
	CHECK(nothing == 0 && count_of(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC) == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
}

/* Memory of a graph that is used after its free is an illegal address, whatever is cached. */
static void memory_after_free(void)
{
	start();
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr memory;
	CUgraph graph;
	CUgraphExec exec;
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuMemAllocAsync(&memory, 64, stream));
	OK(cuMemsetD8Async(memory, 1, 64, stream));
	OK(cuMemFreeAsync(memory, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemsetD8Async(memory, 1, 64, stream));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
}

/* Launching a graph in a captured stream makes it a child graph. */
static void nested_launch(void)
{
	start();
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUgraph inner, outer;
	CUgraphExec inner_exec, outer_exec;
	int calls = 0;
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuLaunchHostFunc(stream, count_call, &calls));
	OK(cuLaunchHostFunc(stream, count_call, &calls));
	OK(cuStreamEndCapture(stream, &inner));
	OK(cuGraphInstantiateWithFlags(&inner_exec, inner, 0));
	begin(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
	OK(cuGraphLaunch(inner_exec, stream));
	OK(cuLaunchHostFunc(stream, count_call, &calls));
	OK(cuGraphLaunch(inner_exec, stream));
	OK(cuStreamEndCapture(stream, &outer));
	CHECK(calls == 0 && count_of(outer, CU_GRAPH_NODE_TYPE_GRAPH) == 2);
	OK(cuGraphInstantiateWithFlags(&outer_exec, outer, 0));
	OK(cuGraphLaunch(outer_exec, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(calls == 5);
}

/* Contexts end whatever is being captured in them. */
static void context_ends(void)
{
	CUcontext context = start();
	CUstream stream = new_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr memory;
	CUevent event = new_event();
	begin(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
	OK(cuMemAllocAsync(&memory, 64, stream));
	OK(cuEventRecord(event, stream));
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
	OK(cuMemAlloc_v2(&memory, 64));
	OK(cuCtxSynchronize());
	CHECK(physical_bytes(0) == 10 * MIB);
}

int main(void)
{
	int failed = 0;
	failed += RUN(every_kind, NULL);
	failed += RUN(fork_and_join, NULL);
	failed += RUN(bad_ends, NULL);
	failed += RUN(boundaries, NULL);
	failed += RUN(unsupported_in_stream, NULL);
	failed += RUN(legacy_stream, NULL);
	failed += RUN(thread_modes, NULL);
	failed += RUN(wrong_thread, NULL);
	failed += RUN(dependencies, NULL);
	failed += RUN(memory, NULL);
	failed += RUN(no_memory, NULL);
	failed += RUN(memory_after_free, NULL);
	failed += RUN(nested_launch, NULL);
	failed += RUN(context_ends, NULL);
	return failed != 0;
}
