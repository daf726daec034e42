/* SPDX-License-Identifier: MIT */
/*
 * Copies: they pass the gate, and tell which memory is in use. A failed or waiting copy is the
 * driver's to report.
 */
#include "core/cuda/idle.h"
#include "core/job/job.h"
#include "core/memory/alloc/pointer.h"
#include "core/memory/copy/async.h"
#include "core/memory/move/idle_point.h"
#include "shim/sampled.h"
#include "shim/shape.h"

/*
 * Has the ends of a copy looked at. Addresses that are none, or no device's, do no harm. Apart from
 * the hooks, because it is rare.
 */
static __attribute__((noinline)) void sampled_copy(CUdeviceptr a, CUdeviceptr b)
{
	KEEP_ERRNO;
	const CUdeviceptr both[] = {a, b};

	if (job_is_active())
		placement_tell(copied, both, 2);
}

/* Hook as GATED and GATED_2 do, for copies and fills. */
#define COPIES(symbol, look, ...)                                                               \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                             \
	{                                                                                       \
		job_break();                                                                    \
		return SAMPLED(PASSING_GATE(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__))), look); \
	}
#define COPIES_2(symbol, other, look, ...) \
	COPIES(symbol, look, __VA_ARGS__)  \
	COPIES(other, look, __VA_ARGS__)

/*
 * Copies and fills without "Async": what is to be in order with the host is done when they return.
 */
#define COPIED_NOW(call, stream, to, from)                                              \
	({                                                                              \
		CUresult copied_ = SAMPLED(PASSING_GATE(call), sampled_copy(to, from)); \
		if (copied_ == CUDA_SUCCESS && pointer_is_in_order(to, from))           \
			copied_ = REAL(cuStreamSynchronize)(stream);                    \
		copied_;                                                                \
	})
#define COPIES_NOW(symbol, stream, to, from, ...)                                                \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                              \
	{                                                                                        \
		job_break();                                                                     \
		return COPIED_NOW(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), stream, to, from); \
	}
#define COPIES_NOW_2(symbol, other, to, from, ...)                  \
	COPIES_NOW(symbol, CU_STREAM_LEGACY, to, from, __VA_ARGS__) \
	COPIES_NOW(other, CU_STREAM_PER_THREAD, to, from, __VA_ARGS__)

/*
 * Copies with "Async" in their names: they go on when their memory is on the host, too
 * (core/memory/copy/async.h). Each function makes the copy if async_copy() does, and returns
 * whether it did. The stream is by its explicit name, and async_is_concerned(). They are no part of
 * the hooks, because they are rare.
 */

/* Hook copies of so many bytes, and of rows. */
#define COPIES_ASYNC(symbol, how, to, from, ...)                                              \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                           \
	{                                                                                     \
		CUresult result;                                                              \
                                                                                              \
		job_break();                                                                  \
		if (!async_is_concerned() ||                                                  \
		    !asynchronous_bytes((CUdeviceptr)(to), (CUdeviceptr)(from), ByteCount,    \
		                        how(hStream), &result))                               \
			result = PASSING_GATE(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)));    \
		return SAMPLED(result, sampled_copy((CUdeviceptr)(to), (CUdeviceptr)(from))); \
	}
#define COPIES_ASYNC_2(symbol, other, to, from, ...)        \
	COPIES_ASYNC(symbol, LEGACY, to, from, __VA_ARGS__) \
	COPIES_ASYNC(other, PER_THREAD, to, from, __VA_ARGS__)

#define COPIES_ROWS(symbol, how, copy_make, type)                                         \
	HOOK(symbol, const type *pCopy, CUstream hStream)                                 \
	{                                                                                 \
		CUresult result;                                                          \
                                                                                          \
		job_break();                                                              \
		if (!async_is_concerned() || !copy_make(pCopy, how(hStream), &result))    \
			result = PASSING_GATE(REAL(symbol)(pCopy, hStream));              \
		return SAMPLED(result, sampled_copy(pCopy->dstDevice, pCopy->srcDevice)); \
	}
