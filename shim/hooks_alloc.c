/* SPDX-License-Identifier: MIT */
/* cuMemAlloc, cuMemAllocPitch, cuMemFree. */
#include "core/budget/network.h"
#include "core/job/job.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/uses/counted.h"
#include "shim/allocate.h"
#include "shim/shim.h"
#include "shim/track.h"

static CUresult native_alloc(void *cookie, CUdeviceptr *address)
{
	return REAL(cuMemAlloc_v2)(address, *(size_t *)cookie);
}

HOOK(cuMemAlloc_v2, CUdeviceptr *dptr, size_t bytesize)
{
	KEEP_ERRNO;
	struct vmem_request request = {
	    .size = bytesize, .native = native_alloc, .cookie = &bytesize};

	if (!job_is_active())
		return REAL(cuMemAlloc_v2)(dptr, bytesize);
	request.stays = network_keeps(__builtin_return_address(0));
	return allocate_acted_on(&request, dptr);
}

struct pitch_request {
	size_t pitch, width, height;
	unsigned int element;
};

static CUresult native_alloc_pitch(void *cookie, CUdeviceptr *address)
{
	struct pitch_request *p = cookie;

	return REAL(cuMemAllocPitch_v2)(address, &p->pitch, p->width, p->height, p->element);
}

HOOK(cuMemAllocPitch_v2, CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
     unsigned int ElementSizeBytes)
{
	KEEP_ERRNO;

	/* Rows on 512 bytes satisfy every alignment the driver documents for pitched memory. */
	struct pitch_request pitch = {(WidthInBytes + 511) / 512 * 512, WidthInBytes, Height,
	                              ElementSizeBytes};
	struct vmem_request request = {.native = native_alloc_pitch, .cookie = &pitch};
	bool valid = ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16;
	CUresult result;

	if (!job_is_active() || !pPitch || !dptr || !valid || pitch.pitch < WidthInBytes ||
	    __builtin_mul_overflow(pitch.pitch, Height, &request.size))
		return REAL(cuMemAllocPitch_v2)(dptr, pPitch, WidthInBytes, Height,
		                                ElementSizeBytes);
	request.stays = network_keeps(__builtin_return_address(0));
	result = allocate_acted_on(&request, dptr);
	if (result == CUDA_SUCCESS)
		*pPitch = pitch.pitch;
	return result;
}

/* A mapping of external memory is freed like memory. */
#define FREED(call, address)                                                  \
	(atomic_load_explicit(&track_any_mapped_buffer, memory_order_relaxed) \
	     ? DESTROYED(call, mapped_buffer, address)                        \
	     : (call))

static CUresult native_free(void *cookie, CUdeviceptr address)
{
	(void)cookie;
	return FREED(PASSING_GATE(REAL(cuMemFree_v2)(address)), address);
}

HOOK(cuMemFree_v2, CUdeviceptr dptr)
{
	KEEP_ERRNO;
	const struct vmem_free how = {.native = native_free};

	if (!job_is_active())
		return PASSING_GATE(REAL(cuMemFree_v2)(dptr));
	return vmem_free(dptr, &how);
}

/*
 * Pinned host memory of the program counts in the statistics and in no quota. host_memory is for
 * spilled memory. A program that pins its own memory would have it without us, and must not fail
 * with us.
 */

#define PINS(symbol, memory, ...)                                                             \
	AFTER(symbol, __VA_ARGS__)                                                            \
	{                                                                                     \
		const void *pinned = memory;                                                  \
                                                                                              \
		if (pinned)                                                                   \
			counted_enter(&counted_type_host_allocation, NULL, (uintptr_t)pinned, \
			              bytesize, 0);                                           \
	}

PINS(cuMemAllocHost_v2, pp ? *pp : NULL, (void **, pp), (size_t, bytesize))
PINS(cuMemHostAlloc, pp ? *pp : NULL, (void **, pp), (size_t, bytesize), (unsigned int, Flags))
PINS(cuMemHostRegister, p, (void *, p), (size_t, bytesize), (unsigned int, Flags))
PINS(cuMemHostRegister_v2, p, (void *, p), (size_t, bytesize), (unsigned int, Flags))

#define UNPINS(symbol)                                                                         \
	HOOK(symbol, void *p)                                                                  \
	{                                                                                      \
		KEEP_ERRNO;                                                                    \
		struct leaving leaving = {0};                                                  \
		CUresult result;                                                               \
                                                                                               \
		if (job_is_active())                                                           \
			leaving =                                                              \
			    context_leave_object(&counted_type_host_allocation, (uintptr_t)p); \
		result = PASSING_GATE(REAL(symbol)(p));                                        \
		counted_left(&leaving, result == CUDA_SUCCESS);                                \
		return result;                                                                 \
	}

UNPINS(cuMemFreeHost)
UNPINS(cuMemHostUnregister)
