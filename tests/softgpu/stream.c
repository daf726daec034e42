/* SPDX-License-Identifier: MIT */
/*
 * Streams: queues of work, each run in order by a thread of its own.
 *
 * Work names the work before it when it is queued. That is a mark (cuStreamWaitEvent), and between
 * the legacy stream and the blocking streams of its context all work that was queued there before.
 * Such waits only point to earlier work, so they cannot form a circle.
 */
#include "tests/softgpu/driver.h"

#include <signal.h>
#include <stdlib.h>

#include "tests/softgpu/capture.h"
#include "tests/softgpu/machine.h"

/*
 * Broadcast when work is done for which a thread waits: a mark, the last work of a stream, or a
 * ticket that is wanted. For example, of a graph of 300 kernels the last one wakes the thread that
 * waits for it. Threads that woke after each kernel took the processors that run the kernels.
 */
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;

void wait_for_progress(void)
{
	pthread_cond_wait(&progress, &driver_lock);
}

void announce_progress(void)
{
	pthread_cond_broadcast(&progress);
}

bool stream_reached(const struct stream *stream, uint64_t ticket)
{
	return stream->done >= ticket;
}

bool stream_idle(struct stream *stream)
{
	return stream_reached(stream, stream->issued);
}

/* Has the end of the work with that ticket announced. */
static void want(struct stream *stream, uint64_t ticket)
{
	if (!stream_reached(stream, ticket) && (!stream->wanted || ticket < stream->wanted))
		stream->wanted = ticket;
}

void stream_wait_for(struct stream *stream, uint64_t ticket)
{
	stream_reference(stream);
	while (!stream_reached(stream, ticket)) {
		want(stream, ticket);
		wait_for_progress();
	}
	stream_unreference(stream);
}

void stream_reference(struct stream *stream)
{
	stream->references++;
}

void stream_unreference(struct stream *stream)
{
	if (--stream->references == 0) {
		pthread_cond_destroy(&stream->has_work);
		handle_free(stream);
	}
}

struct stream *stream_create(struct context *context, unsigned int flags, int priority)
{
	static unsigned long long last_id;
	struct stream *stream = calloc(1, sizeof(*stream));
	if (!stream)
		return NULL;
	if (!handle_add(&stream->handle, HANDLE_STREAM)) {
		free(stream);
		return NULL;
	}
	pthread_cond_init(&stream->has_work, NULL);
	stream->context = context;
	stream->id = ++last_id;
	stream->flags = flags;
	stream->priority = priority;
	stream->references = 1;
	DL_APPEND(context->streams, stream);
	return stream;
}

/* Ends a stream that has been closed and has nothing left to do. */
static void stream_end(struct stream *stream)
{
	DL_DELETE(stream->context->streams, stream);
	stream_unreference(stream);
}

void stream_close(struct stream *stream)
{
	capture_forget_stream(stream);
	handle_remove(&stream->handle);
	stream->closing = true;
	if (stream->started)
		pthread_cond_signal(&stream->has_work); /* its thread ends it */
	else
		stream_end(stream);
}

void work_free(struct work *work)
{
	if (work->release)
		work->release(work);
	for (int i = 0; i < work->dependency_count; i++)
		stream_unreference(work->dependencies[i].stream);
	free(work->dependencies);
	if (work->wait)
		mark_release(work->wait);
	if (work->mark)
		mark_release(work->mark);
	free(work);
}

static bool is_ready(const struct work *work)
{
	if (work->wait && !work->wait->done)
		return false;
	for (int i = 0; i < work->dependency_count; i++)
		if (!stream_reached(work->dependencies[i].stream, work->dependencies[i].ticket))
			return false;
	return true;
}

bool stream_has_next(const struct work *work, CUresult (*run)(struct work *, CUresult))
{
	pthread_mutex_lock(&driver_lock);
	const struct work *next = work->next;
	while (next && !next->run && is_ready(next)) /* it takes no time */
		next = next->next;
	bool has_next = next && next->run == run && is_ready(next);
	pthread_mutex_unlock(&driver_lock);
	return has_next;
}

