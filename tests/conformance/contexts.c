/* SPDX-License-Identifier: MIT */
/* The context stack of a thread, primary contexts and how often they are retained. */
#include "tests/conformance/transcript.h"

#include <pthread.h>

static CUcontext primary, created;

static const char *name_of(CUcontext context)
{
	return !context             ? "none"
	       : context == primary ? "the primary"
	       : context == created ? "the created"
	                            : "another";
}

static void tell_current(const char *question)
{
	CUcontext current = NULL;

	TELL_VALUE(question, cuCtxGetCurrent(&current), "%s", name_of(current));
}

static void tell_primary(const char *question)
{
	unsigned flags = 99;
	int active = 99;

	TELL_VALUE(question, cuDevicePrimaryCtxGetState(0, &flags, &active), "flags %u, active %d",
	           flags, active);
}

static void ask_without_context(void)
{
	CUdevice device = 99;
	CUdeviceptr memory;
	CUcontext popped;
	CUstream stream;
	size_t least, total;

	tell_current("current at the start");
	tell_status("cuMemAlloc without a context", cuMemAlloc(&memory, 4096));
	tell_status("cuMemGetInfo without a context", cuMemGetInfo(&least, &total));
	tell_status("cuStreamCreate without a context", cuStreamCreate(&stream, 0));
	tell_status("cuCtxSynchronize without a context", cuCtxSynchronize());
	tell_status("cuCtxGetDevice without a context", cuCtxGetDevice(&device));
	tell_status("cuCtxPopCurrent without a context", cuCtxPopCurrent(&popped));
	tell_status("cuCtxSetCurrent(NULL) without a context", cuCtxSetCurrent(NULL));
	tell_status("cuCtxDestroy(NULL)", cuCtxDestroy(NULL));
}

static void ask_primary(void)
{
	CUcontext again = NULL;
	CUdeviceptr memory;

	tell_status("release what was never retained", cuDevicePrimaryCtxRelease(0));
	tell_primary("primary before it is retained");
	tell_status("retain on device 1000", cuDevicePrimaryCtxRetain(&again, 1000));
	tell_status("retain into NULL", cuDevicePrimaryCtxRetain(NULL, 0));
	CU(cuDevicePrimaryCtxRetain(&primary, 0));
	tell_current("current after retaining");
	tell_primary("primary once retained");
	TELL_VALUE("retain again", cuDevicePrimaryCtxRetain(&again, 0), "%s", name_of(again));
	tell_status("release the first", cuDevicePrimaryCtxRelease(0));
	tell_primary("primary still retained once");
	CU(cuCtxSetCurrent(primary));
	tell_status("allocate in it", cuMemAlloc(&memory, MIB));
	tell_status("cuCtxDestroy of the primary", cuCtxDestroy(primary));
	tell_status("release the last", cuDevicePrimaryCtxRelease(0));
	tell_primary("primary no longer retained");
	tell_current("current after the release");
	tell_status("allocate after the release", cuMemAlloc(&memory, MIB));
	tell_status("release once too often", cuDevicePrimaryCtxRelease(0));
	CU(cuCtxSetCurrent(NULL));
	CU(cuDevicePrimaryCtxRetain(&primary, 0));
	CU(cuCtxSetCurrent(primary));
	tell_status("allocate once retained anew", cuMemAlloc(&memory, MIB));
	tell_status("reset", cuDevicePrimaryCtxReset(0));
	tell_status("free after the reset", cuMemFree(memory));
	CU(cuCtxSetCurrent(NULL));
	tell_status("release after the reset", cuDevicePrimaryCtxRelease(0));
}

