/* SPDX-License-Identifier: MIT */
/* Judging. Rules: runs inside the user's process, within its calls. */
#include "core/memory/alloc/judge.h"

#include "core/cuda/idle.h"
#include "core/memory/arena/slab.h"
#include "core/memory/uses/overhead.h"

/*
 * Asks by a byte, for which the driver may take a block of 2 MiB: that is charged first. Without
 * room for it within the limit the driver is asked for more than the device has. It refuses that in
 * any case, and takes nothing.
 */
static CUresult judge_try(struct device *device)
{
	bool has_room = device_charge(device, SLAB_BYTES) == 0;
	size_t size = has_room ? 1 : device->id.memory + SLAB_BYTES;
	CUdeviceptr made;
	CUresult result = driver.cuMemAlloc_v2(&made, size);

	if (result == CUDA_SUCCESS) {
		driver.cuMemFree_v2(made);
		overhead_note(); /* the driver's page was its own for a moment */
	}
	if (has_room)
		device_uncharge(device, SEGMENT_ON_DEVICE, SLAB_BYTES);
	return result == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_SUCCESS : result;
}

CUresult judge(const struct context *context, bool in_pool, uint64_t now_ns)
{
	CUresult result = idle_judge(context, now_ns);

	if (result == CUDA_SUCCESS)
		return result;
	/* From a pool it may allocate in other streams. */
	if (idle_is_refused(result))
		return in_pool ? CUDA_SUCCESS : judge_try(context->device);
	return judge_try(context->device) == CUDA_SUCCESS ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}
