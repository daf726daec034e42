/* SPDX-License-Identifier: MIT */
/*
 * Ground of the probe and of the questions: the driver's functions, attempts, and ranges of chunks.
 *
 * attempt  driver calls of which each is made only if all before it succeeded
 * range    chunks that are mapped side by side, on the device or on the host
 */
#ifndef GPU_H
#define GPU_H

#include "tests/gpu/apart.h"

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

/* Every call that is made. Found by name, so that an old driver misses answers and not the
 * start. */
#define GPU_CALLS(CALL)                         \
	CALL(cuInit)                            \
	CALL(cuDriverGetVersion)                \
	CALL(cuGetErrorName)                    \
	CALL(cuDeviceGet)                       \
	CALL(cuDeviceGetCount)                  \
	CALL(cuDeviceGetName)                   \
	CALL(cuDeviceGetAttribute)              \
	CALL(cuDeviceCanAccessPeer)             \
	CALL(cuDevicePrimaryCtxRetain)          \
	CALL(cuDevicePrimaryCtxReset)           \
	CALL(cuCtxSetCurrent)                   \
	CALL(cuCtxEnablePeerAccess)             \
	CALL(cuCtxSynchronize)                  \
	CALL(cuModuleLoadData)                  \
	CALL(cuModuleGetFunction)               \
	CALL(cuLaunchKernel)                    \
	CALL(cuStreamCreate)                    \
	CALL(cuStreamSynchronize)               \
	CALL(cuStreamQuery)                     \
	CALL(cuThreadExchangeStreamCaptureMode) \
	CALL(cuStreamBeginCapture)              \
	CALL(cuStreamEndCapture)                \
	CALL(cuGraphCreate)                     \
	CALL(cuGraphAddMemcpyNode)              \
	CALL(cuGraphInstantiate)                \
	CALL(cuGraphLaunch)                     \
	CALL(cuGraphExecDestroy)                \
	CALL(cuGraphDestroy)                    \
	CALL(cuEventCreate)                     \
	CALL(cuEventRecord)                     \
	CALL(cuEventSynchronize)                \
	CALL(cuEventQuery)                      \
	CALL(cuEventElapsedTime)                \
	CALL(cuEventDestroy)                    \
	CALL(cuMemAlloc)                        \
	CALL(cuMemAllocManaged)                 \
	CALL(cuMemFree)                         \
	CALL(cuMemHostAlloc)                    \
	CALL(cuMemHostGetDevicePointer)         \
	CALL(cuMemFreeHost)                     \
	CALL(cuMemGetInfo)                      \
	CALL(cuMemGetAddressRange)              \
	CALL(cuMemGetHandleForAddressRange)     \
	CALL(cuIpcGetMemHandle)                 \
	CALL(cuPointerGetAttribute)             \
	CALL(cuMemGetAllocationGranularity)     \
	CALL(cuMemAddressReserve)               \
	CALL(cuMemAddressFree)                  \
	CALL(cuMemCreate)                       \
	CALL(cuMemRelease)                      \
	CALL(cuMemMap)                          \
	CALL(cuMemUnmap)                        \
	CALL(cuMemSetAccess)                    \
	CALL(cuMemExportToShareableHandle)      \
	CALL(cuMemcpy)                          \
	CALL(cuMemcpyAsync)                     \
	CALL(cuMemcpyHtoD)                      \
	CALL(cuMemcpyHtoDAsync)                 \
	CALL(cuMemcpyDtoH)                      \
	CALL(cuMemcpyDtoHAsync)                 \
	CALL(cuMemcpyDtoD)                      \
	CALL(cuMemcpyDtoDAsync)                 \
	CALL(cuArrayCreate)                     \
	CALL(cuArrayDestroy)                    \
	CALL(cuMemcpyDtoA)                      \
	CALL(cuMemcpyAtoD)                      \
	CALL(cuMemcpyHtoA)                      \
	CALL(cuMemcpyAtoH)                      \
	CALL(cuMemcpyPeer)                      \
	CALL(cuMemcpyPeerAsync)                 \
	CALL(cuMemcpy2D)                        \
	CALL(cuMemcpy2DUnaligned)               \
	CALL(cuMemcpy2DAsync)                   \
	CALL(cuMemcpy3D)                        \
	CALL(cuMemcpy3DAsync)                   \
	CALL(cuMemsetD8)                        \
	CALL(cuMemsetD8Async)                   \
	CALL(cuMemsetD16)                       \
	CALL(cuMemsetD16Async)                  \
	CALL(cuMemsetD32)                       \
	CALL(cuMemsetD32Async)                  \
	CALL(cuMemsetD2D8)                      \
	CALL(cuMemsetD2D8Async)                 \
	CALL(cuMemsetD2D16)                     \
	CALL(cuMemsetD2D32)                     \
	CALL(cuMemsetD2D32Async)                \
	CALL(cuPointerSetAttribute)             \
	CALL(cuTexObjectCreate)                 \
	CALL(cuCtxGetCurrent)                   \
	CALL(cuCtxPushCurrent)                  \
	CALL(cuCtxPopCurrent)                   \
	CALL(cuLibraryLoadData)                 \
	CALL(cuLibraryGetKernel)                \
	CALL(cuFuncGetParamInfo)                \
	CALL(cuCtxSetLimit)                     \
	CALL(cuMemPoolCreate)                   \
	CALL(cuMemPoolGetAttribute)             \
	CALL(cuMemAllocFromPoolAsync)           \
	CALL(cuMemFreeAsync)                    \
	CALL(cuMemRangeGetAttribute)            \
	CALL(cuMemAdvise_v2)                    \
	CALL(cuGraphConditionalHandleCreate)    \
	CALL(cuGraphAddNode)                    \
	CALL(cuGraphAddMemAllocNode)            \
	CALL(cuDeviceGetGraphMemAttribute)

