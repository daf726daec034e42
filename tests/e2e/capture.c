/* SPDX-License-Identifier: MIT */
/*
 * capture: captures a stream, in each of the modes. Another thread launches meanwhile, paced, on a
 * second stream and on the legacy stream. Then it replays the graph, ends a capture that was
 * invalidated, and launches on. Prints "ok" when every capture stayed valid and the counting kernel
 * ran exactly as often as it should; exit status 1 otherwise.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { CAPTURES = 21, NODES = 10, REPLAYS = 5 };

static const char kernel[] = ".version 6.4\n.target sm_50\n.address_size 64\n"
                             ".visible .entry count(.param .u64 where)\n{\n"
                             ".reg .u64 %rd<2>;\n.reg .u32 %r<2>;\n"
                             "ld.param.u64 %rd1, [where];\n"
                             "atom.global.add.u32 %r1, [%rd1], 1;\nret;\n}\n";

static CUcontext context;
static CUfunction count;
static CUdeviceptr counters; /* [0] by the graph, [1] by the other thread */
static _Atomic int stop;
static _Atomic unsigned int launched;

static void check(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS) {
		fprintf(stderr, "capture: %s: error %d\n", what, (int)result);
		exit(1);
	}
}
#define CHECK(call) check(call, #call)

static void launch(CUstream stream, CUdeviceptr where)
{
	void *parameters[] = {&where};

	CHECK(cuLaunchKernel(count, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
}

static void *launch_beside(void *cookie)
{
	CUstream stream;

	(void)cookie;
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	while (!stop) {
		launch(launched % 2 ? stream : CU_STREAM_LEGACY, counters + 4);
		if (++launched % 16 == 0)
			CHECK(cuStreamSynchronize(stream));
	}
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuStreamSynchronize(CU_STREAM_LEGACY));
	return NULL;
}

static void capture_and_replay(CUstream stream, CUstreamCaptureMode mode)
{
	CUgraphExec executable;
	CUgraph graph;

	CHECK(cuStreamBeginCapture_v2(stream, mode));
	for (int i = 0; i < NODES; i++)
		launch(stream, counters);
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
	for (int i = 0; i < REPLAYS; i++)
		CHECK(cuGraphLaunch(executable, stream));
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuGraphExecDestroy(executable));
	CHECK(cuGraphDestroy(graph));
}

int main(void)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL,
	                                            CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
	                                            CU_STREAM_CAPTURE_MODE_RELAXED};
	unsigned int counted[2] = {0};
	CUstream stream, abandoned;
	pthread_t beside;
	CUmodule module;
	CUdevice device;
	CUgraph graph;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, kernel));
	CHECK(cuModuleGetFunction(&count, module, "count"));
	CHECK(cuMemAlloc_v2(&counters, 8));
	CHECK(cuMemsetD32_v2(counters, 0, 2));
	CHECK(cuCtxSynchronize()); /* the streams below do not wait for the default one */
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	pthread_create(&beside, NULL, launch_beside, NULL);
	for (int i = 0; i < CAPTURES; i++)
		capture_and_replay(stream, modes[i % 3]);
	stop = 1;
	pthread_join(beside, NULL);
	/* A capture that ends in an error must not stop the pacing of what follows. */
	CHECK(cuStreamCreate(&abandoned, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamBeginCapture_v2(abandoned, CU_STREAM_CAPTURE_MODE_RELAXED));
	if (cuStreamSynchronize(abandoned) == CUDA_SUCCESS ||
	    cuStreamEndCapture(abandoned, &graph) == CUDA_SUCCESS) {
		printf("WRONG: a synchronise did not invalidate the capture\n");
		return 1;
	}
	CHECK(cuStreamDestroy_v2(abandoned));
	for (int i = 0; i < 200; i++)
		launch(stream, counters);
	CHECK(cuStreamSynchronize(stream));
	CHECK(cuMemcpyDtoH_v2(counted, counters, sizeof(counted)));
	if (counted[0] != CAPTURES * NODES * REPLAYS + 200 || counted[1] != launched) {
		printf("WRONG: %u and %u kernels, expected %d and %u\n", counted[0], counted[1],
		       CAPTURES * NODES * REPLAYS + 200, launched);
		return 1;
	}
	printf("ok launches=%u graph_launches=%d\n", launched + 200 + CAPTURES * NODES,
	       CAPTURES * REPLAYS);
	return 0;
}
