/* SPDX-License-Identifier: MIT */
/* The fence. Rules: runs inside the user's process, within its calls; never waits. */
#include "core/cuda/fence.h"

#include "core/cuda/context.h"
#include "core/cuda/events.h"
#include "core/cuda/idle.h"
#include "core/cuda/capture.h"

enum { POINTS_MAX = 64 };

/* The point of one context. */
static struct point {
	CUcontext context;
	CUevent event;
	bool is_ahead; /* not known to have been passed */
} points[POINTS_MAX];
static size_t count;

static struct point *point_of(CUcontext context)
{
	for (size_t i = 0; i < count; i++) {
		if (points[i].context == context)
			return &points[i];
	}
	return NULL;
}

/* Makes the context's point of the fence, with the context current. */
static struct point *make_point(CUcontext context)
{
	struct point *p = &points[count];

	if (count == POINTS_MAX || !(p->event = events_take(context)))
		return NULL;
	p->context = context;
	p->is_ahead = false;
	count++;
	return p;
}

static bool set_in(CUcontext context)
{
	struct point *p;

	if (context_push(context) != CUDA_SUCCESS)
		return false;
	p = point_of(context);
	if (!p)
		p = make_point(context);
	if (p && capture_sync_enter()) {
		p->is_ahead = driver.cuCtxRecordEvent(context, p->event) == CUDA_SUCCESS;
		capture_sync_leave();
	} else {
		p = NULL;
	}
	context_pop(context);
	return p && p->is_ahead;
}

bool fence_set(void)
{
	unsigned int generation;
	struct context context;

	/* What is forgotten while the others are gone through may hide one. */
	do {
		generation = context_generation();
		for (size_t i = 0; context_at(i, &context); i++) {
			if (!set_in(context.handle))
				return false;
		}
	} while (generation != context_generation());
	return true;
}

static bool is_still_ahead(const struct point *p)
{
	CUresult result;

	if (!capture_sync_enter())
		return true;
	result = context_push(p->context);
	if (result == CUDA_SUCCESS) {
		result = driver.cuEventQuery(p->event);
		context_pop(p->context);
	} else if (context_is_leaving(p->context)) {
		result = CUDA_ERROR_NOT_READY; /* whoever destroys it waits for its work */
	}
	capture_sync_leave();
	return result == CUDA_ERROR_NOT_READY || idle_is_refused(result);
}

bool fence_has_passed(void)
{
	for (size_t i = 0; i < count; i++) {
		if (points[i].is_ahead && is_still_ahead(&points[i]))
			return false;
		points[i].is_ahead = false;
	}
	return true;
}

void fence_forget_context(CUcontext context)
{
	struct point *p = point_of(context);

	if (p)
		*p = points[--count];
}
