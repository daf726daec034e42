/* SPDX-License-Identifier: MIT */
/*
 * Questions on waits. Which work does a query of the default stream see? Which calls of memory
 * management wait for running work? Which calls may another thread make while a stream is captured?
 */
#include "tests/gpu/probe.h"

#include "tests/clients/program.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { BUSY_MS = 120, WAITED_MS = BUSY_MS / 2, A_MOMENT_MS = 20 };

/* --- a stream that is busy for a while --- */

static volatile unsigned *go; /* of the host */
static pthread_t timer;
static CUstream blocking, idle;
static CUevent recorded;

static void *let_go(void *unused)
{
	(void)unused;
	usleep(BUSY_MS * 1000);
	*go = 1;
	return NULL;
}

/* Ends by itself, whatever the driver has this thread wait for. */
static void busy_begin(CUstream on)
{
	CUfunction wait_for = gpu_kernel("wait_for");
	const volatile unsigned *argument = go;

	*go = 0;
	if (pthread_create(&timer, NULL, let_go, NULL) != 0)
		program_die("pthread_create failed");
	ATTEMPT(cuLaunchKernel(wait_for, 1, 1, 1, 1, 1, 1, 0, on, (void *[]){&argument}, NULL));
	usleep(A_MOMENT_MS * 1000); /* it runs */
}

static void busy_end(CUstream on)
{
	pthread_join(timer, NULL);
	ATTEMPT(cuStreamSynchronize(on));
}

/* --- queries of the default stream --- */

/* Makes what the questions of this file need, as the beginning of an attempt. */
static void waits_open(void)
{
	attempt_begin();
	ATTEMPT(cuMemHostAlloc((void **)&go, sizeof(*go), 0));
	ATTEMPT(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	ATTEMPT(cuStreamCreate(&idle, CU_STREAM_NON_BLOCKING));
	ATTEMPT(cuEventCreate(&recorded, CU_EVENT_DISABLE_TIMING));
	ATTEMPT(cuEventRecord(recorded, idle));
	ATTEMPT(cuStreamSynchronize(idle));
}

/* The stream is named by where it is kept, because it is made in the process that asks. */
static void ask_query(const char *question, const CUstream *kept)
{
	CUresult seen;

	waits_open();
	if (attempt_failed(question))
		return;
	CUstream busy = *kept;
	busy_begin(busy);
	seen = gpu.cuStreamQuery(CU_STREAM_LEGACY);
	busy_end(busy);
	if (!attempt_failed(question))
		answer(question, seen == CUDA_ERROR_NOT_READY ? "yes" : "no",
		       "cuStreamQuery of the legacy stream: %s", gpu_error_name(seen));
}

static void ask_queries(void)
{
	static const CUstream per_thread = CU_STREAM_PER_THREAD;
	static const struct {
		const char *question;
		const CUstream *busy;
	} asked[] = {
	    {"legacy_query_sees_blocking_stream", &blocking},
	    {"legacy_query_sees_per_thread_stream", &per_thread},
	    {"legacy_query_sees_nonblocking_stream", &stream},
	};

	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		ASK(asked[i].question, ask_query(asked[i].question, asked[i].busy));
}

/* --- memory management beside running work --- */

enum call { RESERVE, CREATE, MAP, SET_ACCESS, UNMAP, RELEASE, UNRESERVE, ALLOC, FREE, CALLS };
static const char *const call_names[CALLS] = {"cuMemAddressReserve", "cuMemCreate", "cuMemMap",
                                              "cuMemSetAccess",      "cuMemUnmap",  "cuMemRelease",
                                              "cuMemAddressFree",    "cuMemAlloc",  "cuMemFree"};

struct memory {
	CUdeviceptr base, plain;
	CUmemGenericAllocationHandle handle;
};

static void make_call(enum call call, char backing, struct memory *m)
{
	CUmemAllocationProp properties = range_properties(backing);
	CUmemAccessDesc access = range_access();

	switch (call) {
	case RESERVE:
		ATTEMPT(cuMemAddressReserve(&m->base, small_chunk, 0, 0, 0));
		break;
	case CREATE:
		ATTEMPT(cuMemCreate(&m->handle, small_chunk, &properties, 0));
		break;
	case MAP:
		ATTEMPT(cuMemMap(m->base, small_chunk, 0, m->handle, 0));
		break;
	case SET_ACCESS:
		ATTEMPT(cuMemSetAccess(m->base, small_chunk, &access, 1));
		break;
	case UNMAP:
		ATTEMPT(cuMemUnmap(m->base, small_chunk));
		break;
	case RELEASE:
		ATTEMPT(cuMemRelease(m->handle));
		break;
	case UNRESERVE:
		ATTEMPT(cuMemAddressFree(m->base, small_chunk));
		break;
	case ALLOC:
		ATTEMPT(cuMemAlloc(&m->plain, small_chunk));
		break;
	case FREE:
		ATTEMPT(cuMemFree(m->plain));
		break;
	case CALLS:
		break;
	}
}

/* The calls in their order, each beside a kernel of its own that does not use the memory. */
static void ask_who_waits(const char *question, char backing)
{
	char waited[256] = "";
	struct memory memory = {0};
	size_t used = 0;

	waits_open();
	for (enum call call = 0; call < CALLS; call++) {
		double start;

		busy_begin(stream);
		start = program_now_ms();
		make_call(call, backing, &memory);
		if (program_now_ms() - start > WAITED_MS)
			used += (size_t)snprintf(waited + used, sizeof(waited) - used, "%s%s",
			                         used ? ", " : "", call_names[call]);
		busy_end(stream);
	}
	if (!attempt_failed(question))
		answer(question, used ? waited : "none",
		       "of nine calls beside a kernel of %d ms in a non-blocking stream", BUSY_MS);
}

/* --- other threads during a capture --- */

struct other {
	void (*act)(CUresult *result);
	CUresult result;
};

static void synchronize(CUresult *result)
{
	*result = gpu.cuCtxSynchronize();
}

static void query_stream(CUresult *result)
{
	*result = gpu.cuStreamQuery(idle);
}

static void query_legacy(CUresult *result)
{
	*result = gpu.cuStreamQuery(CU_STREAM_LEGACY);
}

static void query_event(CUresult *result)
{
	*result = gpu.cuEventQuery(recorded);
}

static void wait_for_stream(CUresult *result)
{
	*result = gpu.cuStreamSynchronize(idle);
}

static void map_and_unmap(CUresult *result)
{
	CUmemAllocationProp properties = range_properties('d');
	CUmemAccessDesc access = range_access();
	struct memory m = {0};

	*result = gpu.cuMemAddressReserve(&m.base, small_chunk, 0, 0, 0);
	if (*result == CUDA_SUCCESS)
		*result = gpu.cuMemCreate(&m.handle, small_chunk, &properties, 0);
	if (*result == CUDA_SUCCESS)
		*result = gpu.cuMemMap(m.base, small_chunk, 0, m.handle, 0);
	if (*result == CUDA_SUCCESS)
		*result = gpu.cuMemSetAccess(m.base, small_chunk, &access, 1);
	if (*result == CUDA_SUCCESS)
		*result = gpu.cuMemUnmap(m.base, small_chunk);
	if (m.handle)
		gpu.cuMemRelease(m.handle);
	if (m.base)
		gpu.cuMemAddressFree(m.base, small_chunk);
}

static void query_memory(CUresult *result)
{
	size_t available, total;

	*result = gpu.cuMemGetInfo(&available, &total);
}

/* As threads of Spillway's are: what they do is no part of any capture. */
static void *act_relaxed(void *cookie)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct other *other = cookie;

	other->result = gpu.cuCtxSetCurrent(context);
	if (other->result == CUDA_SUCCESS)
		other->result = gpu.cuThreadExchangeStreamCaptureMode(&mode);
	if (other->result == CUDA_SUCCESS)
		other->act(&other->result);
	return NULL;
}

