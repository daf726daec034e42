/* SPDX-License-Identifier: MIT */
/*
 * Quiet. Rules: runs inside the user's process.
 *
 * Streams are asked one by one, the legacy stream first, which disturbs nothing. Those we cannot
 * name (other threads' default streams, those of libraries) are waited for by cuCtxSynchronize on
 * another thread, once all known streams are done, and its late answer is ignored. An event in the
 * legacy stream would have made the program's streams wait for each other.
 */
#include "core/cuda/idle.h"

#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>

#include "core/base/deadline.h"
#include "core/base/thread.h"
#include "core/cuda/capture.h"

_Atomic bool blocking_streams;

enum { LOOK_NS = 20000, SEEN_MAX = 512 };
/* A thread that destroys a stream, or exits, waits so long for those that ask. */
#define LEAVES_NS 100000000ull

_Atomic bool idle_has_failed;

/* --- waiting --- */

/* Waits for the current context. */
static CUresult synchronize(void)
{
	CUresult result;
	int cancel;

	/* A thread that ended while it waits would leave memory that it frees. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (capture_sync_enter()) {
		result = driver.cuCtxSynchronize();
		capture_sync_leave();
	}
	pthread_setcancelstate(cancel, NULL);
	idle_note(result);
	return result;
}

CUresult idle_judge(const struct context *context, uint64_t now_ns)
{
	static _Atomic uint64_t asked[CONTEXT_DEVICES];
	_Atomic uint64_t *last = &asked[context->of->ordinal];
	uint64_t now = now_ns + (uintptr_t)context->handle;
	CUresult result;

	if (capture_is_active())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	if (atomic_load_explicit(last, memory_order_relaxed) == now &&
	    !atomic_load_explicit(&idle_has_failed, memory_order_relaxed))
		return CUDA_SUCCESS;
	if (!capture_sync_enter())
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	result = driver.cuStreamQuery(CU_STREAM_LEGACY);
	capture_sync_leave();
	if (result != CUDA_SUCCESS && result != CUDA_ERROR_NOT_READY && !idle_is_refused(result))
		return result;
	atomic_store_explicit(last, now, memory_order_relaxed);
	if (context_is_alone(context->handle))
		atomic_store_explicit(&idle_has_failed, false, memory_order_relaxed);
	return CUDA_SUCCESS;
}

static CUresult idle_wait_for(CUcontext context)
{
	CUcontext current = NULL;
	CUresult result;

	driver.cuCtxGetCurrent(&current);
	if (current == context)
		return synchronize();
	while ((result = context_push(context)) == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
		/*
		 * The driver, which is asked to destroy it, waits for its work; or says that it
		 * stays.
		 */
		if (!context_is_leaving(context))
			return CUDA_SUCCESS;
		deadline_sleep(LOOK_NS);
	}
	if (result != CUDA_SUCCESS)
		return result;
	result = synchronize();
	context_pop(context);
	return result;
}

bool idle_is_refused(CUresult result)
{
	return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
	       result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
}

/* Waits for all contexts but one. */
static CUresult wait_for_others(CUcontext own)
{
	CUresult result = CUDA_SUCCESS;
	struct context context;

	for (size_t i = 0; context_at(i, &context); i++) {
		CUresult waited =
		    context.handle == own ? CUDA_SUCCESS : idle_wait_for(context.handle);

		if (idle_is_refused(waited))
			return waited;
		if (result == CUDA_SUCCESS)
			result = waited;
	}
	return result;
}

CUresult idle_wait(CUcontext own)
{
	unsigned int generation;
	CUresult result;

	if (context_is_alone(own))
		return idle_wait_for(own);
	/* An entry that is forgotten during the walk may hide another. */
	do {
		generation = context_generation();
		result = wait_for_others(own);
	} while (!idle_is_refused(result) && generation != context_generation());
	return own && !idle_is_refused(result) ? idle_wait_for(own) : result;
}

/* --- queries, on any thread --- */

/* Threads that ask, and streams that are about to go: each is raised before the other is read. */
static _Atomic unsigned int asking, leaving;

bool idle_ask(void)
{
	atomic_fetch_add(&asking, 1);
	if (!atomic_load(&leaving) && capture_sync_enter())
		return true;
	atomic_fetch_sub(&asking, 1);
	return false;
}

void idle_asked(void)
{
	capture_sync_leave();
	atomic_fetch_sub(&asking, 1);
}

void idle_streams_leave(void)
{
	struct deadline until = DEADLINE_IN(LEAVES_NS);

	atomic_fetch_add(&leaving, 1);
	while (atomic_load(&asking) && deadline_nap(&until, LOOK_NS))
		;
}

