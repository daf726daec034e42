/* SPDX-License-Identifier: MIT */
/* Events, stream points, the fence. Rules: runs inside the user's process; never waits. */
#include "core/cuda/events.h"

#include <stdatomic.h>
#include <stddef.h>

#include "core/base/lock.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/idle.h"

enum { KEPT_MAX = 256 };

static LOCK_OF(LEAF) lock = LOCK_FREE;
static struct {
	CUcontext context;
	CUevent event;
} kept[KEPT_MAX];
static size_t count;

/* Takes a kept event of the context; with the lock held. Returns NULL when none is kept. */
static CUevent take_kept(CUcontext context)
{
	for (size_t i = count; i-- > 0;) {
		if (kept[i].context == context) {
			CUevent event = kept[i].event;

			kept[i] = kept[--count];
			return event;
		}
	}
	return NULL;
}

CUevent events_take(CUcontext context)
{
	CUevent event;

	lock_acquire(&lock);
	event = take_kept(context);
	lock_release(&lock);
	if (!event && driver.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		return NULL;
	return event;
}

/* Gives one back that is waited for no more; NULL is fine. Its context may be any. */
static void events_give(CUcontext context, CUevent event)
{
	bool is_kept;

	if (!event)
		return;
	lock_acquire(&lock);
	is_kept = count < KEPT_MAX;
	if (is_kept) {
		kept[count].context = context;
		kept[count++].event = event;
	}
	lock_release(&lock);
	if (!is_kept)
		driver.cuEventDestroy_v2(event);
}

void events_forget_context(CUcontext context)
{
	lock_acquire(&lock);
	while (take_kept(context))
		;
	lock_release(&lock);
}

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

enum { POINTS_MAX = 64 };

/* The point of one context. */
static struct point {
	CUcontext context;
	CUevent event;
	bool is_ahead; /* not known to have been passed */
} points[POINTS_MAX];
static size_t fence_count;

static struct point *point_of(CUcontext context)
{
	for (size_t i = 0; i < fence_count; i++) {
		if (points[i].context == context)
			return &points[i];
	}
	return NULL;
}

/* Makes the context's point of the fence, with the context current. */
static struct point *make_point(CUcontext context)
{
	struct point *p = &points[fence_count];

	if (fence_count == POINTS_MAX || !(p->event = events_take(context)))
		return NULL;
	p->context = context;
	p->is_ahead = false;
	fence_count++;
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

	/* An entry that is forgotten during the walk may hide another. */
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
		result = CUDA_ERROR_NOT_READY; /* the thread that destroys it waits for its work */
	}
	capture_sync_leave();
	return result == CUDA_ERROR_NOT_READY || idle_is_refused(result);
}

bool fence_has_passed(void)
{
	for (size_t i = 0; i < fence_count; i++) {
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
		*p = points[--fence_count];
}