/* gpu.cuInit(0): the driver's function, or one that answers CUDA_ERROR_NOT_SUPPORTED. */
struct gpu {
#define CALL(name) __typeof__(&name) name;
	GPU_CALLS(CALL)
#undef CALL
};
extern struct gpu gpu;

extern CUdevice device; /* 0, with its primary context current */
extern CUcontext context;
extern CUstream stream; /* non-blocking */

/* The driver and its device 0; false with an answer to the question on failure. */
bool gpu_open(const char *question);
/* Returns whether the question asked last, in a process of its own, found them. */
bool gpu_was_there(void);

/*
 * Asks, in a process for each, whether memory of the host can be made on the device's own NUMA
 * node, and on no node in particular, and has ranges use the first that can. Some drivers crash
 * where they are asked.
 */
void gpu_choose_host(void);
/* The node of the host that is the device's own; 0 where the driver knows none. */
int gpu_host_node(void);

/*
 * A kernel of the file, which lies beside the program and is loaded when the first of its kernels
 * is wanted.
 */
CUfunction gpu_kernel_of(const char *file, const char *name);
const char *gpu_error_name(CUresult result);

/* attempt_begin(); ATTEMPT(cuMemAlloc(&p, 4096)); ...; if (attempt_failed("question")) ... */
struct attempt {
	CUresult result;
	const char *call; /* the one that failed */
};
extern struct attempt attempt;
void attempt_begin(void);
/* True when a call failed; if a question is named, its answer is then "no" and the call. */
bool attempt_failed(const char *question);
#define ATTEMPT(made)                             \
	((void)(attempt.result == CUDA_SUCCESS && \
	        (attempt.result = gpu.made, attempt.call = #made, false)))

/*
 * A range of chunks mapped side by side, each on the device ('d') or on the host ('h'). Host chunks
 * are HOST_NUMA memory, HOST memory where there is none.
 */
enum { MAX_CHUNKS = 8 };
struct range {
	CUdeviceptr base;
	size_t reserved, chunk; /* bytes */
	unsigned count;         /* chunks that are mapped */
	CUmemGenericAllocationHandle handles[MAX_CHUNKS];
};
extern const size_t small_chunk; /* 2 MiB */
CUmemAllocationProp range_properties(char backing);
CUmemAccessDesc range_access(void); /* this device may read and write */
/* These are steps of the current attempt. */
void range_make(struct range *range, const char *backings, size_t chunk);
void range_write(struct range *range, const void *bytes); /* chunk by chunk, synchronous */
void range_read(struct range *range, void *bytes);
/* Another backing for chunk i, with the same bytes at the same address. The device must be idle. */
void range_move(struct range *range, unsigned i, char backing);
/* Undoes whatever was made, in or out of an attempt. */
void range_free(struct range *range);

#endif
