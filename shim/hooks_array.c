/* SPDX-License-Identifier: MIT */
/*
 * Arrays and mipmapped arrays. Their layout is the driver's own, so they cannot be on the host:
 * beyond the limit the program gets out of memory, as on a device of that size. The most that the
 * driver may take for one is charged first. Once it is there it is charged the bytes it holds and,
 * as measured, the driver's bytes beyond them. Arrays that other calls hand out are not in the
 * books.
 */
#include "shim/track.h"

#include "core/budget/refusal.h"
#include "core/job/job.h"
#include "core/memory/uses/array.h"
#include "core/memory/uses/measured.h"
#include "core/memory/alloc/reclaim.h"

struct making {
	struct context context;
	bool has_context;
	struct measuring measuring;
	uint64_t bytes;  /* that it holds */
	uint64_t taken;  /* that the driver may take: charged before the call */
	uint64_t lacked; /* where the driver refused that */
	struct terms terms;
	struct deadline until;
	struct reclaim reclaim; /* goes on where the driver refuses charged memory */
};

static void begin_reclaim(struct making *making)
{
	making->reclaim = (struct reclaim){.device = making->context.device,
	                                   .terms = &making->terms,
	                                   .until = &making->until,
	                                   .may_demote = true};
}

/* Counts the answer that the program gets in the end. */
static void note_refusal(const struct making *making, enum spill_reason why)
{
	struct device *device = making->context.device;
	const struct lack lack = {SEGMENT_ON_DEVICE, making->taken ? making->taken : ARRAY_UNIT,
	                          making->taken, why};
	struct refused refused =
	    why == SPILL_LIMIT ? refusal_of_unmovable(device, making->taken)
	                       : refusal_by_lack(device, &making->terms, making->taken, &lack);

	refusal_note(device, REFUSED_ARRAY, &refused);
}

static bool array_begin(struct making *making, const struct array_extent *extent)
{
	making->has_context = context_current(&making->context);
	making->bytes = making->has_context ? array_bytes(extent) : 0;
	making->taken = making->has_context ? array_taken(extent) : 0;
	if (making->has_context) {
		making->terms = terms_of(making->context.device);
		making->until = reclaim_deadline(&making->terms, true);
		begin_reclaim(making);
	}
	/* First, so that our own charges are no part of the growth. */
	measured_begin(&making->measuring, false);
	if (!making->taken ||
	    reclaim_and_charge(&making->reclaim, SEGMENT_ON_DEVICE, making->taken) == 0)
		return true;
	measured_end(&making->measuring, NULL, 0);
	note_refusal(making, SPILL_LIMIT);
	return false;
}

static bool array_make_room(struct making *making)
{
	const struct lack lack = {SEGMENT_ON_DEVICE, making->lacked, making->lacked,
	                          SPILL_DEVICE_FULL};

	return reclaim(&making->reclaim, &lack);
}

/*
 * Returns whether the device is full although the limit is not, and another try is worth it. The
 * size of the layout is not known, and nothing of later formats. Where the missing bytes came and
 * were too few, twice as many are tried, within one deadline.
 */
static bool array_is_full(struct making *making, CUresult result)
{
	if (result != CUDA_ERROR_OUT_OF_MEMORY || !making->has_context)
		return false;
	if (!making->lacked)
		making->lacked = making->taken ? making->taken : ARRAY_UNIT;
	while (!array_make_room(making)) {
		if (making->lacked > making->terms.limit / 2 ||
		    making->lacked > making->context.device->id.memory / 2 ||
		    deadline_has_passed(&making->until))
			return false;
		making->lacked *= 2;
		begin_reclaim(making);
	}
	return true;
}

/*
 * Returns the most that its layout takes beyond so many bytes. Padding and tiles at most double an
 * array that is not tiny. For unknown formats there is no figure, and 1 GiB is much.
 */
static uint64_t array_most_beyond(uint64_t bytes)
{
	return bytes && bytes < (uint64_t)1 << 62 ? bytes + ((uint64_t)4 << 20) : (uint64_t)1 << 30;
}

