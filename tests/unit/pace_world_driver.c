/* SPDX-License-Identifier: MIT */
/* The driver that core/pace and the programs of the world call. */
#include <stdlib.h>
#include <string.h>

#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "tests/unit/pace_world.h"

struct driver driver;

/* Handles are addresses of things that live as long as the world, so that wrong uses are seen. */
struct thing {
	struct thing *next;
};

static struct thing *things;

static void *make(size_t size)
{
	struct thing *t = calloc(1, sizeof(*t) + size);

	t->next = things;
	things = t;
	return t + 1;
}

static struct gpu_context *current_context(void)
{
	struct thread *t = world.running;
	struct gpu_context *c =
	    t->contexts ? (struct gpu_context *)t->current[t->contexts - 1] : NULL;

	return c && !c->is_destroyed ? c : NULL;
}

struct gpu_context *context_create(struct tenant *tenant)
{
	struct gpu_context *c = make(sizeof(*c));

	c->tenant = tenant;
	return c;
}

static struct stream *default_stream(struct gpu_context *context, struct thread *owner)
{
	struct tenant *t = context->tenant;
	struct stream *s;

	for (int i = 0; i < t->streams; i++) {
		if (t->stream[i]->context == context && t->stream[i]->owner == owner)
			return t->stream[i];
	}
	s = stream_create(context);
	s->owner = owner;
	return s;
}

struct stream *stream_of(CUstream handle)
{
	struct gpu_context *context = current_context();
	struct stream *s = (struct stream *)handle;

	if (!context)
		return NULL;
	if (!handle || handle == CU_STREAM_LEGACY)
		return default_stream(context, &world.thread[0]);
	if (handle == CU_STREAM_PER_THREAD)
		return default_stream(context, world.running);
	if (s->is_destroyed) {
		world_misuse("a destroyed stream");
		return NULL;
	}
	if (s->context != context) {
		world_misuse("a stream of another context");
		return NULL;
	}
	return s;
}

/* --- contexts --- */

static CUresult get_current(CUcontext *context)
{
	struct thread *t = world.running;

	*context = t->contexts ? t->current[t->contexts - 1] : NULL;
	return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
	struct gpu_context *c = current_context();

	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	*device = c->tenant->gpu->index;
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
	struct thread *t = world.running;

	if (((struct gpu_context *)context)->is_destroyed) {
		world_misuse("a destroyed context is made current");
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	}
	if (t->process && ((struct gpu_context *)context)->tenant->process != t->process)
		world_misuse("a context of another process");
	if (t->contexts == WORLD_CONTEXTS)
		world_fail("contexts are made current and never taken back");
	t->current[t->contexts++] = context;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
	struct thread *t = world.running;

	if (!t->contexts)
		return CUDA_ERROR_INVALID_CONTEXT;
	t->contexts--;
	if (context)
		*context = t->current[t->contexts];
	return CUDA_SUCCESS;
}

/* core/cuda/context.h's: contexts are borrowed before they are made current. */
CUresult context_push(CUcontext handle)
{
	if (((struct gpu_context *)handle)->is_destroyed)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return push(handle);
}

void context_pop(CUcontext handle)
{
	CUcontext popped = NULL;

	pop(&popped);
	if (popped != handle)
		world_misuse("another context is given back than was borrowed");
}

bool context_is_leaving(CUcontext handle)
{
	(void)handle;
	return false;
}

bool context_is_alone(CUcontext handle)
{
	(void)handle;
	return false;
}

unsigned int context_generation(void)
{
	return 0;
}

bool context_at(size_t i, struct context *found)
{
	static struct context_device devices[WORLD_DEVICES];
	struct process *p = world.running->process;

	for (int gpu = 0; p && gpu < WORLD_DEVICES; gpu++) {
		if (!p->context[gpu] || ((struct gpu_context *)p->context[gpu])->is_destroyed ||
		    i--)
			continue;
		devices[gpu].ordinal = gpu;
		*found = (struct context){
		    .handle = p->context[gpu], .device = &p->device[gpu], .of = &devices[gpu]};
		return true;
	}
	return false;
}

/* --- events --- */

static CUresult event_create(CUevent *event, unsigned int flags)
{
	struct gpu_context *c = current_context();
	struct event *e;

	(void)flags;
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	e = make(sizeof(*e));
	e->context = c;
	*event = (CUevent)e;
	world.running->owed_ns += world.settings.record_ns;
	return CUDA_SUCCESS;
}

struct event *gate_create(struct gpu_context *context)
{
	struct event *e = make(sizeof(*e));

	e->context = context;
	e->records = 1;
	return e;
}

static bool is_usable(const struct event *e)
{
	if (e->is_destroyed || e->context->is_destroyed) {
		world_misuse("a destroyed event");
		return false;
	}
	return true;
}

static CUresult event_destroy(CUevent event)
{
	struct event *e = (struct event *)event;

	if (!is_usable(e))
		return CUDA_ERROR_INVALID_HANDLE;
	e->is_destroyed = true;
	return CUDA_SUCCESS;
}

