/* Stream capture, and graphs. */
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

EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies, size_t count,
                                          const struct cudaKernelNodeParams *params)
{
	CUkernel kernel;
	int error = params ? kernel_of(params->func, &kernel) : (int)cudaErrorInvalidValue;
	if (error != cudaSuccess)
		return finish(error);
	CUDA_KERNEL_NODE_PARAMS same = {
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
	return finish((int)driver.cuGraphAddKernelNode(node, graph, dependencies, count, &same));
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

EXPORT cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph,
                                            const cudaGraphNode_t *dependencies, size_t count,
                                            void *to, const void *from, size_t size,
                                            enum cudaMemcpyKind kind)
{
	struct cudaMemcpy3DParms params = {
	    .srcPtr = {(void *)from, size, size, 1},
	    .dstPtr = {to, size, size, 1},
	    .extent = {size, 1, 1},
	    .kind = kind,
	};
	return cudaGraphAddMemcpyNode(node, graph, dependencies, count, &params);
}

EXPORT cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies, size_t count,
                                          const struct cudaMemsetParams *params)
{
	CUcontext context;
	int error = enter();
	if (error == cudaSuccess)
		error = params ? (int)driver.cuCtxGetCurrent(&context) : (int)cudaErrorInvalidValue;
	if (error != cudaSuccess)
		return finish(error);
	CUDA_MEMSET_NODE_PARAMS same = {
	    .dst = (CUdeviceptr)params->dst,
	    .pitch = params->pitch,
	    .value = params->value,
	    .elementSize = params->elementSize,
	    .width = params->width,
	    .height = params->height,
	};
	return finish(
	    (int)driver.cuGraphAddMemsetNode(node, graph, dependencies, count, &same, context));
}
