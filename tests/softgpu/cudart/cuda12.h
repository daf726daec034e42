/* SPDX-License-Identifier: MIT */
/*
 * CUDA 13's forms of functions under the names that libcudart.so.12 gives them. The plain names are
 * older forms there, which cuda12.c defines. Read before the runtime's header, so that one source
 * makes both libraries. Source: the headers that layouts.def names.
 */
#ifndef SOFTGPU_CUDART_CUDA12_H
#define SOFTGPU_CUDART_CUDA12_H

#define cudaGetDeviceProperties                  cudaGetDeviceProperties_v2
#define cudaGraphAddDependencies                 cudaGraphAddDependencies_v2
#define cudaGraphAddNode                         cudaGraphAddNode_v2
#define cudaGraphGetEdges                        cudaGraphGetEdges_v2
#define cudaGraphNodeGetDependencies             cudaGraphNodeGetDependencies_v2
#define cudaGraphNodeGetDependentNodes           cudaGraphNodeGetDependentNodes_v2
#define cudaGraphRemoveDependencies              cudaGraphRemoveDependencies_v2
#define cudaMemAdvise                            cudaMemAdvise_v2
#define cudaMemPrefetchAsync                     cudaMemPrefetchAsync_v2
#define cudaMemPrefetchAsync_ptsz                cudaMemPrefetchAsync_v2_ptsz
#define cudaStreamGetCaptureInfo                 cudaStreamGetCaptureInfo_v3
#define cudaStreamGetCaptureInfo_ptsz            cudaStreamGetCaptureInfo_v3_ptsz
#define cudaStreamUpdateCaptureDependencies      cudaStreamUpdateCaptureDependencies_v2
#define cudaStreamUpdateCaptureDependencies_ptsz cudaStreamUpdateCaptureDependencies_v2_ptsz

#endif
