/* SPDX-License-Identifier: MIT */
/* Stream capture, and graphs. */
#include <string.h>

#include "tests/softgpu/cudart/cudart.h"

EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	RUN(driver.cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

static cudaError_t cudaStreamBeginCapture_on(enum twin twin, cudaStream_t stream,
                                             enum cudaStreamCaptureMode mode)
{
	RUN(driver.cuStreamBeginCapture[twin](stream, (CUstreamCaptureMode)mode));
}
EXPORT_TWINS(cudaStreamBeginCapture, _ptsz, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
             stream, mode)

static cudaError_t cudaStreamIsCapturing_on(enum twin twin, cudaStream_t stream,
                                            enum cudaStreamCaptureStatus *status)
{
	RUN(driver.cuStreamIsCapturing[twin](stream, (CUstreamCaptureStatus *)status));
}
EXPORT_TWINS(cudaStreamIsCapturing, _ptsz,
             (cudaStream_t stream, enum cudaStreamCaptureStatus *status), stream, status)

static cudaError_t cudaStreamGetCaptureInfo_on(enum twin twin, cudaStream_t stream,
                                               enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **dependencies,
                                               const cudaGraphEdgeData **edges, size_t *count)
{
	cuuint64_t driver_id = 0;
	int error = enter();
	if (error == cudaSuccess)
		error = (int)driver.cuStreamGetCaptureInfo[twin](
		    stream, (CUstreamCaptureStatus *)status, &driver_id, graph, dependencies,
		    (const CUgraphEdgeData **)edges, count);
	if (error == cudaSuccess && id)
		*id = driver_id;
	return finish(error);
}
EXPORT_TWINS(cudaStreamGetCaptureInfo, _ptsz,
             (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
              cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
              const cudaGraphEdgeData **edges, size_t *count),
             stream, status, id, graph, dependencies, edges, count)

ON_STREAM(cudaStreamEndCapture, cuStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
          stream, graph)
ON_STREAM(cudaGraphLaunch, cuGraphLaunch, (cudaGraphExec_t exec, cudaStream_t stream), exec, stream)
ON_STREAM(cudaGraphUpload, cuGraphUpload, (cudaGraphExec_t exec, cudaStream_t stream), exec, stream)

EXPORT cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned int flags)
{
	RUN(driver.cuGraphCreate(graph, flags));
}

EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	RUN(driver.cuGraphDestroy(graph));
}

EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
	RUN(driver.cuGraphGetNodes(graph, nodes, count));
}

EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                                 unsigned long long flags)
{
	RUN(driver.cuGraphInstantiateWithFlags(exec, graph, flags));
}

EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph,
                                        unsigned long long flags)
{
	return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	RUN(driver.cuGraphExecDestroy(exec));
}

EXPORT cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph)
{
	RUN(driver.cuGraphClone(clone, graph));
}

EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                            const cudaGraphNode_t *to,
                                            const cudaGraphEdgeData *edges, size_t count)
{
	RUN(driver.cuGraphAddDependencies(graph, from, to, (const CUgraphEdgeData *)edges, count));
}

EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                         const cudaGraphNode_t *dependencies, size_t count)
{
	RUN(driver.cuGraphAddEmptyNode(node, graph, dependencies, count));
}

EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                        const cudaGraphNode_t *dependencies, size_t count,
                                        const struct cudaHostNodeParams *params)
{
	if (!params)
		return finish(cudaErrorInvalidValue);
	CUDA_HOST_NODE_PARAMS same = {.fn = params->fn, .userData = params->userData};
	RUN(driver.cuGraphAddHostNode(node, graph, dependencies, count, &same));
}

static int graph_describe_kernel(CUDA_KERNEL_NODE_PARAMS *driver_params,
                                 const struct cudaKernelNodeParams *params)
{
	CUkernel kernel;
	int error = params ? kernel_of(params->func, &kernel) : (int)cudaErrorInvalidValue;
	if (error != cudaSuccess)
		return error;
	*driver_params = (CUDA_KERNEL_NODE_PARAMS){
	    .kern = kernel,
	    .gridDimX = params->gridDim.x,
	    .gridDimY = params->gridDim.y,
	    .gridDimZ = params->gridDim.z,
	    .blockDimX = params->blockDim.x,
	    .blockDimY = params->blockDim.y,
	    .blockDimZ = params->blockDim.z,
	    .sharedMemBytes = params->sharedMemBytes,
	    .kernelParams = params->kernelParams,
	    .extra = params->extra,
	};
	return cudaSuccess;
}

EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies, size_t count,
                                          const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS same;
	int error = graph_describe_kernel(&same, params);
	if (error == cudaSuccess)
		error = (int)driver.cuGraphAddKernelNode(node, graph, dependencies, count, &same);
	return finish(error);
}

