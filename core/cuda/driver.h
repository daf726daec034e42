/* SPDX-License-Identifier: MIT */
/*
 * The driver as core/ sees it: a struct of the functions it calls, and nothing else.
 *
 * The shim fills it with the real driver's; unit tests fill it with their own. No member is NULL
 * once filled: a function that the driver lacks answers CUDA_ERROR_NOT_SUPPORTED.
 */
#ifndef SPILLWAY_DRIVER_H
#define SPILLWAY_DRIVER_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL /* no macro renames anything */
#endif
#include <cuda.h>

/* A part of a device's memory, since CUDA 13.4. The first byte of its id is the device. */
#define LOCATION_LOCALITY_DOMAIN ((CUmemLocationType)6)

#define DRIVER_CALLS(X)                           \
	X(cuCtxGetCurrent)                        \
	X(cuCtxGetDevice)                         \
	X(cuCtxPopCurrent_v2)                     \
	X(cuCtxPushCurrent_v2)                    \
	X(cuCtxRecordEvent)                       \
	X(cuCtxSynchronize)                       \
	X(cuDeviceGet)                            \
	X(cuDeviceGetAttribute)                   \
	X(cuDeviceGetCount)                       \
	X(cuDeviceGetGraphMemAttribute)           \
	X(cuDeviceGetMemPool)                     \
	X(cuDeviceGetName)                        \
	X(cuDeviceGetPCIBusId)                    \
	X(cuDeviceGetUuid)                        \
	X(cuDeviceGetUuid_v2)                     \
	X(cuDeviceGraphMemTrim)                   \
	X(cuDeviceTotalMem_v2)                    \
	X(cuDriverGetVersion)                     \
	X(cuEventCreate)                          \
	X(cuEventDestroy_v2)                      \
	X(cuEventElapsedTime)                     \
	X(cuEventQuery)                           \
	X(cuEventRecord)                          \
	X(cuFuncGetParamInfo)                     \
	X(cuGraphAddHostNode)                     \
	X(cuGraphAddMemcpyNode)                   \
	X(cuGraphCreate)                          \
	X(cuGraphDestroy)                         \
	X(cuGraphExecDestroy)                     \
	X(cuGraphInstantiateWithFlags)            \
	X(cuGraphLaunch)                          \
	X(cuKernelGetParamInfo)                   \
	X(cuIpcCloseMemHandle)                    \
	X(cuIpcGetMemHandle)                      \
	X(cuIpcOpenMemHandle_v2)                  \
	X(cuMemAddressFree)                       \
	X(cuMemAddressReserve)                    \
	X(cuMemAdvise)                            \
	X(cuMemAdvise_v2)                         \
	X(cuMemAllocManaged)                      \
	X(cuMemAlloc_v2)                          \
	X(cuMemCreate)                            \
	X(cuMemExportToShareableHandle)           \
	X(cuMemFreeAsync)                         \
	X(cuMemFreeHost)                          \
	X(cuMemFree_v2)                           \
	X(cuMemGetAddressRange_v2)                \
	X(cuMemGetAllocationGranularity)          \
	X(cuMemGetAllocationPropertiesFromHandle) \
	X(cuMemGetInfo_v2)                        \
	X(cuMemHostAlloc)                         \
	X(cuMemHostGetDevicePointer_v2)           \
	X(cuMemImportFromShareableHandle)         \
	X(cuMemMap)                               \
	X(cuMemPoolGetAttribute)                  \
	X(cuMemPoolSetAttribute)                  \
	X(cuMemPoolTrimTo)                        \
	X(cuMemRangeGetAttribute)                 \
	X(cuMemRelease)                           \
	X(cuMemSetAccess)                         \
	X(cuMemUnmap)                             \
	X(cuMemcpy2DAsync_v2)                     \
	X(cuMemcpyAsync)                          \
	X(cuPointerGetAttribute)                  \
	X(cuStreamCreate)                         \
	X(cuStreamDestroy_v2)                     \
	X(cuStreamGetCtx)                         \
	X(cuStreamIsCapturing)                    \
	X(cuStreamQuery)                          \
	X(cuStreamSynchronize)                    \
	X(cuThreadExchangeStreamCaptureMode)

struct driver {
#define X(symbol) __typeof__(&(symbol)) symbol;
	DRIVER_CALLS(X)
#undef X
};

extern struct driver driver;
#ifdef SPILLWAY_CHECK_LOCKS /* a call with a lock that does not allow it ends the process */
#define driver (*(locks_at_driver(), &driver))
#endif

#endif