void idle_streams_left(void)
{
	atomic_fetch_sub(&leaving, 1);
}

static bool is_seen_in(const struct context *context)
{
	uint64_t listed[SEEN_MAX];
	size_t count;
	bool is_idle;

	if (context_push(context->handle) != CUDA_SUCCESS)
		return true;
	/* Listed once the context stays: an earlier one's streams went with it. */
	count = registry_list_chained(context->of->registry, context->container, listed, SEEN_MAX);
	is_idle = driver.cuStreamQuery(CU_STREAM_LEGACY) != CUDA_ERROR_NOT_READY;
	for (size_t i = 0; is_idle && i < count && i < SEEN_MAX; i++)
		is_idle =
		    driver.cuStreamQuery((CUstream)(uintptr_t)listed[i]) != CUDA_ERROR_NOT_READY;
	context_pop(context->handle);
	return is_idle;
}

bool idle_is_seen(void)
{
	bool is_idle = true;
	struct context context;

	if (!idle_ask())
		return false;
	for (size_t i = 0; is_idle && context_at(i, &context); i++)
		is_idle = is_seen_in(&context);
	idle_asked();
	return is_idle;
}

/* --- the thread that waits --- */

static struct {
	bool started;
	sem_t asked;
	_Atomic uint32_t question, answer; /* numbers; the same when it has been answered */
	CUresult result;
} waiter;

static void *answer_questions(void *cookie)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	(void)cookie;
	pthread_setname_np(pthread_self(), "spillway-wait");
	driver.cuThreadExchangeStreamCaptureMode(&mode);
	for (;;) {
		uint32_t question;

		while (sem_wait(&waiter.asked) != 0)
			;
		question = atomic_load(&waiter.question);
		waiter.result = idle_wait(NULL);
		atomic_store(&waiter.answer, question);
	}
	return NULL;
}

static bool idle_start(void)
{
	if (waiter.started)
		return true;
	sem_init(&waiter.asked, 0, 0);
	waiter.started = thread_start(answer_questions) == 0;
	return waiter.started;
}

static bool idle_wait_for_answer(uint32_t question, uint64_t patience_ns)
{
	struct deadline until = DEADLINE_IN(patience_ns);

	while (atomic_load(&waiter.answer) != question) {
		if (!deadline_nap(&until, LOOK_NS))
			return false;
	}
	return true;
}

static enum idle idle_do_judge(CUresult result)
{
	return result == CUDA_SUCCESS ? IDLE : idle_is_refused(result) ? IDLE_BUSY : IDLE_BROKEN;
}

static enum idle ask_contexts(uint64_t patience_ns)
{
	uint32_t question = atomic_load(&waiter.question);

	/* Where an earlier question is not answered its work has not ended. */
	if (!idle_start() || atomic_load(&waiter.answer) != question)
		return IDLE_BUSY;
	atomic_store(&waiter.question, ++question);
	sem_post(&waiter.asked);
	return idle_wait_for_answer(question, patience_ns) ? idle_do_judge(waiter.result)
	                                                   : IDLE_BUSY;
}

/* The mover's: streams of the context at hand, as the registry lists them. */
static uint64_t *streams;
static size_t room;

/*
 * Returns how many are listed. Those that there is no memory for are waited for with their context.
 */
static size_t list_streams(const struct context *context)
{
	struct registry *registry = context->of->registry;
	size_t count = registry_list_chained(registry, context->container, streams, room);
	uint64_t *grown = count > room ? realloc(streams, 2 * count * sizeof(*grown)) : NULL;

	if (grown) {
		streams = grown;
		room = 2 * count;
		count = registry_list_chained(registry, context->container, streams, room);
	}
	return count < room ? count : room;
}

/* Asks the context's streams. One that the driver does not know any more runs nothing. */
static enum idle ask_streams_of(const struct context *context)
{
	size_t count = list_streams(context), i = 0;
	bool is_busy;

	if (context_push(context->handle) != CUDA_SUCCESS)
		return IDLE;
	is_busy = driver.cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY;
	while (!is_busy && i < count)
		is_busy =
		    driver.cuStreamQuery((CUstream)(uintptr_t)streams[i++]) == CUDA_ERROR_NOT_READY;
	context_pop(context->handle);
	return is_busy ? IDLE_BUSY : IDLE;
}

static enum idle ask_streams(void)
{
	enum idle idle = IDLE;
	struct context context;

	for (size_t i = 0; idle == IDLE && context_at(i, &context); i++)
		idle = ask_streams_of(&context);
	return idle;
}

enum idle idle_now(uint64_t patience_ns)
{
	enum idle streams_say = ask_streams();

	return streams_say == IDLE ? ask_contexts(patience_ns) : streams_say;
}
