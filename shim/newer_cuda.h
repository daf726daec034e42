/* SPDX-License-Identifier: MIT */
/*
 * Functions of CUDA 13.1 to 13.5 that Spillway acts on, declared for builds with an older cuda.h.
 * Source: cuda.h of CUDA 13.5. With that header the build uses its declarations, so a difference is
 * an error of HOOK in shim.h.
 */
#ifndef SPILLWAY_NEWER_CUDA_H
#define SPILLWAY_NEWER_CUDA_H

#include <cuda.h>

/* Declares a function with its form for the thread's own default stream. */
#define NEWER_2(symbol, ...)          \
	CUresult symbol(__VA_ARGS__); \
	CUresult symbol##_ptsz(__VA_ARGS__)

#if CUDA_VERSION < 13010
NEWER_2(cuLaunchHostFunc_v2, CUstream hStream, CUhostFn fn, void *userData, unsigned int syncMode);
CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                size_t mcOffset, CUdeviceptr memptr, size_t size,
                                unsigned long long flags);
CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                               CUmemGenericAllocationHandle memHandle, size_t memOffset,
                               size_t size, unsigned long long flags);
typedef struct CUstreamCigCaptureParams_st CUstreamCigCaptureParams;
NEWER_2(cuStreamBeginCaptureToCig, CUstream hStream,
        CUstreamCigCaptureParams *streamCigCaptureParams);
NEWER_2(cuStreamEndCaptureToCig, CUstream hStream);
#endif

#if CUDA_VERSION < 13020
NEWER_2(cuMemcpy3DWithAttributesAsync, CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
        CUstream hStream);
NEWER_2(cuMemcpyWithAttributesAsync, CUdeviceptr dst, CUdeviceptr src, size_t size,
        CUmemcpyAttributes *attr, CUstream hStream);
#endif

#if CUDA_VERSION < 13030
typedef cuuint32_t CUlogicalEndpointId;
CUresult cuLogicalEndpointBindAddr(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset,
                                   void *ptr, cuuint64_t size, unsigned long long flags);
CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset,
                                  CUmemGenericAllocationHandle memHandle, cuuint64_t memOffset,
                                  cuuint64_t size, unsigned long long flags);
CUresult cuLogicalEndpointUnbind(CUlogicalEndpointId leId, CUdevice dev, cuuint64_t offset,
                                 cuuint64_t size);
typedef CUresult (*CUgraphRecaptureCallback)(void *data, CUgraphNode node,
                                             const CUgraphNodeParams *originalParams,
                                             const CUgraphNodeParams *recaptureParams,
                                             unsigned int status);
NEWER_2(cuStreamBeginRecaptureToGraph, CUstream hStream, CUstreamCaptureMode mode, CUgraph hGraph,
        CUgraphRecaptureCallback callbackFunc, void *userData);
#endif

#if CUDA_VERSION < 13040
CUresult cuGraphAddNode_v3(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams);
CUresult cuGraphNodeSetParams_v2(CUgraphNode hNode, CUgraphNodeParams *nodeParams);
#endif

#if CUDA_VERSION < 13050
typedef struct CUDA_FABRIC_COPY_BATCH_OP_st CUDA_FABRIC_COPY_BATCH_OP;
NEWER_2(cuFabricCpyBatchAsync, size_t numOps, CUDA_FABRIC_COPY_BATCH_OP *opList,
        unsigned long long flags, CUstream hStream);
#endif

#endif