static void run(struct stream *stream, struct work *work)
{
	struct context *context = stream->context;
	CUresult broken = context->error;
	if (work->run && (broken == CUDA_SUCCESS || work->even_if_broken)) {
		pthread_mutex_unlock(&driver_lock);
		CUresult result = work->run(work, broken);
		if (!work->end_ns)
			work->end_ns = now_ns();
		pthread_mutex_lock(&driver_lock);
		if (result != CUDA_SUCCESS && context->error == CUDA_SUCCESS)
			context->error = result;
	} else if (work->run) {
		slice_drop(context->device->machine_index);
	}
	stream->free_ns = work->end_ns > work->start_ns ? work->end_ns : work->start_ns;
	if (work->mark) {
		work->mark->time_ns = stream->free_ns;
		work->mark->done = true;
	}
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Returns when the work could begin; waited: it had to wait for another stream until now. */
static uint64_t start_of(const struct stream *stream, const struct work *work, bool waited)
{
	uint64_t start = later(work->queued_ns, stream->free_ns);
	if (work->wait)
		start = later(start, work->wait->time_ns);
	return waited && work->dependency_count ? later(start, now_ns()) : start;
}

static void *work_through(void *argument)
{
	struct stream *stream = argument;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); /* by a function of the host */
	slice_wakes_on_time();
	pthread_mutex_lock(&driver_lock);
	for (;;) {
		while (!stream->queue && !stream->closing)
			pthread_cond_wait(&stream->has_work, &driver_lock);
		struct work *work = stream->queue;
		if (!work)
			break;
		bool waited = false;
		for (; !is_ready(work); waited = true) {
			for (int i = 0; i < work->dependency_count; i++)
				want(work->dependencies[i].stream, work->dependencies[i].ticket);
			wait_for_progress();
		}
		work->start_ns = start_of(stream, work, waited);
		run(stream, work);
		DL_DELETE(stream->queue, work);
		stream->done = work->ticket;
		if (work->mark || !stream->queue ||
		    (stream->wanted && stream->done >= stream->wanted)) {
			stream->wanted = 0;
			announce_progress();
		}
		work_free(work);
	}
	stream_end(stream);
	pthread_mutex_unlock(&driver_lock);
	return NULL;
}

/* The application's signals are for its own threads; faults are not to be held back. */
static bool start_worker(struct stream *stream)
{
	sigset_t most, before;
	sigfillset(&most);
	sigdelset(&most, SIGSEGV);
	sigdelset(&most, SIGBUS);
	sigdelset(&most, SIGFPE);
	sigdelset(&most, SIGILL);
	sigdelset(&most, SIGTRAP);
	pthread_sigmask(SIG_SETMASK, &most, &before);
	pthread_t thread;
	int failed = pthread_create(&thread, NULL, work_through, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (failed)
		return false;
	pthread_detach(thread);
	stream->started = true;
	return true;
}

static bool synchronises(const struct stream *a, const struct stream *b)
{
	return a != b && (a->legacy || b->legacy) && !(a->flags & CU_STREAM_NON_BLOCKING) &&
	       !(b->flags & CU_STREAM_NON_BLOCKING);
}

bool work_depend(struct work *work, struct stream *stream, uint64_t ticket)
{
	struct dependency *dependencies = realloc(
	    work->dependencies, ((size_t)work->dependency_count + 1) * sizeof(*work->dependencies));
	if (!dependencies)
		return false;
	work->dependencies = dependencies;
	stream_reference(stream);
	dependencies[work->dependency_count++] =
	    (struct dependency){.stream = stream, .ticket = ticket};
	return true;
}

/* Makes the work wait for what the default stream's rules put before it. */
static bool order_after_others(struct stream *stream, struct work *work)
{
	struct stream *other;
	DL_FOREACH (stream->context->streams, other) {
		if (synchronises(stream, other) && !stream_idle(other) &&
		    !work_depend(work, other, other->issued))
			return false;
	}
	return true;
}

CUresult stream_submit(struct stream *stream, struct work *work)
{
	CUresult result = capture_check_queue(stream);
	if (result == CUDA_SUCCESS && !order_after_others(stream, work))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS && !stream->started && !start_worker(stream))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		work_free(work);
		return result;
	}
	work->ticket = ++stream->issued;
	work->queued_ns = now_ns();
	DL_APPEND(stream->queue, work);
	pthread_cond_signal(&stream->has_work);
	return CUDA_SUCCESS;
}

CUresult stream_wait(struct stream *stream)
{
	struct context *context = stream->context;
	CUresult refused = capture_check_queue(stream);
	if (refused != CUDA_SUCCESS)
		return refused;
	if (stream->legacy) {
		/* An empty entry waits for all blocking streams as any work there would. */
		struct work *work = calloc(1, sizeof(*work));
		CUresult result = work ? stream_submit(stream, work) : CUDA_ERROR_OUT_OF_MEMORY;
		if (result != CUDA_SUCCESS)
			return result;
	}
	stream_wait_for(stream, stream->issued);
	return context->error;
}

static struct stream *own_stream(struct context *context)
{
	struct thread *thread = this_thread();
	struct stream *stream;
	DL_FOREACH (context->streams, stream) {
		if (stream->owner == thread && !stream->closing)
			return stream;
	}
	stream = stream_create(context, CU_STREAM_DEFAULT, 0);
	if (stream)
		stream->owner = thread;
	return stream;
}

struct stream *stream_find(struct context *context, CUstream handle)
{
	if (handle == NULL || handle == CU_STREAM_LEGACY)
		return context->legacy;
	if (handle == CU_STREAM_PER_THREAD)
		return own_stream(context);
	struct stream *stream = handle_find(handle, HANDLE_STREAM);
	return stream && stream->context->alive ? stream : NULL;
}
