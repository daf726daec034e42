/* SPDX-License-Identifier: MIT */
/*
 * Graphs: captured from two streams that fork and join; built node by node; launched often; a
 * node's arguments changed in the executable graph.
 *
 * Each launch takes a to 2 * (3 * a + b). Values are small whole numbers, so sums are exact.
 */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>

enum { COUNT = 4096, THREADS = 256, BLOCKS = COUNT / THREADS, LAUNCHES = 4 };

static CUdeviceptr a, b;
static CUfunction scale, add_vector;
static float *host_a, *host_b, *result;
static const size_t size = COUNT * sizeof(float);
static float two = 2, three = 3;
static unsigned count = COUNT;

static bool result_is(unsigned launches, float first, float second)
{
	for (size_t i = 0; i < COUNT; i++) {
		float expected = host_a[i];
		for (unsigned n = 0; n < launches; n++)
			expected = second * (first * expected + host_b[i]);
		if (result[i] != expected)
			return false;
	}
	return true;
}

static void launch_and_check(CUgraph graph, const char *name, size_t expected_nodes)
{
	CUgraphExec exec;
	CUstream stream;
	size_t nodes = 0;

	CU(cuGraphGetNodes(graph, NULL, &nodes));
	sample_check(nodes == expected_nodes, "%s: %zu nodes", name, nodes);
	CU(cuGraphInstantiate(&exec, graph, 0));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuMemcpyHtoD(a, host_a, size));
	for (unsigned i = 0; i < LAUNCHES; i++)
		CU(cuGraphLaunch(exec, stream));
	CU(cuStreamSynchronize(stream));
	sample_check(result_is(LAUNCHES, three, two), "%s: launched %d times", name, LAUNCHES);
	CU(cuStreamDestroy(stream));
	CU(cuGraphExecDestroy(exec));
}

static void capture(void)
{
	CUstream main_stream, side;
	CUevent fork, join;
	CUgraph graph;
	CUstreamCaptureStatus status;

	CU(cuStreamCreate(&main_stream, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
	CU(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));

	CU(cuMemcpyHtoD(a, host_a, size));
	SAMPLE_NEEDS(cuStreamBeginCapture(main_stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CU(cuEventRecord(fork, main_stream));
	CU(cuStreamWaitEvent(side, fork, 0));
	CU(cuMemcpyHtoDAsync(b, host_b, size, side));
	CU(cuEventRecord(join, side));
	CLIENT_LAUNCH(scale, BLOCKS, 1, THREADS, main_stream, &a, &count, &three);
	CU(cuStreamWaitEvent(main_stream, join, 0));
	CLIENT_LAUNCH(add_vector, BLOCKS, 1, THREADS, main_stream, &a, &b, &count);
	CLIENT_LAUNCH(scale, BLOCKS, 1, THREADS, main_stream, &a, &count, &two);
	CU(cuMemcpyDtoHAsync(result, a, size, main_stream));
	CU(cuStreamIsCapturing(side, &status));
	sample_check(status == CU_STREAM_CAPTURE_STATUS_ACTIVE, "the side stream is captured too");
	CU(cuStreamEndCapture(main_stream, &graph));
	CU(cuStreamIsCapturing(side, &status));
	sample_check(status == CU_STREAM_CAPTURE_STATUS_NONE, "and no longer after the end");

	sample_download(result, a, size);
	bool untouched = true;
	for (size_t i = 0; i < COUNT; i++)
		untouched &= result[i] == host_a[i];
	sample_check(untouched, "capturing runs nothing");
	launch_and_check(graph, "captured", 5);

	CU(cuGraphDestroy(graph));
	CU(cuEventDestroy(fork));
	CU(cuEventDestroy(join));
	CU(cuStreamDestroy(main_stream));
	CU(cuStreamDestroy(side));
}

static CUgraphNode add_kernel(CUgraph graph, const CUgraphNode *after, size_t after_count,
                              CUfunction function, void **arguments)
{
	CUgraphNode node;
	CUDA_KERNEL_NODE_PARAMS parameters = {.func = function,
	                                      .gridDimX = BLOCKS,
	                                      .gridDimY = 1,
	                                      .gridDimZ = 1,
	                                      .blockDimX = THREADS,
	                                      .blockDimY = 1,
	                                      .blockDimZ = 1,
	                                      .kernelParams = arguments};

	CU(cuGraphAddKernelNode(&node, graph, after, after_count, &parameters));
	return node;
}

static CUgraphNode add_copy(CUgraph graph, const CUgraphNode *after, size_t after_count,
                            CUdeviceptr device, void *host, bool to_host)
{
	CUcontext context;
	CUgraphNode node;
	CUDA_MEMCPY3D copy = {.WidthInBytes = size, .Height = 1, .Depth = 1};

	copy.srcMemoryType = to_host ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	copy.dstMemoryType = to_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	copy.srcDevice = copy.dstDevice = device;
	copy.srcHost = copy.dstHost = host;
	CU(cuCtxGetCurrent(&context));
	CU(cuGraphAddMemcpyNode(&node, graph, after, after_count, &copy, context));
	return node;
}

static void explicit_graph(void)
{
	CUgraph graph;
	CUgraphNode join[2], last, node;

	SAMPLE_NEEDS(cuGraphCreate(&graph, 0));
	join[0] = add_kernel(graph, NULL, 0, scale, (void *[]){&a, &count, &three});
	join[1] = add_copy(graph, NULL, 0, b, host_b, false);
	last = add_kernel(graph, join, 2, add_vector, (void *[]){&a, &b, &count});
	node = add_kernel(graph, &last, 1, scale, (void *[]){&a, &count, &two});
	add_copy(graph, &node, 1, a, result, true);
	launch_and_check(graph, "explicit", 5);

	/* Other arguments for one node of the executable graph. */
	CUgraphExec exec;
	float five = 5;
	CUDA_KERNEL_NODE_PARAMS parameters;
	CU(cuGraphInstantiate(&exec, graph, 0));
	CU(cuGraphKernelNodeGetParams(join[0], &parameters));
	parameters.kernelParams = (void *[]){&a, &count, &five};
	parameters.extra = NULL;
	CU(cuGraphExecKernelNodeSetParams(exec, join[0], &parameters));
	CU(cuMemcpyHtoD(a, host_a, size));
	CU(cuGraphLaunch(exec, NULL));
	CU(cuCtxSynchronize());
	sample_check(result_is(1, five, two), "a node of the executable graph changed");
	CU(cuGraphExecDestroy(exec));
	CU(cuGraphDestroy(graph));
}

int main(void)
{
	CUmodule module = sample_open("graphs.ptx");

	scale = client_function(module, "scale");
	add_vector = client_function(module, "add_vector");
	host_a = sample_memory(size);
	host_b = sample_memory(size);
	CU(cuMemHostAlloc((void **)&result, size, 0));
	for (size_t i = 0; i < COUNT; i++) {
		host_a[i] = (float)(sample_random() % 16);
		host_b[i] = (float)(sample_random() % 16);
	}
	a = client_alloc(size);
	b = client_alloc(size);
	capture();
	explicit_graph();
	client_free(&a, size);
	client_free(&b, size);
	CU(cuMemFreeHost(result));
	CU(cuModuleUnload(module));
	free(host_a);
	free(host_b);
	return sample_end();
}
