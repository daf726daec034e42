/* SPDX-License-Identifier: MIT */
/*
 * Copies with "Async" in their names: they go on when their memory is on the host, too
 * (core/memory/copy/async.h). Each function makes the copy if async_copy() does, and returns
 * whether it did. The stream is by its explicit name, and async_is_concerned().
 */
#ifndef SPILLWAY_ASYNCHRONOUS_H
#define SPILLWAY_ASYNCHRONOUS_H

#include "core/memory/copy/async.h"
#include "shim/sampled.h"

bool asynchronous_bytes(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream,
                        CUresult *result);
bool asynchronous_2d(const CUDA_MEMCPY2D *copy, CUstream stream, CUresult *result);
bool asynchronous_3d(const CUDA_MEMCPY3D *copy, CUstream stream, CUresult *result);
bool asynchronous_peer(const CUDA_MEMCPY3D_PEER *copy, CUstream stream, CUresult *result);

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

#define COPIES_ROWS(symbol, how, make, type)                                              \
	HOOK(symbol, const type *pCopy, CUstream hStream)                                 \
	{                                                                                 \
		CUresult result;                                                          \
                                                                                          \
		job_break();                                                              \
		if (!async_is_concerned() || !make(pCopy, how(hStream), &result))         \
			result = PASSING_GATE(REAL(symbol)(pCopy, hStream));              \
		return SAMPLED(result, sampled_copy(pCopy->dstDevice, pCopy->srcDevice)); \
	}
#define COPIES_ROWS_2(symbol, other, make, type) \
	COPIES_ROWS(symbol, LEGACY, make, type)  \
	COPIES_ROWS(other, PER_THREAD, make, type)

#endif
