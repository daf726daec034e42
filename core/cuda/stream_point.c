/* SPDX-License-Identifier: MIT */
/* Points in streams. Rules: runs inside the user's process, within its calls; never waits. */
#include "core/cuda/stream_point.h"

#include <stdatomic.h>

#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/events.h"
#include "core/cuda/idle.h"

static _Atomic uint64_t threads;
static __thread uint64_t thread_number __attribute__((tls_model("initial-exec")));

bool stream_point_of(CUstream stream, struct stream_point *point)
{
	*point = (struct stream_point){.stream = stream};
	if (stream == CU_STREAM_PER_THREAD) {
		if (!thread_number)
			thread_number = atomic_fetch_add(&threads, 1) + 1;
		point->thread = thread_number;
	}
	return driver.cuStreamGetCtx(stream, &point->context) == CUDA_SUCCESS;
}

bool stream_point_is_same(const struct stream_point *a, const struct stream_point *b)
{
	return a->stream && a->stream == b->stream && a->context == b->context &&
	       a->thread == b->thread;
}

void stream_point_end(struct stream_point *point)
{
	events_give(point->context, point->event);
	point->event = NULL;
}

bool stream_point_record(struct stream_point *point)
{
	CUcontext current = NULL;
	bool is_recorded;

	driver.cuCtxGetCurrent(&current);
	if (current != point->context && context_push(point->context) != CUDA_SUCCESS)
		return false;
	point->event = events_take(point->context);
	is_recorded =
	    point->event && driver.cuEventRecord(point->event, point->stream) == CUDA_SUCCESS;
	if (!is_recorded)
		stream_point_end(point);
	if (current != point->context)
		context_pop(point->context);
	return is_recorded;
}

bool stream_point_has_passed(struct stream_point *point)
{
	CUresult result;

	if (!point->event)
		return true;
	if (context_push(point->context) != CUDA_SUCCESS) {
		if (context_is_leaving(point->context))
			return false;
		point->event = NULL; /* it went with its context */
		return true;
	}
	result = CUDA_ERROR_NOT_READY;
	if (capture_sync_enter()) {
		result = driver.cuEventQuery(point->event);
		capture_sync_leave();
	}
	context_pop(point->context);
	/* With any other error the context is broken and runs nothing more. */
	if (result == CUDA_ERROR_NOT_READY || idle_is_refused(result))
		return false;
	stream_point_end(point);
	return true;
}
