/*
 * Pinned host memory of the program: in the statistics, in no quota. host_limit is for what is
 * spilled; a program that pins its own memory would have it without us, and must not fail with us.
 */
#include "shim/shim.h"

#include "core/job/job.h"
#include "core/memory/uses/side.h"

static CUresult pinned(CUresult result, void *const *memory, size_t bytes)
{
	KEEP_ERRNO;

	if (result == CUDA_SUCCESS && memory && job_is_active())
		side_enter(&side_type_host_allocation, NULL, (uintptr_t)*memory, bytes, 0);
	return result;
}

static CUresult unpinned(CUresult (*real)(void *), void *memory)
{
	KEEP_ERRNO;
	struct leaving leaving = {0};
	CUresult result;

	if (job_is_active())
		leaving = side_leave(&side_type_host_allocation, (uintptr_t)memory);
	result = PASSING_GATE(real(memory));
	side_left(&leaving, result == CUDA_SUCCESS);
	return result;
}

HOOK(cuMemAllocHost_v2, void **pp, size_t bytesize)
{
	return pinned(REAL(cuMemAllocHost_v2)(pp, bytesize), pp, bytesize);
}

HOOK(cuMemHostAlloc, void **pp, size_t bytesize, unsigned int Flags)
{
	return pinned(REAL(cuMemHostAlloc)(pp, bytesize, Flags), pp, bytesize);
}

HOOK(cuMemHostRegister, void *p, size_t bytesize, unsigned int Flags)
{
	return pinned(REAL(cuMemHostRegister)(p, bytesize, Flags), &p, bytesize);
}

HOOK(cuMemHostRegister_v2, void *p, size_t bytesize, unsigned int Flags)
{
	return pinned(REAL(cuMemHostRegister_v2)(p, bytesize, Flags), &p, bytesize);
}

HOOK(cuMemFreeHost, void *p)
{
	return unpinned(REAL(cuMemFreeHost), p);
}

HOOK(cuMemHostUnregister, void *p)
{
	return unpinned(REAL(cuMemHostUnregister), p);
}