EXPORT cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                                const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS same;
	int error = graph_describe_kernel(&same, params);
	if (error == cudaSuccess)
		error = (int)driver.cuGraphKernelNodeSetParams(node, &same);
	return finish(error);
}

EXPORT cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const struct cudaKernelNodeParams *params)
{
	CUDA_KERNEL_NODE_PARAMS same;
	int error = graph_describe_kernel(&same, params);
	if (error == cudaSuccess)
		error = (int)driver.cuGraphExecKernelNodeSetParams(exec, node, &same);
	return finish(error);
}

EXPORT cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies, size_t count,
                                          const struct cudaMemcpy3DParms *params)
{
	CUDA_MEMCPY3D what;
	CUcontext context;
	int error = enter();
	if (error == cudaSuccess)
		error = describe_3d(&what, params);
	if (error == cudaSuccess)
		error = (int)driver.cuCtxGetCurrent(&context);
	if (error == cudaSuccess)
		error = (int)driver.cuGraphAddMemcpyNode(node, graph, dependencies, count, &what,
		                                         context);
	return finish(error);
}

/* A copy of SIZE bytes in a row. */
static struct cudaMemcpy3DParms graph_line(void *to, const void *from, size_t size,
                                           enum cudaMemcpyKind kind)
{
	return (struct cudaMemcpy3DParms){
	    .srcPtr = {(void *)from, size, size, 1},
	    .dstPtr = {to, size, size, 1},
	    .extent = {size, 1, 1},
	    .kind = kind,
	};
}

EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                            const cudaGraphNode_t *dependencies, size_t count,
                                            void *to, const void *from, size_t size,
                                            enum cudaMemcpyKind kind)
{
	struct cudaMemcpy3DParms params = graph_line(to, from, size, kind);
	return cudaGraphAddMemcpyNode(node, graph, dependencies, count, &params);
}

EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const struct cudaMemcpy3DParms *params)
{
	CUDA_MEMCPY3D what;
	CUcontext context;
	int error = enter();
	if (error == cudaSuccess)
		error = describe_3d(&what, params);
	if (error == cudaSuccess)
		error = (int)driver.cuCtxGetCurrent(&context);
	if (error == cudaSuccess)
		error = (int)driver.cuGraphExecMemcpyNodeSetParams(exec, node, &what, context);
	return finish(error);
}

EXPORT cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                      void *to, const void *from, size_t size,
                                                      enum cudaMemcpyKind kind)
{
	struct cudaMemcpy3DParms params = graph_line(to, from, size, kind);
	return cudaGraphExecMemcpyNodeSetParams(exec, node, &params);
}

static int graph_describe_fill(CUDA_MEMSET_NODE_PARAMS *driver_params, CUcontext *context,
                               const struct cudaMemsetParams *params)
{
	int error = enter();
	if (error == cudaSuccess)
		error = params ? (int)driver.cuCtxGetCurrent(context) : (int)cudaErrorInvalidValue;
	if (error != cudaSuccess)
		return error;
	*driver_params = (CUDA_MEMSET_NODE_PARAMS){
	    .dst = (CUdeviceptr)params->dst,
	    .pitch = params->pitch,
	    .value = params->value,
	    .elementSize = params->elementSize,
	    .width = params->width,
	    .height = params->height,
	};
	return cudaSuccess;
}

EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies, size_t count,
                                          const struct cudaMemsetParams *params)
{
	CUDA_MEMSET_NODE_PARAMS same;
	CUcontext context;
	int error = graph_describe_fill(&same, &context, params);
	if (error == cudaSuccess)
		error = (int)driver.cuGraphAddMemsetNode(node, graph, dependencies, count, &same,
		                                         context);
	return finish(error);
}

EXPORT cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                    const struct cudaMemsetParams *params)
{
	CUDA_MEMSET_NODE_PARAMS same;
	CUcontext context;
	int error = graph_describe_fill(&same, &context, params);
	if (error == cudaSuccess)
		error = (int)driver.cuGraphExecMemsetNodeSetParams(exec, node, &same, context);
	return finish(error);
}

EXPORT cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,
                                                  const struct cudaHostNodeParams *params)
{
	if (!params)
		return finish(cudaErrorInvalidValue);
	CUDA_HOST_NODE_PARAMS same = {.fn = params->fn, .userData = params->userData};
	RUN(driver.cuGraphExecHostNodeSetParams(exec, node, &same));
}

EXPORT cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                            const cudaGraphNode_t *dependencies, size_t count,
                                            struct cudaMemAllocNodeParams *params)
{
	if (!params)
		return finish(cudaErrorInvalidValue);
	/* The two structures have the same fields at the same places. */
	_Static_assert(sizeof(*params) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS), "an allocation node");
	RUN(driver.cuGraphAddMemAllocNode(node, graph, dependencies, count,
	                                  (CUDA_MEM_ALLOC_NODE_PARAMS *)params));
}

