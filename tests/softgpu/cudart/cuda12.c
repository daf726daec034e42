/* SPDX-License-Identifier: MIT */
/* Functions that libcudart.so.12 has alone or in an older form; cuda12.h has the newer forms. */
#include "tests/softgpu/cudart/cudart.h"

#if CUDART_MAJOR == 12

#undef cudaGraphAddDependencies
#undef cudaGraphAddNode
#undef cudaGraphGetEdges
#undef cudaGraphNodeGetDependencies
#undef cudaGraphNodeGetDependentNodes
#undef cudaGraphRemoveDependencies
#undef cudaMemAdvise
#undef cudaMemPrefetchAsync
#undef cudaMemPrefetchAsync_ptsz
#undef cudaStreamGetCaptureInfo
#undef cudaStreamGetCaptureInfo_ptsz
#undef cudaStreamUpdateCaptureDependencies
#undef cudaStreamUpdateCaptureDependencies_ptsz

cudaError_t cudaEventElapsedTime_v2(float *milliseconds, cudaEvent_t start, cudaEvent_t end);
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, size_t count);
cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph,
                             const cudaGraphNode_t *dependencies, size_t count,
                             struct cudaGraphNodeParams *params);
cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                              size_t *count);
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                         size_t *count);
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                           size_t *count);
cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to, size_t count);
cudaError_t cudaMemAdvise(const void *pointer, size_t size, enum cudaMemoryAdvise advice,
                          int device);
cudaError_t cudaMemPrefetchAsync(const void *pointer, size_t size, int device, cudaStream_t stream);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                     unsigned long long *id);
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status,
                                        unsigned long long *id, cudaGraph_t *graph,
                                        const cudaGraphNode_t **dependencies, size_t *count);
cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                size_t count, unsigned int flags);
cudaError_t cudaThreadExit(void);
cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *config);
cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit);
cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config);
cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value);
cudaError_t cudaThreadSynchronize(void);

EXPORT cudaError_t cudaEventElapsedTime_v2(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	return cudaEventElapsedTime(milliseconds, start, end);
}

EXPORT cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                            const cudaGraphNode_t *to, size_t count)
{
	return cudaGraphAddDependencies_v2(graph, from, to, NULL, count);
}

EXPORT cudaError_t cudaGraphAddNode(cudaGraphNode_t *node, cudaGraph_t graph,
                                    const cudaGraphNode_t *dependencies, size_t count,
                                    struct cudaGraphNodeParams *params)
{
	return cudaGraphAddNode_v2(node, graph, dependencies, NULL, count, params);
}

EXPORT cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                                     size_t *count)
{
	return cudaGraphGetEdges_v2(graph, from, to, NULL, count);
}

EXPORT cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                                size_t *count)
{
	return cudaGraphNodeGetDependencies_v2(node, nodes, NULL, count);
}

EXPORT cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *nodes,
                                                  size_t *count)
{
	return cudaGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}

EXPORT cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                               const cudaGraphNode_t *to, size_t count)
{
	return cudaGraphRemoveDependencies_v2(graph, from, to, NULL, count);
}

static cudaError_t cudaStreamUpdateCaptureDependencies_on(enum twin twin, cudaStream_t stream,
                                                          cudaGraphNode_t *dependencies,
                                                          size_t count, unsigned int flags)
{
	RUN(driver.cuStreamUpdateCaptureDependencies[twin](stream, dependencies, NULL, count,
	                                                   flags));
}
EXPORT_TWINS(cudaStreamUpdateCaptureDependencies, _ptsz,
             (cudaStream_t stream, cudaGraphNode_t *dependencies, size_t count, unsigned int flags),
             stream, dependencies, count, flags)

/* A device's number, or -1 for the host. */
static struct cudaMemLocation cuda12_location(int device)
{
	return (struct cudaMemLocation){
	    .type = device == cudaCpuDeviceId ? cudaMemLocationTypeHost : cudaMemLocationTypeDevice,
	    .id = device == cudaCpuDeviceId ? 0 : device,
	};
}

EXPORT cudaError_t cudaMemAdvise(const void *pointer, size_t size, enum cudaMemoryAdvise advice,
                                 int device)
{
	return cudaMemAdvise_v2(pointer, size, advice, cuda12_location(device));
}

static cudaError_t cudaMemPrefetchAsync_on(enum twin twin, const void *pointer, size_t size,
                                           int device, cudaStream_t stream)
{
	struct cudaMemLocation location = cuda12_location(device);
	RUN(driver.cuMemPrefetchAsync[twin]((CUdeviceptr)pointer, size, location_of(location), 0,
	                                    stream));
}
EXPORT_TWINS(cudaMemPrefetchAsync, _ptsz,
             (const void *pointer, size_t size, int device, cudaStream_t stream), pointer, size,
             device, stream)

static cudaError_t cudaStreamGetCaptureInfo_v2_on(enum twin twin, cudaStream_t stream,
                                                  enum cudaStreamCaptureStatus *status,
                                                  unsigned long long *id, cudaGraph_t *graph,
                                                  const cudaGraphNode_t **dependencies,
                                                  size_t *count)
{
	cuuint64_t driver_id = 0;
	int error = enter();
	if (error == cudaSuccess)
		error = (int)driver.cuStreamGetCaptureInfo[twin](
		    stream, (CUstreamCaptureStatus *)status, &driver_id, graph, dependencies, NULL,
		    count);
	if (error == cudaSuccess && id)
		*id = driver_id;
	return finish(error);
}
EXPORT_TWINS(cudaStreamGetCaptureInfo_v2, _ptsz,
             (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
              cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *count),
             stream, status, id, graph, dependencies, count)

static cudaError_t cudaStreamGetCaptureInfo_on(enum twin twin, cudaStream_t stream,
                                               enum cudaStreamCaptureStatus *status,
                                               unsigned long long *id)
{
	return cudaStreamGetCaptureInfo_v2_on(twin, stream, status, id, NULL, NULL, NULL);
}
EXPORT_TWINS(cudaStreamGetCaptureInfo, _ptsz,
             (cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id),
             stream, status, id)

EXPORT cudaError_t cudaThreadExit(void)
{
	return cudaDeviceReset();
}

EXPORT cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *config)
{
	return cudaDeviceGetCacheConfig(config);
}

EXPORT cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit)
{
	return cudaDeviceGetLimit(value, limit);
}

EXPORT cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config)
{
	return cudaDeviceSetCacheConfig(config);
}

EXPORT cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value)
{
	return cudaDeviceSetLimit(limit, value);
}

EXPORT cudaError_t cudaThreadSynchronize(void)
{
	return cudaDeviceSynchronize();
}

#endif
