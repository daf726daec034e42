/* Streams and events. */
#include "tests/softgpu/cudart/cudart.h"

EXPORT cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	RUN(driver.cuStreamCreate(stream, CU_STREAM_DEFAULT));
}

EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	RUN(driver.cuStreamCreate(stream, flags));
}

EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags,
                                                int priority)
{
	RUN(driver.cuStreamCreateWithPriority(stream, flags, priority));
}

EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	RUN(driver.cuStreamDestroy(stream));
}

/* Calls that hand a stream and their parameters to the driver's call of the like name. */
#define ON_STREAM(name, call, params, ...)                          \
	static cudaError_t name##_on(enum twin twin, PARAMS params) \
	{                                                           \
		RUN(driver.call[twin](__VA_ARGS__));                \
	}                                                           \
	EXPORT_TWINS(name, _ptsz, params, __VA_ARGS__)
#define PARAMS(...) __VA_ARGS__

ON_STREAM(cudaStreamSynchronize, cuStreamSynchronize, (cudaStream_t stream), stream)
ON_STREAM(cudaStreamQuery, cuStreamQuery, (cudaStream_t stream), stream)
ON_STREAM(cudaStreamGetFlags, cuStreamGetFlags, (cudaStream_t stream, unsigned int *flags), stream,
          flags)
ON_STREAM(cudaStreamGetId, cuStreamGetId, (cudaStream_t stream, unsigned long long *id), stream, id)
ON_STREAM(cudaStreamGetPriority, cuStreamGetPriority, (cudaStream_t stream, int *priority), stream,
          priority)
ON_STREAM(cudaStreamGetDevice, cuStreamGetDevice, (cudaStream_t stream, int *device), stream,
          device)
ON_STREAM(cudaStreamWaitEvent, cuStreamWaitEvent,
          (cudaStream_t stream, cudaEvent_t event, unsigned int flags), stream, event, flags)
ON_STREAM(cudaLaunchHostFunc, cuLaunchHostFunc,
          (cudaStream_t stream, cudaHostFn_t function, void *data), stream, function, data)
ON_STREAM(cudaEventRecord, cuEventRecord, (cudaEvent_t event, cudaStream_t stream), event, stream)
ON_STREAM(cudaEventRecordWithFlags, cuEventRecordWithFlags,
          (cudaEvent_t event, cudaStream_t stream, unsigned int flags), event, stream, flags)

static cudaError_t cudaStreamAddCallback_on(enum twin twin, cudaStream_t stream,
                                            cudaStreamCallback_t callback, void *data,
                                            unsigned int flags)
{
	/* The two types differ in the error's alone, whose values are the same. */
	RUN(driver.cuStreamAddCallback[twin](stream, (CUstreamCallback)(void *)callback, data,
	                                     flags));
}
EXPORT_TWINS(cudaStreamAddCallback, _ptsz,
             (cudaStream_t stream, cudaStreamCallback_t callback, void *data, unsigned int flags),
             stream, callback, data, flags)

static cudaError_t cudaStreamAttachMemAsync_on(enum twin twin, cudaStream_t stream, void *pointer,
                                               size_t size, unsigned int flags)
{
	RUN(driver.cuStreamAttachMemAsync[twin](stream, (CUdeviceptr)pointer, size, flags));
}
EXPORT_TWINS(cudaStreamAttachMemAsync, _ptsz,
             (cudaStream_t stream, void *pointer, size_t size, unsigned int flags), stream, pointer,
             size, flags)

static cudaError_t cudaStreamGetAttribute_on(enum twin twin, cudaStream_t stream,
                                             cudaLaunchAttributeID attribute,
                                             cudaLaunchAttributeValue *value)
{
	RUN(driver.cuStreamGetAttribute[twin](stream, (CUstreamAttrID)attribute,
	                                      (CUstreamAttrValue *)value));
}
EXPORT_TWINS(cudaStreamGetAttribute, _ptsz,
             (cudaStream_t stream, cudaLaunchAttributeID attribute,
              cudaLaunchAttributeValue *value),
             stream, attribute, value)

static cudaError_t cudaStreamSetAttribute_on(enum twin twin, cudaStream_t stream,
                                             cudaLaunchAttributeID attribute,
                                             const cudaLaunchAttributeValue *value)
{
	RUN(driver.cuStreamSetAttribute[twin](stream, (CUstreamAttrID)attribute,
	                                      (const CUstreamAttrValue *)value));
}
EXPORT_TWINS(cudaStreamSetAttribute, _ptsz,
             (cudaStream_t stream, cudaLaunchAttributeID attribute,
              const cudaLaunchAttributeValue *value),
             stream, attribute, value)

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	RUN(driver.cuEventCreate(event, flags));
}

EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	return cudaEventCreateWithFlags(event, cudaEventDefault);
}

EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	RUN(driver.cuEventDestroy(event));
}

EXPORT cudaError_t cudaEventQuery(cudaEvent_t event)
{
	RUN(driver.cuEventQuery(event));
}

EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	RUN(driver.cuEventSynchronize(event));
}

EXPORT cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	RUN(driver.cuEventElapsedTime(milliseconds, start, end));
}

EXPORT cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	RUN(driver.cuIpcGetEventHandle((CUipcEventHandle *)handle, event));
}

EXPORT cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	union {
		cudaIpcEventHandle_t runtime;
		CUipcEventHandle driver;
	} same = {handle};
	RUN(driver.cuIpcOpenEventHandle(event, same.driver));
}

/* Capture, and graphs as captures make them. */
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
