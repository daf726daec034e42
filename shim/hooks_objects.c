/* Objects the registry follows: modules, libraries, streams, events, executable graphs. */
#include "shim/shim.h"

#include "core/job.h"
#include "core/registry/object.h"

/* Made in the current context; out-parameters are read only after the driver succeeded. */
static CUresult track(CUresult result, const struct resource_type *type, void *const *object)
{
	KEEP_ERRNO;
	struct context context;

	if (result == CUDA_SUCCESS && object && job_is_active() && context_current(&context))
		object_track(context.device->registry, context.container, type, *object, 0);
	return result;
}

/* It may go while another context is current than the one it was made in. */
static CUresult forget(CUresult result, const struct resource_type *type, const void *object)
{
	KEEP_ERRNO;
	struct context context;

	for (size_t i = 0; result == CUDA_SUCCESS && job_is_active() && context_at(i, &context);
	     i++)
		object_forget(context.device->registry, context.container, type, object);
	return result;
}

HOOK(cuModuleLoad, CUmodule *module, const char *fname)
{
	return track(REAL(cuModuleLoad)(module, fname), &object_type_module, (void **)module);
}

HOOK(cuModuleLoadData, CUmodule *module, const void *image)
{
	return track(REAL(cuModuleLoadData)(module, image), &object_type_module, (void **)module);
}

HOOK(cuModuleLoadDataEx, CUmodule *module, const void *image, unsigned int numOptions,
     CUjit_option *options, void **optionValues)
{
	return track(REAL(cuModuleLoadDataEx)(module, image, numOptions, options, optionValues),
	             &object_type_module, (void **)module);
}

HOOK(cuModuleLoadFatBinary, CUmodule *module, const void *fatCubin)
{
	return track(REAL(cuModuleLoadFatBinary)(module, fatCubin), &object_type_module,
	             (void **)module);
}

HOOK(cuModuleUnload, CUmodule hmod)
{
	return forget(REAL(cuModuleUnload)(hmod), &object_type_module, hmod);
}

HOOK(cuLibraryLoadData, CUlibrary *library, const void *code, CUjit_option *jitOptions,
     void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
     void **libraryOptionValues, unsigned int numLibraryOptions)
{
	return track(REAL(cuLibraryLoadData)(library, code, jitOptions, jitOptionsValues,
	                                     numJitOptions, libraryOptions, libraryOptionValues,
	                                     numLibraryOptions),
	             &object_type_library, (void **)library);
}

HOOK(cuLibraryLoadFromFile, CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
     void **jitOptionsValues, unsigned int numJitOptions, CUlibraryOption *libraryOptions,
     void **libraryOptionValues, unsigned int numLibraryOptions)
{
	return track(REAL(cuLibraryLoadFromFile)(library, fileName, jitOptions, jitOptionsValues,
	                                         numJitOptions, libraryOptions, libraryOptionValues,
	                                         numLibraryOptions),
	             &object_type_library, (void **)library);
}

HOOK(cuLibraryUnload, CUlibrary library)
{
	return forget(REAL(cuLibraryUnload)(library), &object_type_library, library);
}

HOOK(cuStreamCreate, CUstream *phStream, unsigned int Flags)
{
	return track(REAL(cuStreamCreate)(phStream, Flags), &object_type_stream, (void **)phStream);
}

HOOK(cuStreamCreateWithPriority, CUstream *phStream, unsigned int flags, int priority)
{
	return track(REAL(cuStreamCreateWithPriority)(phStream, flags, priority),
	             &object_type_stream, (void **)phStream);
}

HOOK(cuStreamDestroy, CUstream hStream)
{
	job_leave_stream(hStream);
	return forget(REAL(cuStreamDestroy)(hStream), &object_type_stream, hStream);
}

HOOK(cuStreamDestroy_v2, CUstream hStream)
{
	KEEP_ERRNO;

	job_leave_stream(hStream);
	return forget(REAL(cuStreamDestroy_v2)(hStream), &object_type_stream, hStream);
}

HOOK(cuEventCreate, CUevent *phEvent, unsigned int Flags)
{
	return track(REAL(cuEventCreate)(phEvent, Flags), &object_type_event, (void **)phEvent);
}

HOOK(cuEventDestroy, CUevent hEvent)
{
	return forget(REAL(cuEventDestroy)(hEvent), &object_type_event, hEvent);
}

HOOK(cuEventDestroy_v2, CUevent hEvent)
{
	return forget(REAL(cuEventDestroy_v2)(hEvent), &object_type_event, hEvent);
}

HOOK(cuGraphInstantiate, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
     char *logBuffer, size_t bufferSize)
{
	return track(
	    REAL(cuGraphInstantiate)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
	    &object_type_graph_exec, (void **)phGraphExec);
}

HOOK(cuGraphInstantiate_v2, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
     char *logBuffer, size_t bufferSize)
{
	return track(
	    REAL(cuGraphInstantiate_v2)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize),
	    &object_type_graph_exec, (void **)phGraphExec);
}

HOOK(cuGraphInstantiateWithParams, CUgraphExec *phGraphExec, CUgraph hGraph,
     CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return track(REAL(cuGraphInstantiateWithParams)(phGraphExec, hGraph, instantiateParams),
	             &object_type_graph_exec, (void **)phGraphExec);
}

HOOK(cuGraphInstantiateWithParams_ptsz, CUgraphExec *phGraphExec, CUgraph hGraph,
     CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return track(
	    REAL(cuGraphInstantiateWithParams_ptsz)(phGraphExec, hGraph, instantiateParams),
	    &object_type_graph_exec, (void **)phGraphExec);
}

HOOK(cuGraphInstantiateWithFlags, CUgraphExec *phGraphExec, CUgraph hGraph,
     unsigned long long flags)
{
	return track(REAL(cuGraphInstantiateWithFlags)(phGraphExec, hGraph, flags),
	             &object_type_graph_exec, (void **)phGraphExec);
}

HOOK(cuGraphExecDestroy, CUgraphExec hGraphExec)
{
	return forget(REAL(cuGraphExecDestroy)(hGraphExec), &object_type_graph_exec, hGraphExec);
}
