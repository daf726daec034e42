/* SPDX-License-Identifier: MIT */
/*
 * The order of copies between two devices. On the legacy stream such a copy is work of both
 * devices' legacy streams: it starts after all work that was queued to either. Work that is queued
 * to either later starts after it.
 *
 * Source: CUDA C++ Programming Guide, "Peer-to-Peer Memory Copy". Programs rely on it: tinygrad
 * gives a device's memory to the next copy from another device while kernels still read it.
 */
#include "tests/softgpu/copy.h"

#include <stdlib.h>

#include "tests/softgpu/capture.h"
#include "tests/softgpu/memory.h"

static int device_of_side(const struct copy_side *side)
{
	const struct range *range = side->kind == SIDE_DEVICE ? range_find(side->address) : NULL;
	return range ? range->device : -1;
}

struct copy_devices copy_devices(const struct stream *stream, const struct copy_side *to,
                                 const struct copy_side *from)
{
	struct copy_devices both = {device_of_side(to), device_of_side(from)};
	bool between = stream->legacy && both.to >= 0 && both.from >= 0 && both.to != both.from;
	return between ? both : (struct copy_devices){-1, -1};
}

/* Returns whether the copy is work of this context too, though not on one of its streams. */
static bool takes_part(const struct context *context, const struct stream *stream,
                       struct copy_devices both)
{
	int device = context->device->index;
	return context->alive && context != stream->context &&
	       (device == both.to || device == both.from);
}

CUresult copy_order_after(struct work *work, const struct stream *stream, struct copy_devices both)
{
	for (struct context *context = contexts; context; context = context->next) {
		if (!takes_part(context, stream, both))
			continue;
		CUresult result = capture_check_queue(context->legacy);
		if (result != CUDA_SUCCESS)
			return result;
		struct stream *other;
		DL_FOREACH (context->streams, other)
			if (!(other->flags & CU_STREAM_NON_BLOCKING) && !stream_idle(other) &&
			    !work_depend(work, other, other->issued))
				return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult copy_order_before(struct stream *stream, struct copy_devices both)
{
	for (struct context *context = contexts; context; context = context->next) {
		if (!takes_part(context, stream, both))
			continue;
		struct work *work = calloc(1, sizeof(*work));
		if (!work)
			return CUDA_ERROR_OUT_OF_MEMORY;
		if (!work_depend(work, stream, stream->issued)) {
			work_free(work);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		CUresult result = stream_submit(context->legacy, work);
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}
