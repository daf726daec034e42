/* SPDX-License-Identifier: MIT */
/*
 * Copies and fills of memory that lies on the host are made without waiting while their stream is
 * busy. Does the call come back at once, as it does for memory on the device?
 */
#include "tests/gpu/questions/question.h"

#include "tests/clients/program.h"

#include <stdint.h>

enum form { DTOH, DTOH_SMALL, HTOD, HTOD_PAGEABLE, DTOD, UNIFIED, GRAPH, FILL_ASYNC, FILL };

/* Launches a graph of one copy, which is destroyed while it waits for its turn. */
static CUresult launch_copy(CUdeviceptr to, CUdeviceptr from)
{
	const CUDA_MEMCPY3D node = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
	                            .srcDevice = from,
	                            .srcPitch = small_chunk,
	                            .srcHeight = 1,
	                            .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
	                            .dstDevice = to,
	                            .dstPitch = small_chunk,
	                            .dstHeight = 1,
	                            .WidthInBytes = small_chunk,
	                            .Height = 1,
	                            .Depth = 1};
	CUgraph graph;
	CUgraphNode made;
	CUgraphExec exec;
	CUresult result = gpu.cuGraphCreate(&graph, 0);

	if (result == CUDA_SUCCESS)
		result = gpu.cuGraphAddMemcpyNode(&made, graph, NULL, 0, &node, context);
	if (result == CUDA_SUCCESS)
		result = gpu.cuGraphInstantiate(&exec, graph, 0);
	if (result == CUDA_SUCCESS)
		result = gpu.cuGraphLaunch(exec, stream);
	return result == CUDA_SUCCESS ? gpu.cuGraphExecDestroy(exec) : result;
}

static CUresult make_call(enum form form, const struct range *range, void *host)
{
	CUdeviceptr at = range->base, second = at + (range->count > 1 ? small_chunk : 0);

	switch (form) {
	case DTOH:
		return gpu.cuMemcpyDtoHAsync(host, at, small_chunk, stream);
	case DTOH_SMALL:
		return gpu.cuMemcpyDtoHAsync(host, at, 64, stream);
	case HTOD:
		return gpu.cuMemcpyHtoDAsync(at, host, small_chunk, stream);
	case HTOD_PAGEABLE:
		return gpu.cuMemcpyHtoDAsync(at, host, 256, stream);
	case DTOD:
		return gpu.cuMemcpyDtoDAsync(at, second, small_chunk, stream);
	case UNIFIED:
		return gpu.cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, at, small_chunk, stream);
	case GRAPH:
		return launch_copy((CUdeviceptr)(uintptr_t)host, at);
	case FILL_ASYNC:
		return gpu.cuMemsetD8Async(at, 1, small_chunk, stream);
	case FILL:
		return gpu.cuMemsetD8(at, 1, small_chunk);
	}
	return CUDA_ERROR_INVALID_VALUE;
}

static void ask_call(const struct question *q)
{
	struct range range;
	static char pageable[256]; /* enough for those that use it */
	void *host = pageable;

	range_make(&range, q->kinds, small_chunk);
	ATTEMPT(cuMemsetD8(range.base, 1, range.reserved));
	ATTEMPT(cuCtxSynchronize());
	if (q->pinned)
		ATTEMPT(cuMemHostAlloc(&host, small_chunk, 0));
	busy_begin(stream);
	if (not_asked(q))
		return;
	double start = program_now_ms();
	CUresult result = make_call((enum form)q->form, &range, host);
	double took = program_now_ms() - start;
	busy_end(stream);
	const char *end = gpu_error_name(attempt.result);
	answer(q->name,
	       result != CUDA_SUCCESS || attempt.result != CUDA_SUCCESS ? "refused"
	       : took > WAITED_MS                                       ? "waits"
	                                                                : "returns",
	       "%.1f ms beside %d ms of work, then %s", took, BUSY_MS,
	       result != CUDA_SUCCESS ? gpu_error_name(result) : end);
}

#define THEN "calls on spilled memory are passed on as they are"
#define OTHERWISE                                                                                 \
	"the call waits inside Spillway's gate, and a program that signals its own stream later " \
	"hangs: copy by a kernel, or promote first what is copied without waiting"
#define ASKED(given, what, chunks, call, from_pinned)                                           \
	{                                                                                       \
		.name = given, .risk = "2",                                                     \
		.asks = "Does " what " come back while its stream is busy?",                    \
		.counted_on = "returns", .then = THEN, .otherwise = OTHERWISE, .ask = ask_call, \
		.kinds = chunks, .form = call, .pinned = from_pinned                            \
	}

const struct question async_questions[] = {
    ASKED("async_d2h_of_device", "a copy of device memory to pinned memory", "d", DTOH, true),
    ASKED("async_d2h_of_spilled", "a copy of spilled memory to pinned memory", "h", DTOH, true),
    ASKED("async_d2h_small_of_spilled", "a copy of 64 bytes of spilled memory", "h", DTOH_SMALL,
          true),
    ASKED("async_h2d_to_spilled", "a copy of pinned memory to spilled memory", "h", HTOD, true),
    ASKED("async_h2d_pageable_small_to_spilled", "a copy of 256 pageable bytes to spilled memory",
          "h", HTOD_PAGEABLE, false),
    ASKED("async_d2d_spilled_to_spilled", "a copy between spilled chunks", "hh", DTOD, false),
    ASKED("async_d2d_spilled_to_device", "a copy of a spilled chunk to one on the device", "dh",
          DTOD, false),
    ASKED("async_unified_spilled_to_pinned", "cuMemcpyAsync of spilled to pinned memory", "h",
          UNIFIED, true),
    ASKED("async_graph_of_spilled", "a graph that copies spilled to pinned memory", "h", GRAPH,
          true),
    ASKED("async_memset_spilled", "a fill of spilled memory", "h", FILL_ASYNC, false),
    {.name = "sync_memset_spilled_beside_work",
     .risk = "2",
     .asks = "Does a plain fill of spilled memory come back while another stream is busy?",
     .counted_on = "returns",
     .then = "plain fills are passed on",
     .otherwise = "a plain fill of spilled memory waits where that of device memory does not: say "
                  "so, or fill without waiting in the default stream",
     .ask = ask_call,
     .kinds = "h",
     .form = FILL},
    {.name = "sync_memset_device_beside_work",
     .risk = "2",
     .asks = "And one of device memory?",
     .counted_on = "returns",
     .then = "it is what the one of spilled memory is compared with",
     .otherwise = "nothing: both wait",
     .ask = ask_call,
     .kinds = "d",
     .form = FILL},
    {0},
};
