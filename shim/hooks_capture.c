/* Stream capture: while one is active the pacer makes no call that could invalidate it. */
#include "shim/shim.h"

#include "core/pace/pacer.h"

static CUresult begun(CUresult result)
{
	if (result == CUDA_SUCCESS)
		pacer_capture_begins();
	return result;
}

/* A capture that was invalidated ends too, with an error; a stream that was not capturing does not.
 */
static CUresult ended(CUresult result)
{
	if (result != CUDA_ERROR_ILLEGAL_STATE && result != CUDA_ERROR_INVALID_VALUE &&
	    result != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED &&
	    result != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		pacer_capture_ends();
	return result;
}

HOOK(cuStreamBeginCapture, CUstream hStream)
{
	return begun(REAL(cuStreamBeginCapture)(hStream));
}

HOOK(cuStreamBeginCapture_ptsz, CUstream hStream)
{
	return begun(REAL(cuStreamBeginCapture_ptsz)(hStream));
}

HOOK(cuStreamBeginCapture_v2, CUstream hStream, CUstreamCaptureMode mode)
{
	return begun(REAL(cuStreamBeginCapture_v2)(hStream, mode));
}

HOOK(cuStreamBeginCapture_v2_ptsz, CUstream hStream, CUstreamCaptureMode mode)
{
	return begun(REAL(cuStreamBeginCapture_v2_ptsz)(hStream, mode));
}

HOOK(cuStreamBeginCaptureToGraph, CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
     const CUgraphEdgeData *dependencyData, size_t numDependencies, CUstreamCaptureMode mode)
{
	return begun(REAL(cuStreamBeginCaptureToGraph)(hStream, hGraph, dependencies,
	                                               dependencyData, numDependencies, mode));
}

HOOK(cuStreamBeginCaptureToGraph_ptsz, CUstream hStream, CUgraph hGraph,
     const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData, size_t numDependencies,
     CUstreamCaptureMode mode)
{
	return begun(REAL(cuStreamBeginCaptureToGraph_ptsz)(hStream, hGraph, dependencies,
	                                                    dependencyData, numDependencies, mode));
}

HOOK(cuStreamEndCapture, CUstream hStream, CUgraph *phGraph)
{
	return ended(REAL(cuStreamEndCapture)(hStream, phGraph));
}

HOOK(cuStreamEndCapture_ptsz, CUstream hStream, CUgraph *phGraph)
{
	return ended(REAL(cuStreamEndCapture_ptsz)(hStream, phGraph));
}