#define COPIES_ROWS_2(symbol, other, copy_make, type) \
	COPIES_ROWS(symbol, LEGACY, copy_make, type)  \
	COPIES_ROWS(other, PER_THREAD, copy_make, type)

static bool copy_make(struct async_copy *shape, CUstream stream, CUresult *result)
{
	KEEP_ERRNO;

	shape->stream = stream;
	shape->is_in_order = false;
	return job_is_active() && async_copy(shape, result);
}

static __attribute__((noinline)) bool
asynchronous_bytes(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream, CUresult *result)
{
	struct async_copy shape;

	return shape_of_bytes(to, from, size, &shape) && copy_make(&shape, stream, result);
}

static __attribute__((noinline)) bool asynchronous_2d(const CUDA_MEMCPY2D *copy, CUstream stream,
                                                      CUresult *result)
{
	struct async_copy shape;

	return shape_of_2d(copy, &shape) && copy_make(&shape, stream, result);
}

static __attribute__((noinline)) bool asynchronous_3d(const CUDA_MEMCPY3D *copy, CUstream stream,
                                                      CUresult *result)
{
	struct async_copy shape;

	return shape_of_3d(copy, &shape) && copy_make(&shape, stream, result);
}

static __attribute__((noinline)) bool asynchronous_peer(const CUDA_MEMCPY3D_PEER *copy,
                                                        CUstream stream, CUresult *result)
{
	struct async_copy shape;

	return shape_of_peer(copy, &shape) && copy_make(&shape, stream, result);
}

/* Hooks as COPIES_NOW does, for calls that return when the copy is done. */
#define WAITS(symbol, stream, to, from, ...)                                                       \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                                \
	{                                                                                          \
		CUresult result;                                                                   \
                                                                                                   \
		job_break();                                                                       \
		result = COPIED_NOW(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), stream, to, from); \
		idle_note(result);                                                                 \
		if (result == CUDA_SUCCESS)                                                        \
			idle_point_has_come();                                                     \
		return result;                                                                     \
	}
#define WAITS_2(symbol, other, to, from, ...)                  \
	WAITS(symbol, CU_STREAM_LEGACY, to, from, __VA_ARGS__) \
	WAITS(other, CU_STREAM_PER_THREAD, to, from, __VA_ARGS__)

GATED_2(cuMemBatchDecompressAsync, cuMemBatchDecompressAsync_ptsz,
        (CUmemDecompressParams *, paramsArray), (size_t, count), (unsigned int, flags),
        (size_t *, errorIndex), (CUstream, stream))
GATED_2(cuFabricCpyBatchAsync, cuFabricCpyBatchAsync_ptsz, (size_t, numOps),
        (CUDA_FABRIC_COPY_BATCH_OP *, opList), (unsigned long long, flags), (CUstream, hStream))
WAITS_2(cuMemcpy, cuMemcpy_ptds, dst, src, (CUdeviceptr, dst), (CUdeviceptr, src),
        (size_t, ByteCount))
COPIES_ROWS_2(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz, asynchronous_2d, CUDA_MEMCPY2D)
COPIES_NOW_2(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, pCopy->dstDevice,
             pCopy->srcDevice, (const CUDA_MEMCPY2D *, pCopy))
COPIES_NOW_2(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, pCopy->dstDevice, pCopy->srcDevice,
             (const CUDA_MEMCPY2D *, pCopy))
COPIES_ROWS_2(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz, asynchronous_3d, CUDA_MEMCPY3D)
COPIES_NOW_2(cuMemcpy3DPeer, cuMemcpy3DPeer_ptds, pCopy->dstDevice, pCopy->srcDevice,
             (const CUDA_MEMCPY3D_PEER *, pCopy))
COPIES_ROWS_2(cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz, asynchronous_peer, CUDA_MEMCPY3D_PEER)
COPIES_NOW_2(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, pCopy->dstDevice, pCopy->srcDevice,
             (const CUDA_MEMCPY3D *, pCopy))
COPIES_ASYNC_2(cuMemcpyAsync, cuMemcpyAsync_ptsz, dst, src, (CUdeviceptr, dst), (CUdeviceptr, src),
               (size_t, ByteCount), (CUstream, hStream))