EXPORT cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                                  struct cudaMemAllocNodeParams *params)
{
	RUN(driver.cuGraphMemAllocNodeGetParams(node, (CUDA_MEM_ALLOC_NODE_PARAMS *)params));
}

EXPORT cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                           const cudaGraphNode_t *dependencies, size_t count,
                                           void *pointer)
{
	RUN(driver.cuGraphAddMemFreeNode(node, graph, dependencies, count, (CUdeviceptr)pointer));
}

EXPORT cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *pointer)
{
	RUN(driver.cuGraphMemFreeNodeGetParams(node, (CUdeviceptr *)pointer));
}

EXPORT cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                              const cudaGraphNode_t *dependencies, size_t count,
                                              cudaGraph_t child)
{
	RUN(driver.cuGraphAddChildGraphNode(node, graph, dependencies, count, child));
}

EXPORT cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                               const cudaGraphNode_t *dependencies, size_t count,
                                               cudaEvent_t event)
{
	RUN(driver.cuGraphAddEventRecordNode(node, graph, dependencies, count, event));
}

EXPORT cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                             const cudaGraphNode_t *dependencies, size_t count,
                                             cudaEvent_t event)
{
	RUN(driver.cuGraphAddEventWaitNode(node, graph, dependencies, count, event));
}

EXPORT cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
	RUN(driver.cuGraphDestroyNode(node));
}

EXPORT cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type)
{
	RUN(driver.cuGraphNodeGetType(node, (CUgraphNodeType *)type));
}

EXPORT cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
	RUN(driver.cuGraphGetRootNodes(graph, nodes, count));
}

EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                     cudaGraphEdgeData *edges, size_t *count)
{
	RUN(driver.cuGraphGetEdges(graph, from, to, (CUgraphEdgeData *)edges, count));
}

EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                                cudaGraphEdgeData *edges, size_t *count)
{
	RUN(driver.cuGraphNodeGetDependencies(node, nodes, (CUgraphEdgeData *)edges, count));
}

EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                                  cudaGraphEdgeData *edges, size_t *count)
{
	RUN(driver.cuGraphNodeGetDependentNodes(node, nodes, (CUgraphEdgeData *)edges, count));
}

EXPORT cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                               const cudaGraphNode_t *to,
                                               const cudaGraphEdgeData *edges, size_t count)
{
	RUN(driver.cuGraphRemoveDependencies(graph, from, to, (const CUgraphEdgeData *)edges,
	                                     count));
}

static cudaError_t cudaStreamUpdateCaptureDependencies_on(enum twin twin, cudaStream_t stream,
                                                          cudaGraphNode_t *dependencies,
                                                          const cudaGraphEdgeData *edges,
                                                          size_t count, unsigned int flags)
{
	RUN(driver.cuStreamUpdateCaptureDependencies[twin](
	    stream, dependencies, (const CUgraphEdgeData *)edges, count, flags));
}
EXPORT_TWINS(cudaStreamUpdateCaptureDependencies, _ptsz,
             (cudaStream_t stream, cudaGraphNode_t *dependencies, const cudaGraphEdgeData *edges,
              size_t count, unsigned int flags),
             stream, dependencies, edges, count, flags)

EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                       cudaGraphExecUpdateResultInfo *info)
{
	RUN(driver.cuGraphExecUpdate(exec, graph, (CUgraphExecUpdateResultInfo *)info));
}

EXPORT cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t exec, unsigned long long *flags)
{
	cuuint64_t driver_flags = 0;
	int error = enter();
	if (error == cudaSuccess)
		error = flags ? (int)driver.cuGraphExecGetFlags(exec, &driver_flags)
		              : (int)cudaErrorInvalidValue;
	if (error == cudaSuccess)
		*flags = driver_flags;
	return finish(error);
}

EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType which,
                                                  void *value)
{
	RUN(driver.cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)which, value));
}

EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType which,
                                                  void *value)
{
	RUN(driver.cuDeviceSetGraphMemAttribute(device, (CUgraphMem_attribute)which, value));
}

EXPORT cudaError_t cudaDeviceGraphMemTrim(int device)
{
	RUN(driver.cuDeviceGraphMemTrim(device));
}

/* --- nodes of any type --- */

static int graph_describe_copy(CUDA_MEMCPY_NODE_PARAMS *driver_params,
                               const struct cudaMemcpyNodeParams *params)
{
	static const int zeroes[3];
	if (params->flags || memcmp(params->reserved, zeroes, sizeof(zeroes)) != 0)
		return cudaErrorInvalidValue;
	int error = describe_3d(&driver_params->copyParams, &params->copyParams);
	return error == cudaSuccess ? (int)driver.cuCtxGetCurrent(&driver_params->copyCtx) : error;
}