static void array_end(const struct making *making, CUresult result, const void *array)
{
	struct device *device = making->context.device;
	uint64_t charged = making->bytes;

	if (result != CUDA_SUCCESS || !making->has_context) {
		measured_end(&making->measuring, NULL, 0);
		if (making->taken)
			device_uncharge(device, SEGMENT_ON_DEVICE, making->taken);
		if (result == CUDA_ERROR_OUT_OF_MEMORY && making->has_context)
			note_refusal(making, SPILL_DEVICE_FULL);
		return;
	}
	if (!measured_end_ahead(&making->measuring, array, array_most_beyond(making->bytes),
	                        making->taken - making->bytes))
		charged = making->taken;
	counted_enter(&counted_type_array, &making->context, (uintptr_t)array, making->bytes,
	              charged);
}

/* descriptor: NULL is the driver's to judge. */
#define MAKE(array, descriptor, call, ...)                                 \
	({                                                                 \
		KEEP_ERRNO;                                                \
		struct making making_ = {0};                               \
		CUresult result_ = CUDA_ERROR_OUT_OF_MEMORY;               \
		if (!job_is_active() || !(array) || !(descriptor)) {       \
			result_ = (call);                                  \
		} else {                                                   \
			const struct array_extent extent_ = {__VA_ARGS__}; \
			if (array_begin(&making_, &extent_)) {             \
				do                                         \
					result_ = (call);                  \
				while (array_is_full(&making_, result_));  \
				array_end(&making_, result_, *(array));    \
			}                                                  \
		}                                                          \
		result_;                                                   \
	})
#define PLANE(d)                                                                  \
	.width = (d)->Width, .height = (d)->Height, .channels = (d)->NumChannels, \
	.format = (d)->Format
#define SOLID(d) PLANE(d), .depth = (d)->Depth, .flags = (d)->Flags

HOOK(cuArrayCreate_v2, CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	return MAKE(pHandle, pAllocateArray, REAL(cuArrayCreate_v2)(pHandle, pAllocateArray),
	            PLANE(pAllocateArray), .levels = 1);
}

HOOK(cuArray3DCreate_v2, CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	return MAKE(pHandle, pAllocateArray, REAL(cuArray3DCreate_v2)(pHandle, pAllocateArray),
	            SOLID(pAllocateArray), .levels = 1);
}

HOOK(cuMipmappedArrayCreate, CUmipmappedArray *pHandle,
     const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, unsigned int numMipmapLevels)
{
	return MAKE(pHandle, pMipmappedArrayDesc,
	            REAL(cuMipmappedArrayCreate)(pHandle, pMipmappedArrayDesc, numMipmapLevels),
	            SOLID(pMipmappedArrayDesc), .levels = numMipmapLevels);
}

#define UNMAKE(array, call)                                                                     \
	({                                                                                      \
		KEEP_ERRNO;                                                                     \
		struct leaving array_ = {0}, measured_ = {0};                                   \
		CUresult result_;                                                               \
		if (job_is_active()) {                                                          \
			array_ = context_leave_object(&counted_type_array, (uintptr_t)(array)); \
			measured_ = measured_leave(array);                                      \
		}                                                                               \
		result_ = (call);                                                               \
		measured_left(&measured_, result_ == CUDA_SUCCESS);                             \
		counted_left(&array_, result_ == CUDA_SUCCESS);                                 \
		result_;                                                                        \
	})

HOOK(cuArrayDestroy, CUarray hArray)
{
	return UNMAKE(hArray, PASSING_GATE(REAL(cuArrayDestroy)(hArray)));
}

HOOK(cuMipmappedArrayDestroy, CUmipmappedArray hMipmappedArray)
{
	/* External memory's are followed by their owner. */
	return DESTROYED(
	    UNMAKE(hMipmappedArray, PASSING_GATE(REAL(cuMipmappedArrayDestroy)(hMipmappedArray))),
	    mipmapped_array, hMipmappedArray);
}
