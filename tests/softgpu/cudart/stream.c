/* SPDX-License-Identifier: MIT */
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
