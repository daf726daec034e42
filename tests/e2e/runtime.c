/* SPDX-License-Identifier: MIT */
/*
 * A runtime library of one CUDA version, RUNTIME = 11080, 12040 or 13000: like NVIDIA's it opens
 * libcuda.so.1 and keeps the pointers to itself. It asks cuGetProcAddress, in the form of its time,
 * for each function at the version that it knows. STREAMS = 2: its default stream is the thread's
 * own. See data/cudart_requests.tsv; the versions of an application's own requests (cuCtxCreate
 * from 11.4 and 12.5 on) are among them.
 */
#define __CUDA_API_VERSION_INTERNAL
#include "tests/e2e/runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef RUNTIME
#define RUNTIME 13000
#endif
#ifndef STREAMS
#define STREAMS 0
#endif

/* The forms that the versions asked for have: nobody compares parameters. */
static struct {
	CUresult (*init)(unsigned int);
	CUresult (*context_set)(CUcontext);
	CUresult (*context_destroy)(CUcontext);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*alloc_async)(CUdeviceptr *, size_t, CUstream);
	CUresult (*free)(CUdeviceptr);
	CUresult (*free_async)(CUdeviceptr, CUstream);
	CUresult (*fill)(CUdeviceptr, unsigned int, size_t);
	CUresult (*read)(void *, CUdeviceptr, size_t);
	CUresult (*module_load)(CUmodule *, const void *);
	CUresult (*module_function)(CUfunction *, CUmodule, const char *);
	CUresult (*launch)(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
	                   unsigned int, unsigned int, unsigned int, CUstream, void **, void **);
	CUresult (*stream_create)(CUstream *, unsigned int);
	CUresult (*stream_destroy)(CUstream);
	CUresult (*stream_wait)(CUstream);
	CUresult (*capture_end)(CUstream, CUgraph *);
	CUresult (*graph_launch)(CUgraphExec, CUstream);
	CUresult (*graph_destroy)(CUgraph);
	CUresult (*exec_destroy)(CUgraphExec);
#if RUNTIME >= 13000
	CUresult (*context_create)(CUcontext *, CUctxCreateParams *, unsigned int, CUdevice);
	CUresult (*capture_begin)(CUstream, CUstreamCaptureMode);
	CUresult (*instantiate)(CUgraphExec *, CUgraph, CUDA_GRAPH_INSTANTIATE_PARAMS *);
#elif RUNTIME >= 12000
	CUresult (*context_create)(CUcontext *, CUexecAffinityParam *, int, unsigned int, CUdevice);
	CUresult (*capture_begin)(CUstream, CUstreamCaptureMode);
	CUresult (*instantiate)(CUgraphExec *, CUgraph, unsigned long long);
#else
	CUresult (*context_create)(CUcontext *, unsigned int, CUdevice);
	CUresult (*capture_begin)(CUstream);
	CUresult (*instantiate)(CUgraphExec *, CUgraph, CUgraphNode *, char *, size_t);
#endif
} driver;

static void fail(const char *what, int result)
{
	printf("runtime %d: %s: %d\n", RUNTIME, what, result);
	exit(1);
}

static void check(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS)
		fail(what, (int)result);
}
#define CHECK(call) check(driver.call, #call)

/* Per-thread forms are there from CUDA 7 on; who wants one asks at no lower version. */
static void find(void *library, void *pointer, const char *name, int version)
{
	int asked = STREAMS && version < 7000 ? 7000 : version;
	void **function = pointer;
#if RUNTIME < 12000
	CUresult (*get)(const char *, void **, int, cuuint64_t);

	*(void **)&get = dlsym(library, "cuGetProcAddress");
	check(get(name, function, asked, STREAMS), name);
#else
	CUresult (*get)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;

	*(void **)&get = dlsym(library, "cuGetProcAddress_v2");
	check(get(name, function, asked, STREAMS, &status), name);
	if (status != CU_GET_PROC_ADDRESS_SUCCESS)
		fail(name, (int)status);
#endif
}