static CUresult event_record(CUevent event, CUstream stream)
{
	struct event *e = (struct event *)event;
	struct stream *s = stream_of(stream);

	if (!is_usable(e) || !s)
		return CUDA_ERROR_INVALID_HANDLE;
	if (e->context != s->context) {
		world_misuse("an event is recorded in another context");
		return CUDA_ERROR_INVALID_HANDLE;
	}
	e->records++;
	e->free_at = 0;
	stream_push(s, &(struct item){.kind = ITEM_EVENT,
	                              .from = world.now + world.settings.latency_ns,
	                              .event = e,
	                              .record = e->records});
	world.running->owed_ns += world.settings.record_ns;
	return CUDA_SUCCESS;
}

/*
 * Comes to pass when all has that the context was given; where that is nothing, as soon as the
 * device has seen it.
 */
static CUresult context_record(CUcontext context, CUevent event)
{
	struct event *e = (struct event *)event;
	const struct tenant *t = ((struct gpu_context *)context)->tenant;

	if (!is_usable(e) || (CUcontext)e->context != context)
		return CUDA_ERROR_INVALID_HANDLE;
	e->records++;
	e->parts = 0;
	for (int i = 0; i < t->streams; i++)
		e->parts += !t->stream[i]->is_destroyed &&
		            (CUcontext)t->stream[i]->context == context && t->stream[i]->count;
	e->free_at = e->parts ? 0 : world.now + world.settings.latency_ns;
	for (int i = 0; i < t->streams; i++)
		if (!t->stream[i]->is_destroyed && (CUcontext)t->stream[i]->context == context &&
		    t->stream[i]->count)
			stream_push(t->stream[i], &(struct item){.kind = ITEM_EVENT,
			                                         .from = world.now,
			                                         .event = e,
			                                         .record = e->records});
	world.running->owed_ns += world.settings.record_ns;
	return CUDA_SUCCESS;
}

static CUresult event_query(CUevent event)
{
	const struct event *e = (struct event *)event;

	if (!is_usable(e))
		return CUDA_ERROR_INVALID_HANDLE;
	world.running->owed_ns += world.settings.query_ns;
	return e->done == e->records || (e->free_at && world.now >= e->free_at)
	           ? CUDA_SUCCESS
	           : CUDA_ERROR_NOT_READY;
}

/* As hardware tells it: half microseconds, in a float. */
static CUresult event_elapsed(float *ms, CUevent begin, CUevent end)
{
	const struct event *a = (struct event *)begin, *b = (struct event *)end;

	if (!is_usable(a) || !is_usable(b) || a->context != b->context || !a->records ||
	    !b->records)
		return CUDA_ERROR_INVALID_HANDLE;
	world.running->owed_ns += world.settings.query_ns;
	if (a->done != a->records || b->done != b->records)
		return CUDA_ERROR_NOT_READY;
	*ms = (float)((double)((int64_t)(b->at / 500) - (int64_t)(a->at / 500)) / 2000);
	return CUDA_SUCCESS;
}

/* --- streams --- */

static CUresult stream_query(CUstream stream)
{
	struct stream *s = stream_of(stream);

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	world.running->owed_ns += world.settings.query_ns;
	return s->count ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult stream_new(CUstream *stream, unsigned int flags)
{
	struct gpu_context *c = current_context();

	(void)flags;
	if (!c)
		return CUDA_ERROR_INVALID_CONTEXT;
	*stream = (CUstream)stream_create(c);
	return CUDA_SUCCESS;
}

static CUresult stream_destroy(CUstream stream)
{
	struct stream *s = stream_of(stream);

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	s->is_destroyed = true;
	return CUDA_SUCCESS;
}

static CUresult stream_context(CUstream stream, CUcontext *context)
{
	struct stream *s = stream_of(stream);

	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	*context = (CUcontext)s->context;
	return CUDA_SUCCESS;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
	*mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
	return CUDA_SUCCESS;
}

static bool has_room(void *stream)
{
	return ((const struct stream *)stream)->kernels < world.settings.queue;
}

CUresult driver_launch(CUstream stream, const struct item *kernel)
{
	struct thread *self = world.running;
	struct stream *s;
	uint64_t cost = world.settings.launch_ns;
	struct item item = *kernel;

	s = stream_of(stream);
	if (!s)
		return CUDA_ERROR_INVALID_HANDLE;
	thread_work(random_between(&self->random, cost - cost / 4, cost + cost / 4));
	thread_wait_for("waits for room in the queue", s->context->tenant, has_room, s);
	item.kind = ITEM_KERNEL;
	item.from = world.now + world.settings.latency_ns;
	s->launched++;
	stream_push(s, &item);
	return CUDA_SUCCESS;
}

void driver_start(void)
{
	driver = (struct driver){
	    .cuCtxGetCurrent = get_current,
	    .cuCtxGetDevice = get_device,
	    .cuCtxPushCurrent_v2 = push,
	    .cuCtxPopCurrent_v2 = pop,
	    .cuEventCreate = event_create,
	    .cuEventDestroy_v2 = event_destroy,
	    .cuEventRecord = event_record,
	    .cuCtxRecordEvent = context_record,
	    .cuEventQuery = event_query,
	    .cuEventElapsedTime = event_elapsed,
	    .cuStreamQuery = stream_query,
	    .cuStreamCreate = stream_new,
	    .cuStreamDestroy_v2 = stream_destroy,
	    .cuStreamGetCtx = stream_context,
	    .cuThreadExchangeStreamCaptureMode = exchange_mode,
	};
}

void driver_end(void)
{
	while (things) {
		struct thing *next = things->next;

		free(things);
		things = next;
	}
}
