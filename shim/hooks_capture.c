/* SPDX-License-Identifier: MIT */
/* Stream capture: while one is active Spillway makes no call that could invalidate it. */
#include "shim/sampled.h"
#include "shim/track.h"

#include "core/job/job.h"
#include "core/cuda/capture.h"

/* Returns the context with which a capture on this stream ends; NULL: it is not known. */
static CUcontext capture_begins(CUstream stream)
{
	KEEP_ERRNO;
	struct context current;
	CUcontext of_stream = NULL;

	capture_announce();
	/* Asked before the stream captures, which need not be of the current context. */
	if (!job_is_active() || REAL(cuStreamGetCtx)(stream, &of_stream) == CUDA_SUCCESS)
		return of_stream;
	return context_current(&current) ? current.handle : NULL;
}

/*
 * Notes that a capture began. Called inside the gate: the thread that closes it then knows of the
 * capture.
 */
static CUresult begun(CUresult result, CUstream stream, CUcontext context)
{
	if (result == CUDA_SUCCESS && job_is_active())
		capture_began_in(context, stream);
	capture_announced();
	return result;
}

#define BEGUN(call, stream)                             \
	PASSING_GATE(({                                 \
		CUcontext of_ = capture_begins(stream); \
		begun(call, stream, of_);               \
	}))

/* Asks the stream whether it still captures: after a failed end that depends on the error. */
static CUresult ended(CUresult result, CUstream stream)
{
	KEEP_ERRNO;
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (!job_is_active())
		return result;
	if (result == CUDA_SUCCESS || REAL(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS ||
	    status == CU_STREAM_CAPTURE_STATUS_NONE)
		capture_is_over(stream);
	return result;
}

BOTH(cuStreamBeginCapture, cuStreamBeginCapture_ptsz, (CUstream, hStream))
{
	return BEGUN(real(hStream), NAMED(hStream));
}

BOTH(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, (CUstream, hStream),
     (CUstreamCaptureMode, mode))
{
	return BEGUN(real(hStream, mode), NAMED(hStream));
}

BOTH(cuStreamBeginCaptureToGraph, cuStreamBeginCaptureToGraph_ptsz, (CUstream, hStream),
     (CUgraph, hGraph), (const CUgraphNode *, dependencies),
     (const CUgraphEdgeData *, dependencyData), (size_t, numDependencies),
     (CUstreamCaptureMode, mode))
{
	return BEGUN(real(hStream, hGraph, dependencies, dependencyData, numDependencies, mode),
	             NAMED(hStream));
}

/* Work of this capture goes to a graphics API's command list, and no graph comes of it. */
BOTH(cuStreamBeginCaptureToCig, cuStreamBeginCaptureToCig_ptsz, (CUstream, hStream),
     (CUstreamCigCaptureParams *, streamCigCaptureParams))
{
	return BEGUN(real(hStream, streamCigCaptureParams), NAMED(hStream));
}

/* Captures into a graph that has these nodes already, so that only their parameters change. */
BOTH(cuStreamBeginRecaptureToGraph, cuStreamBeginRecaptureToGraph_ptsz, (CUstream, hStream),
     (CUstreamCaptureMode, mode), (CUgraph, hGraph), (CUgraphRecaptureCallback, callbackFunc),
     (void *, userData))
{
	return BEGUN(real(hStream, mode, hGraph, callbackFunc, userData), NAMED(hStream));
}

/*
 * Enters a graph that a capture ended with. One that the program gave to capture into is in the
 * books already, with its nodes.
 */
static CUresult capture_captured(CUresult result, const CUgraph *graph)
{
	KEEP_ERRNO;
	struct resource *known;

	if (result != CUDA_SUCCESS || !graph || !*graph || !job_is_active()) {
		sampled_captured_graph(NULL);
		return result;
	}
	known = context_find_object(&object_type_graph, HANDLE(*graph));
	if (!known || resource_is_leaving(known)) /* that was another of this handle */
		track(&object_type_graph, HANDLE(*graph), 0);
	resource_release(known);
	sampled_captured_graph(*graph);
	return result;
}

BOTH(cuStreamEndCapture, cuStreamEndCapture_ptsz, (CUstream, hStream), (CUgraph *, phGraph))
{
	return capture_captured(ended(PASSING_GATE(real(hStream, phGraph)), NAMED(hStream)),
	                        phGraph);
}

BOTH(cuStreamEndCaptureToCig, cuStreamEndCaptureToCig_ptsz, (CUstream, hStream))
{
	return capture_captured(ended(PASSING_GATE(real(hStream)), NAMED(hStream)), NULL);
}