/* The driver's structure has the node's parameters at the same place, with other fields. */
static int graph_describe_node(CUgraphNodeParams *same, const struct cudaGraphNodeParams *params)
{
	struct cudaKernelNodeParams kernel = {
	    .func = params->kernel.func,
	    .gridDim = params->kernel.gridDim,
	    .blockDim = params->kernel.blockDim,
	    .sharedMemBytes = params->kernel.sharedMemBytes,
	    .kernelParams = params->kernel.kernelParams,
	    .extra = params->kernel.extra,
	};
	struct cudaMemsetParams fill = {
	    .dst = params->memset.dst,
	    .pitch = params->memset.pitch,
	    .value = params->memset.value,
	    .elementSize = params->memset.elementSize,
	    .width = params->memset.width,
	    .height = params->memset.height,
	};
	CUDA_KERNEL_NODE_PARAMS driver_kernel;
	CUDA_MEMSET_NODE_PARAMS driver_fill;
	CUcontext context;
	int error;
	*same = (CUgraphNodeParams){.type = (CUgraphNodeType)params->type,
	                            .reserved2 = params->reserved2};
	memcpy(same->reserved0, params->reserved0, sizeof(same->reserved0));
	switch (params->type) {
	case cudaGraphNodeTypeKernel:
		error = graph_describe_kernel(&driver_kernel, &kernel);
		if (error == cudaSuccess)
			memcpy(&same->kernel, &driver_kernel, sizeof(driver_kernel));
		return error;
	case cudaGraphNodeTypeMemcpy:
		return graph_describe_copy(&same->memcpy, &params->memcpy);
	case cudaGraphNodeTypeMemset:
		error = graph_describe_fill(&driver_fill, &context, &fill);
		if (error == cudaSuccess) {
			memcpy(&same->memset, &driver_fill, sizeof(driver_fill));
			same->memset.ctx = context;
		}
		return error;
	case cudaGraphNodeTypeConditional:
		same->conditional.handle = params->conditional.handle;
		same->conditional.type = (CUgraphConditionalNodeType)params->conditional.type;
		same->conditional.size = params->conditional.size;
		return (int)driver.cuCtxGetCurrent(&same->conditional.ctx);
	default:
		/* Of the other types the two structures have the same fields. */
		memcpy(same->reserved1, params->reserved1, sizeof(same->reserved1));
		return cudaSuccess;
	}
}

EXPORT cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *dependencies,
                                    const cudaGraphEdgeData *edges, size_t count,
                                    struct cudaGraphNodeParams *params)
{
	CUgraphNodeParams same;
	_Static_assert(sizeof(same) == sizeof(*params), "a node of any type");
	int error = params ? enter() : (int)cudaErrorInvalidValue;
	if (error == cudaSuccess)
		error = graph_describe_node(&same, params);
	if (error == cudaSuccess)
		error = (int)driver.cuGraphAddNode(node, graph, dependencies,
		                                   (const CUgraphEdgeData *)edges, count, &same);
	if (error == cudaSuccess && params->type == cudaGraphNodeTypeMemAlloc)
		params->alloc.dptr = (void *)same.alloc.dptr;
	if (error == cudaSuccess && params->type == cudaGraphNodeTypeConditional)
		params->conditional.phGraph_out = same.conditional.phGraph_out;
	return finish(error);
}

/* context: NULL is the current one. */
static cudaError_t create_handle(cudaGraphConditionalHandle *handle, cudaGraph_t graph,
                                 CUcontext context, unsigned int initial, unsigned int flags)
{
	cuuint64_t driver_handle = 0;
	int error = handle ? enter() : (int)cudaErrorInvalidValue;
	if (error == cudaSuccess && !context)
		error = (int)driver.cuCtxGetCurrent(&context);
	if (error == cudaSuccess)
		error = (int)driver.cuGraphConditionalHandleCreate(&driver_handle, graph, context,
		                                                   initial, flags);
	if (error == cudaSuccess)
		*handle = driver_handle;
	return finish(error);
}

EXPORT cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle *handle,
                                                    cudaGraph_t graph, unsigned int initial,
                                                    unsigned int flags)
{
	return create_handle(handle, graph, NULL, initial, flags);
}

#if CUDART_MAJOR != 12
/* Since 13.1: its context is a CUcontext by another name (cudaExecutionContext_t). */
EXPORT cudaError_t cudaGraphConditionalHandleCreate_v2(cudaGraphConditionalHandle *handle,
                                                       cudaGraph_t graph, CUcontext context,
                                                       unsigned int initial, unsigned int flags);
EXPORT cudaError_t cudaGraphConditionalHandleCreate_v2(cudaGraphConditionalHandle *handle,
                                                       cudaGraph_t graph, CUcontext context,
                                                       unsigned int initial, unsigned int flags)
{
	return create_handle(handle, graph, context, initial, flags);
}
#endif
