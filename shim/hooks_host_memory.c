/* SPDX-License-Identifier: MIT */
/*
 * Pinned host memory of the program: in the statistics, in no quota. host_memory is for what is
 * spilled; a program that pins its own memory would have it without us, and must not fail with us.
 */
#include "shim/shim.h"

#include "core/job/job.h"
#include "core/memory/uses/side.h"

#define PINS(symbol, memory, ...)                                                                 \
	AFTER(symbol, __VA_ARGS__)                                                                \
	{                                                                                         \
		const void *pinned = memory;                                                      \
                                                                                                  \
		if (pinned)                                                                       \
			side_enter(&side_type_host_allocation, NULL, (uintptr_t)pinned, bytesize, \
			           0);                                                            \
	}

PINS(cuMemAllocHost_v2, pp ? *pp : NULL, (void **, pp), (size_t, bytesize))
PINS(cuMemHostAlloc, pp ? *pp : NULL, (void **, pp), (size_t, bytesize), (unsigned int, Flags))
PINS(cuMemHostRegister, p, (void *, p), (size_t, bytesize), (unsigned int, Flags))
PINS(cuMemHostRegister_v2, p, (void *, p), (size_t, bytesize), (unsigned int, Flags))

#define UNPINS(symbol)                                                                            \
	HOOK(symbol, void *p)                                                                     \
	{                                                                                         \
		KEEP_ERRNO;                                                                       \
		struct leaving leaving = {0};                                                     \
		CUresult result;                                                                  \
                                                                                                  \
		if (job_is_active())                                                              \
			leaving = context_leave_object(&side_type_host_allocation, (uintptr_t)p); \
		result = PASSING_GATE(REAL(symbol)(p));                                           \
		side_left(&leaving, result == CUDA_SUCCESS);                                      \
		return result;                                                                    \
	}

UNPINS(cuMemFreeHost)
UNPINS(cuMemHostUnregister)
