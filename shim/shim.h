/* SPDX-License-Identifier: MIT */
/*
 * The table of entry points and the form of a hook, which all files of the shim share.
 *
 * Fixed names, for a driver entry point cuFoo:
 *   cuFoo        exported: the trampoline in trampolines.S, a jump through shim_target[]; a call of
 *                the driver itself by it is the driver's own again, never the hook
 *   hook_cuFoo   our function, where Spillway acts: HOOK(cuFoo, parameters) { body }
 *   REAL(cuFoo)  the driver's own, never NULL: a missing function answers NOT_SUPPORTED
 *
 * Rules of every file in this folder: the process belongs to the user. No signal handler, no umask,
 * no exit, no stdout; errno is preserved; a CUresult returned is one the API called may return;
 * NULL parameters are the driver's to judge; nothing is linked but glibc.
 *
 * PASSING_GATE stands around the driver's call and nothing else, except where a capture must be
 * known before the gate can close. Allocating from a pool is kept out: it holds the pool's lock,
 * which the holder of the gate may need.
 */
#ifndef SPILLWAY_SHIM_H
#define SPILLWAY_SHIM_H

#define __CUDA_API_VERSION_INTERNAL /* no macro renames anything */
#include <cuda.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/cuda/gate.h"
#include "core/job/job.h"

/*
 * --- functions of CUDA 13.1 to 13.5 that Spillway acts on, for builds with an older cuda.h ---
 *
 * Source: cuda.h of CUDA 13.5. With that header the build uses its declarations, so a difference is
 * an error of HOOK.
 */

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

/* --- entry points and hooks --- */

enum entry {
#define FUNCTION(symbol, class, action) ENTRY_##symbol,
#define OBJECT(symbol, bytes)
#include "shim/entry_points.h"
#undef FUNCTION
#undef OBJECT
	ENTRY_COUNT
};

/* The driver's own function for each entry point. Written by attach.c alone. */
extern void *shim_real[ENTRY_COUNT];

#define REAL(symbol) ((__typeof__(&(symbol)))shim_real[ENTRY_##symbol])

/* Collected by the linker from all hooks_*.c files: struct hook of attach.h. */
#define HOOK(symbol, ...)                                                                \
	static CUresult hook_##symbol(__VA_ARGS__) __attribute__((used));                \
	_Static_assert(                                                                  \
	    __builtin_types_compatible_p(__typeof__(hook_##symbol), __typeof__(symbol)), \
	    #symbol " differs from cuda.h");                                             \
	__asm__(".pushsection shim_hooks, \"a\"\n\t.balign 4\n\t"                        \
	        ".long shim_at_" #symbol " - .\n\t"                                      \
	        ".long hook_" #symbol " - .\n\t"                                         \
	        ".popsection");                                                          \
	static CUresult hook_##symbol(__VA_ARGS__)

/* The driver's own call with a hook's parameters; here and below they are (type, name) pairs. */
#define FORWARD(symbol, ...) REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__))

/*
 * A hook that passes the gate and forwards: GATED(cuFoo, (type, name), ...). GATED_2 is for two
 * symbols with the same parameters, mostly the forms with and without per-thread default streams.
 */
#define GATED(symbol, ...)                                         \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                \
	{                                                          \
		job_break();                                       \
		return PASSING_GATE(FORWARD(symbol, __VA_ARGS__)); \
	}
#define GATED_2(symbol, other, ...) GATED(symbol, __VA_ARGS__) GATED(other, __VA_ARGS__)

/*
 * A hook that forwards, and then does something where the driver succeeded and the job is active:
 * AFTER(cuFoo, (type, name), ...) { body without a result }.
 */
#define AFTER(symbol, ...)                                                \
	static inline void after_##symbol(PAIRS(PARAMETER, __VA_ARGS__)); \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                       \
	{                                                                 \
		KEEP_ERRNO;                                               \
		CUresult result = FORWARD(symbol, __VA_ARGS__);           \
		if (result == CUDA_SUCCESS && job_is_active())            \
			after_##symbol(PAIRS(ARGUMENT, __VA_ARGS__));     \
		return result;                                            \
	}                                                                 \
	static inline void after_##symbol(PAIRS(PARAMETER, __VA_ARGS__))

/*
 * Two hooks with one body: the form for the legacy default stream and that for the thread's own.
 * In it real() is the driver's function, and NAMED(stream) a stream by its explicit name.
 */
#define BOTH(symbol, other, ...)                                                                  \
	static inline CUresult both_##symbol(__typeof__(&(symbol)) real, CUstream default_stream, \
	                                     PAIRS(PARAMETER, __VA_ARGS__));                      \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                               \
	{                                                                                         \
		return both_##symbol(REAL(symbol), CU_STREAM_LEGACY,                              \
		                     PAIRS(ARGUMENT, __VA_ARGS__));                               \
	}                                                                                         \
	HOOK(other, PAIRS(PARAMETER, __VA_ARGS__))                                                \
	{                                                                                         \
		return both_##symbol(REAL(other), CU_STREAM_PER_THREAD,                           \
		                     PAIRS(ARGUMENT, __VA_ARGS__));                               \
	}                                                                                         \
	static inline CUresult both_##symbol(__typeof__(&(symbol)) real,                          \
	                                     CUstream default_stream __attribute__((unused)),     \
	                                     PAIRS(PARAMETER, __VA_ARGS__))
#define NAMED(stream) ((stream) ? (stream) : default_stream)

#define PASSING_GATE(call)        \
	({                        \
		CUresult passed_; \
		gate_enter();     \
		passed_ = (call); \
		gate_leave();     \
		passed_;          \
	})

/* (type, name) pairs to a parameter list or an argument list; up to eleven. */
#define PARAMETER(type, name)                            type name __attribute__((unused))
#define ARGUMENT(type, name)                             name
#define PAIRS(what, ...)                                 PAIRS_N(__VA_ARGS__, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1)(what, __VA_ARGS__)
#define PAIRS_N(a, b, c, d, e, f, g, h, i, j, k, n, ...) PAIRS_##n
#define PAIRS_1(what, a)                                 what a
#define PAIRS_2(what, a, ...)                            what a, PAIRS_1(what, __VA_ARGS__)
#define PAIRS_3(what, a, ...)                            what a, PAIRS_2(what, __VA_ARGS__)
#define PAIRS_4(what, a, ...)                            what a, PAIRS_3(what, __VA_ARGS__)
#define PAIRS_5(what, a, ...)                            what a, PAIRS_4(what, __VA_ARGS__)
#define PAIRS_6(what, a, ...)                            what a, PAIRS_5(what, __VA_ARGS__)
#define PAIRS_7(what, a, ...)                            what a, PAIRS_6(what, __VA_ARGS__)
#define PAIRS_8(what, a, ...)                            what a, PAIRS_7(what, __VA_ARGS__)
#define PAIRS_9(what, a, ...)                            what a, PAIRS_8(what, __VA_ARGS__)
#define PAIRS_10(what, a, ...)                           what a, PAIRS_9(what, __VA_ARGS__)
#define PAIRS_11(what, a, ...)                           what a, PAIRS_10(what, __VA_ARGS__)

/* First in a hook that does more than forward: errno is the program's. */
#define KEEP_ERRNO __attribute__((cleanup(shim_restore_errno), unused)) int kept_errno = errno

static inline void shim_restore_errno(const int *kept)
{
	errno = *kept;
}

/*
 * A stream by its explicit name: NULL means one of the two default streams, by the form of the
 * call.
 */
#define LEGACY(stream)     ((stream) ? (stream) : CU_STREAM_LEGACY)
#define PER_THREAD(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

#endif