/* before: the other thread's call has begun, and waits for a kernel, when the capture begins. */
static void ask_capture(const char *question, void (*act)(CUresult *result),
                        CUstreamCaptureMode mode, bool before)
{
	struct other other = {act, CUDA_SUCCESS};
	CUdeviceptr word = 0;
	CUgraph graph = NULL;
	pthread_t thread;
	CUresult ended;

	waits_open();
	ATTEMPT(cuMemAlloc(&word, sizeof(unsigned)));
	if (before)
		busy_begin(idle);
	else
		ATTEMPT(cuStreamBeginCapture(stream, mode));
	if (pthread_create(&thread, NULL, act_relaxed, &other) != 0)
		program_die("pthread_create failed");
	if (before) {
		usleep(A_MOMENT_MS * 1000); /* it waits */
		ATTEMPT(cuStreamBeginCapture(stream, mode));
	}
	pthread_join(thread, NULL);
	ATTEMPT(cuMemsetD32Async(word, 1, 1, stream));
	ended = gpu.cuStreamEndCapture(stream, &graph);
	if (before)
		pthread_join(timer, NULL);
	/* A capture that broke makes the attempt fail, which is the answer. */
	if (attempt.result == CUDA_SUCCESS || ended != CUDA_SUCCESS)
		answer(question,
		       attempt.result == CUDA_SUCCESS && ended == CUDA_SUCCESS ? "yes" : "no",
		       "the other thread: %s; the capture's end: %.40s",
		       gpu_error_name(other.result),
		       ended == CUDA_SUCCESS ? "good" : "invalidated");
	else
		attempt_failed(question);
	if (graph)
		gpu.cuGraphDestroy(graph);
	gpu.cuMemFree(word);
}

static void ask_captures(void)
{
	static const struct {
		const char *name;
		CUstreamCaptureMode mode;
	} modes[] = {{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
	             {"thread_local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
	             {"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED}};
	static const struct {
		const char *what;
		void (*act)(CUresult *result);
		bool before;
	} acts[] = {{"synchronize_begun_before", synchronize, true},
	            {"synchronize", synchronize, false},
	            {"stream_wait", wait_for_stream, false},
	            {"stream_query", query_stream, false},
	            {"legacy_query", query_legacy, false},
	            {"event_query", query_event, false},
	            {"mapping", map_and_unmap, false},
	            {"memory_query", query_memory, false}};
	char question[96];

	for (size_t a = 0; a < sizeof(acts) / sizeof(*acts); a++)
		for (size_t m = 0; m < sizeof(modes) / sizeof(*modes); m++) {
			snprintf(question, sizeof(question), "%s_capture_survives_%s",
			         modes[m].name, acts[a].what);
			ASK(question,
			    ask_capture(question, acts[a].act, modes[m].mode, acts[a].before));
		}
}

void ask_waits(void)
{
	ask_queries();
	ASK("device_calls_that_wait_for_work",
	    ask_who_waits("device_calls_that_wait_for_work", 'd'));
	ASK("host_calls_that_wait_for_work", ask_who_waits("host_calls_that_wait_for_work", 'h'));
	ask_captures();
}