static void ask_stack(void)
{
	CUcontext popped = NULL;
	CUdevice device = 99;
	unsigned version = 0, flags = 99;
	unsigned long long id = 0, other_id = 0;

	CU(cuDevicePrimaryCtxRetain(&primary, 0));
	CU(cuCtxCreate(&created, NULL, CU_CTX_SCHED_BLOCKING_SYNC, 0));
	tell_current("current after creating");
	TELL_VALUE("flags of the created", cuCtxGetFlags(&flags), "%s",
	           flags & CU_CTX_SCHED_BLOCKING_SYNC ? "blocking" : "others");
	TELL_VALUE("its device", cuCtxGetDevice(&device), "%d", device);
	TELL_VALUE("its version", cuCtxGetApiVersion(created, &version), "%s",
	           version >= 3020 ? "3020 or newer" : "older");
	tell_status("push the primary", cuCtxPushCurrent(primary));
	tell_current("current after pushing");
	CU(cuCtxGetId(NULL, &id));
	CU(cuCtxGetId(created, &other_id));
	tell_bool("contexts have different ids", id != other_id);
	tell_status("push the primary again", cuCtxPushCurrent(primary));
	TELL_VALUE("pop", cuCtxPopCurrent(&popped), "%s", name_of(popped));
	tell_current("current after popping");
	tell_status("set the created over the primary", cuCtxSetCurrent(created));
	TELL_VALUE("pop it", cuCtxPopCurrent(&popped), "%s", name_of(popped));
	tell_current("below it");
	tell_status("set none", cuCtxSetCurrent(NULL));
	tell_current("current after setting none");
	tell_status("push NULL", cuCtxPushCurrent(NULL));

	CU(cuCtxPushCurrent(primary));
	CU(cuCtxPushCurrent(created));
	tell_status("destroy the current", cuCtxDestroy(created));
	tell_current("current after destroying it");
	CU(cuCtxSetCurrent(NULL));
	CU(cuDevicePrimaryCtxRelease(0));
	tell_status("create with two kinds of waiting",
	            cuCtxCreate(&created, NULL, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, 0));
	tell_status("create on device 1000", cuCtxCreate(&created, NULL, 0, 1000));
}

static void *look_from_a_thread(void *unused)
{
	CUdeviceptr memory;

	(void)unused;
	tell_current("current in a new thread");
	CU(cuCtxSetCurrent(created));
	TELL_VALUE("allocate in the same context from a thread", cuMemAlloc(&memory, 4096), "%s",
	           memory ? "some" : "none");
	return NULL;
}

/* The context is destroyed while this thread has it. */
static void *keep_current(void *barrier)
{
	CUdeviceptr memory;

	CU(cuCtxSetCurrent(created));
	pthread_barrier_wait(barrier);
	pthread_barrier_wait(barrier);
	tell_status("allocate in a context that another thread destroyed",
	            cuMemAlloc(&memory, 4096));
	return NULL;
}

static void ask_threads(void)
{
	pthread_t thread;
	pthread_barrier_t barrier;

	CU(cuCtxCreate(&created, NULL, 0, 0));
	pthread_create(&thread, NULL, look_from_a_thread, NULL);
	pthread_join(thread, NULL);
	tell_current("current in the first thread");
	pthread_barrier_init(&barrier, NULL, 2);
	pthread_create(&thread, NULL, keep_current, &barrier);
	pthread_barrier_wait(&barrier);
	CU(cuCtxDestroy(created));
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	pthread_barrier_destroy(&barrier);
}

static void ask_flags(void)
{
	tell_status("set flags of the primary",
	            cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
	unsigned flags = 99;
	int active = 99;
	CU(cuDevicePrimaryCtxGetState(0, &flags, &active));
	tell("flags of the primary", "%s, active %d",
	     flags & CU_CTX_SCHED_BLOCKING_SYNC ? "blocking" : "others", active);
	tell_status("set unknown flags of the primary", cuDevicePrimaryCtxSetFlags(0, 0xffffff00));
}

int main(void)
{
	CU(cuInit(0));
	ask_without_context();
	ask_primary();
	ask_stack();
	ask_threads();
	ask_flags();
	return 0;
}