GATED_2(cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds, (CUarray, dstArray), (size_t, dstOffset),
        (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))
COPIES_NOW_2(cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (CUarray, srcArray), (size_t, srcOffset), (size_t, ByteCount))
GATED_2(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz, (void *, dstHost), (CUarray, srcArray),
        (size_t, srcOffset), (size_t, ByteCount), (CUstream, hStream))
GATED_2(cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds, (void *, dstHost), (CUarray, srcArray),
        (size_t, srcOffset), (size_t, ByteCount))
COPIES_NOW_2(cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds, srcDevice, 0, (CUarray, dstArray),
             (size_t, dstOffset), (CUdeviceptr, srcDevice), (size_t, ByteCount))
COPIES_ASYNC_2(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz, dstDevice, srcDevice,
               (CUdeviceptr, dstDevice), (CUdeviceptr, srcDevice), (size_t, ByteCount),
               (CUstream, hStream))
WAITS_2(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, dstDevice, srcDevice, (CUdeviceptr, dstDevice),
        (CUdeviceptr, srcDevice), (size_t, ByteCount))
COPIES_ASYNC_2(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz, dstHost, srcDevice,
               (void *, dstHost), (CUdeviceptr, srcDevice), (size_t, ByteCount),
               (CUstream, hStream))
WAITS_2(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, srcDevice, 0, (void *, dstHost),
        (CUdeviceptr, srcDevice), (size_t, ByteCount))
GATED_2(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz, (CUarray, dstArray), (size_t, dstOffset),
        (const void *, srcHost), (size_t, ByteCount), (CUstream, hStream))
GATED_2(cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds, (CUarray, dstArray), (size_t, dstOffset),
        (const void *, srcHost), (size_t, ByteCount))
COPIES_ASYNC_2(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz, dstDevice, srcHost,
               (CUdeviceptr, dstDevice), (const void *, srcHost), (size_t, ByteCount),
               (CUstream, hStream))
WAITS_2(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
        (const void *, srcHost), (size_t, ByteCount))
COPIES_NOW_2(cuMemcpyPeer, cuMemcpyPeer_ptds, dstDevice, srcDevice, (CUdeviceptr, dstDevice),
             (CUcontext, dstContext), (CUdeviceptr, srcDevice), (CUcontext, srcContext),
             (size_t, ByteCount))
COPIES_ASYNC_2(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz, dstDevice, srcDevice,
               (CUdeviceptr, dstDevice), (CUcontext, dstContext), (CUdeviceptr, srcDevice),
               (CUcontext, srcContext), (size_t, ByteCount), (CUstream, hStream))

/* Memsets: they pass the gate, and tell which memory is in use. */

COPIES_2(cuMemsetD16Async, cuMemsetD16Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (unsigned short, us), (size_t, N), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD16_v2, cuMemsetD16_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (unsigned short, us), (size_t, N))
COPIES_2(cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned short, us), (size_t, Width),
         (size_t, Height), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (size_t, dstPitch), (unsigned short, us), (size_t, Width), (size_t, Height))
COPIES_2(cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned int, ui), (size_t, Width),
         (size_t, Height), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (size_t, dstPitch), (unsigned int, ui), (size_t, Width), (size_t, Height))
COPIES_2(cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (size_t, dstPitch), (unsigned char, uc), (size_t, Width),
         (size_t, Height), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (size_t, dstPitch), (unsigned char, uc), (size_t, Width), (size_t, Height))
COPIES_2(cuMemsetD32Async, cuMemsetD32Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (unsigned int, ui), (size_t, N), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD32_v2, cuMemsetD32_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (unsigned int, ui), (size_t, N))
COPIES_2(cuMemsetD8Async, cuMemsetD8Async_ptsz, sampled_copy(dstDevice, 0),
         (CUdeviceptr, dstDevice), (unsigned char, uc), (size_t, N), (CUstream, hStream))
COPIES_NOW_2(cuMemsetD8_v2, cuMemsetD8_v2_ptds, dstDevice, 0, (CUdeviceptr, dstDevice),
             (unsigned char, uc), (size_t, N))
