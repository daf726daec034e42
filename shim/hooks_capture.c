/* Stream capture: while one is active Spillway makes no call that could invalidate it. */
#include "shim/shim.h"

#include "core/job.h"
#include "core/pace/capture.h"

static CUresult begun(CUresult result, CUstream stream)
{
	if (result == CUDA_SUCCESS && job_is_active())
		capture_began(stream);
	return result;
}

/* Whether a failed end leaves the stream capturing depends on the error; the stream itself says it. */
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

HOOK(cuStreamBeginCapture, CUstream hStream)
{
	return begun(PASSING_GATE(REAL(cuStreamBeginCapture)(hStream)), LEGACY(hStream));
}

HOOK(cuStreamBeginCapture_ptsz, CUstream hStream)
{
	return begun(PASSING_GATE(REAL(cuStreamBeginCapture_ptsz)(hStream)), PER_THREAD(hStream));
}

HOOK(cuStreamBeginCapture_v2, CUstream hStream, CUstreamCaptureMode mode)
{
	return begun(PASSING_GATE(REAL(cuStreamBeginCapture_v2)(hStream, mode)), LEGACY(hStream));
}

HOOK(cuStreamBeginCapture_v2_ptsz, CUstream hStream, CUstreamCaptureMode mode)
{
	return begun(PASSING_GATE(REAL(cuStreamBeginCapture_v2_ptsz)(hStream, mode)),
	             PER_THREAD(hStream));
}

HOOK(cuStreamBeginCaptureToGraph, CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
     const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
	return begun(PASSING_GATE(REAL(cuStreamBeginCaptureToGraph)(
	                 hStream, hGraph, dependencies, dependencyData, numDependencies, mode)),
	             LEGACY(hStream));
}

HOOK(cuStreamBeginCaptureToGraph_ptsz, CUstream hStream, CUgraph hGraph,
     const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies,
     CUstreamCaptureMode mode)
{
	return begun(PASSING_GATE(REAL(cuStreamBeginCaptureToGraph_ptsz)(
	                 hStream, hGraph, dependencies, dependencyData, numDependencies, mode)),
	             PER_THREAD(hStream));
}

HOOK(cuStreamEndCapture, CUstream hStream, CUgraph *phGraph)
{
	return ended(PASSING_GATE(REAL(cuStreamEndCapture)(hStream, phGraph)), LEGACY(hStream));
}

HOOK(cuStreamEndCapture_ptsz, CUstream hStream, CUgraph *phGraph)
{
	return ended(PASSING_GATE(REAL(cuStreamEndCapture_ptsz)(hStream, phGraph)),
	             PER_THREAD(hStream));
}
