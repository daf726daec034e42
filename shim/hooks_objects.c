/* Objects the registry follows: modules, libraries, streams, events, executable graphs. */
#include "shim/track.h"

#include "core/job.h"

HOOK(cuModuleLoad, CUmodule *module, const char *fname)
{
	return CREATED(REAL(cuModuleLoad)(module, fname), module, module);
}

HOOK(cuModuleLoadData, CUmodule *module, const void *image)
{
	return CREATED(REAL(cuModuleLoadData)(module, image), module, module);
}

HOOK(cuModuleLoadDataEx, CUmodule *module, const void *image, unsigned int numOptions,
     CUjit_option *options, void **optionValues)
{
	return CREATED(REAL(cuModuleLoadDataEx)(module, image, numOptions, options, optionValues),
	               module, module);
}

HOOK(cuModuleLoadFatBinary, CUmodule *module, const void *fatCubin)
{
	return CREATED(REAL(cuModuleLoadFatBinary)(module, fatCubin), module, module);
}

HOOK(cuModuleUnload, CUmodule hmod)
{
	return DESTROYED(REAL(cuModuleUnload)(hmod), module, hmod);
}

HOOK(cuLibraryLoadData, CUlibrary *library, const void *code, CUjit_option *jitOptions,
     void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
     void **libraryOptionValues, unsigned int numLibraryOptions)
{
	return CREATED(REAL(cuLibraryLoadData)(library, code, jitOptions, jitOptionsValues,
	                                       numJitOptions, libraryOptions, libraryOptionValues,
	                                       numLibraryOptions),
	               library, library);
}

HOOK(cuLibraryLoadFromFile, CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
     void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
     void **libraryOptionValues, unsigned int numLibraryOptions)
{
	return CREATED(REAL(cuLibraryLoadFromFile)(library, fileName, jitOptions, jitOptionsValues,
	                                           numJitOptions, libraryOptions,
	                                           libraryOptionValues, numLibraryOptions),
	               library, library);
}

HOOK(cuLibraryUnload, CUlibrary library)
{
	return DESTROYED(REAL(cuLibraryUnload)(library), library, library);
}

HOOK(cuStreamCreate, CUstream *phStream, unsigned int Flags)
{
	return CREATED(REAL(cuStreamCreate)(phStream, Flags), stream, phStream);
}

HOOK(cuStreamCreateWithPriority, CUstream *phStream, unsigned int flags, int priority)
{
	return CREATED(REAL(cuStreamCreateWithPriority)(phStream, flags, priority), stream,
	               phStream);
}

HOOK(cuStreamDestroy, CUstream hStream)
{
	job_leave_stream(hStream);
	return DESTROYED(REAL(cuStreamDestroy)(hStream), stream, hStream);
}

HOOK(cuStreamDestroy_v2, CUstream hStream)
{
	KEEP_ERRNO;

	job_leave_stream(hStream);
	return DESTROYED(REAL(cuStreamDestroy_v2)(hStream), stream, hStream);
}

HOOK(cuEventCreate, CUevent *phEvent, unsigned int Flags)
{
	return CREATED(REAL(cuEventCreate)(phEvent, Flags), event, phEvent);
}

HOOK(cuEventDestroy, CUevent hEvent)
{
	return DESTROYED(REAL(cuEventDestroy)(hEvent), event, hEvent);
}

HOOK(cuEventDestroy_v2, CUevent hEvent)
{
	return DESTROYED(REAL(cuEventDestroy_v2)(hEvent), event, hEvent);
}

HOOK(cuGraphInstantiate, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
     char *logBuffer, size_t bufferSize)
{
	return CREATED(
	    REAL(cuGraphInstantiate)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
	    graph_exec, phGraphExec);
}

HOOK(cuGraphInstantiate_v2, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
     char *logBuffer, size_t bufferSize)
{
	return CREATED(
	    REAL(cuGraphInstantiate_v2)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
	    graph_exec, phGraphExec);
}

HOOK(cuGraphInstantiateWithParams, CUgraphExec *phGraphExec, CUgraph hGraph,
     CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return CREATED(REAL(cuGraphInstantiateWithParams)(phGraphExec, hGraph, instantiateParams),
	               graph_exec, phGraphExec);
}

HOOK(cuGraphInstantiateWithParams_ptsz, CUgraphExec *phGraphExec, CUgraph hGraph,
     CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return CREATED(
	    REAL(cuGraphInstantiateWithParams_ptsz)(phGraphExec, hGraph, instantiateParams),
	    graph_exec, phGraphExec);
}

HOOK(cuGraphInstantiateWithFlags, CUgraphExec *phGraphExec, CUgraph hGraph,
     unsigned long long flags)
{
	return CREATED(REAL(cuGraphInstantiateWithFlags)(phGraphExec, hGraph, flags), graph_exec,
	               phGraphExec);
}

HOOK(cuGraphExecDestroy, CUgraphExec hGraphExec)
{
	return DESTROYED(REAL(cuGraphExecDestroy)(hGraphExec), graph_exec, hGraphExec);
}