static void start(struct work *work)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		fail(dlerror(), 0);
	find(library, &driver.init, "cuInit", 2000);
	find(library, &driver.context_set, "cuCtxSetCurrent", 4000);
	find(library, &driver.context_destroy, "cuCtxDestroy", 4000);
	find(library, &driver.alloc, "cuMemAlloc", 3020);
	find(library, &driver.alloc_async, "cuMemAllocAsync", 11020);
	find(library, &driver.free, "cuMemFree", 3020);
	find(library, &driver.free_async, "cuMemFreeAsync", 11020);
	find(library, &driver.fill, "cuMemsetD32", 3020);
	find(library, &driver.read, "cuMemcpyDtoH", 3020);
	find(library, &driver.module_load, "cuModuleLoadData", 2000);
	find(library, &driver.module_function, "cuModuleGetFunction", 2000);
	find(library, &driver.launch, "cuLaunchKernel", 4000);
	find(library, &driver.stream_create, "cuStreamCreate", 2000);
	find(library, &driver.stream_destroy, "cuStreamDestroy", 4000);
	find(library, &driver.stream_wait, "cuStreamSynchronize", 2000);
	find(library, &driver.capture_end, "cuStreamEndCapture", 10000);
	find(library, &driver.graph_launch, "cuGraphLaunch", 10000);
	find(library, &driver.graph_destroy, "cuGraphDestroy", 10000);
	find(library, &driver.exec_destroy, "cuGraphExecDestroy", 10000);
#if RUNTIME >= 13000
	find(library, &driver.context_create, "cuCtxCreate", 12050);
	find(library, &driver.capture_begin, "cuStreamBeginCapture", 10010);
	find(library, &driver.instantiate, "cuGraphInstantiateWithParams", 12000);
#elif RUNTIME >= 12000
	find(library, &driver.context_create, "cuCtxCreate", 11040);
	find(library, &driver.capture_begin, "cuStreamBeginCapture", 10010);
	find(library, &driver.instantiate, "cuGraphInstantiateWithFlags", 11040);
#else
	find(library, &driver.context_create, "cuCtxCreate", 3020);
	find(library, &driver.capture_begin, "cuStreamBeginCapture", 10000);
	find(library, &driver.instantiate, "cuGraphInstantiate", 10000);
#endif
	CHECK(init(0));
#if RUNTIME >= 13000
	CHECK(context_create(&work->context, NULL, 0, 0));
#elif RUNTIME >= 12000
	CHECK(context_create(&work->context, NULL, 0, 0, 0));
#else
	CHECK(context_create(&work->context, 0, 0));
#endif
	CHECK(module_load(&work->module, work->code));
	CHECK(module_function(&work->function, work->module, "count"));
}

static CUdeviceptr allocate(size_t size)
{
	CUdeviceptr p = 0;

	CHECK(alloc(&p, size));
	return p;
}

static CUdeviceptr make_counter(void)
{
	CUdeviceptr p = allocate(4);

	CHECK(fill(p, 0, 1));
	CHECK(stream_wait(NULL));
	return p;
}

static CUdeviceptr allocate_async(size_t size)
{
	CUdeviceptr p = 0;

	CHECK(alloc_async(&p, size, NULL));
	return p;
}

static void give_back(CUdeviceptr p)
{
	CHECK(free(p));
}

static void give_back_async(CUdeviceptr p)
{
	CHECK(free_async(p, NULL));
	CHECK(stream_wait(NULL));
}

static void launch(const struct work *work, CUstream stream, CUdeviceptr counter)
{
	void *parameters[] = {&counter};

	CHECK(launch(work->function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

/* One launch outside of a graph, one within it, which is launched twice. */
static void count_three(const struct work *work, CUdeviceptr counter)
{
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;

	CHECK(context_set(work->context));
	CHECK(stream_create(&stream, CU_STREAM_NON_BLOCKING));
	launch(work, stream, counter);
#if RUNTIME >= 12000
	CHECK(capture_begin(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
#else
	CHECK(capture_begin(stream));
#endif
	launch(work, stream, counter);
	CHECK(capture_end(stream, &graph));
#if RUNTIME >= 13000
	CHECK(instantiate(&exec, graph, &(CUDA_GRAPH_INSTANTIATE_PARAMS){0}));
#elif RUNTIME >= 12000
	CHECK(instantiate(&exec, graph, 0));
#else
	CHECK(instantiate(&exec, graph, NULL, NULL, 0));
#endif
	CHECK(graph_launch(exec, stream));
	CHECK(graph_launch(exec, stream));
	CHECK(stream_wait(stream));
	CHECK(exec_destroy(exec));
	CHECK(graph_destroy(graph));
	CHECK(stream_destroy(stream));
}

static unsigned int value(CUdeviceptr counter)
{
	unsigned int n = 0;

	CHECK(read(&n, counter, sizeof(n)));
	return n;
}

static void use(const struct work *work)
{
	CHECK(context_set(work->context));
}

static void stop(const struct work *work)
{
	CHECK(context_destroy(work->context));
}

const struct runtime runtime = {
    start, make_counter, allocate, allocate_async, give_back, give_back_async, count_three,
    value, use,          stop};
