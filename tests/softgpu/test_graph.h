/* SPDX-License-Identifier: MIT */
/* The tests of graphs share this: short ways to make graphs, nodes and launches. */
#ifndef SOFTGPU_TEST_GRAPH_H
#define SOFTGPU_TEST_GRAPH_H

#include <semaphore.h>
#include <stdint.h>

#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

static inline CUfunction function_named(const char *name)
{
	static CUmodule module;
	CUfunction function;
	if (!module)
		OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

static inline CUgraph new_graph(void)
{
	CUgraph graph;
	OK(cuGraphCreate(&graph, 0));
	return graph;
}

static inline CUstream new_stream(void)
{
	CUstream stream;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static inline CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static inline void launch_and_wait(CUgraphExec exec, CUstream stream)
{
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
}

static inline CUgraphNode add_empty(CUgraph graph, const CUgraphNode *after, size_t count)
{
	CUgraphNode node;
	OK(cuGraphAddEmptyNode(&node, graph, after, count));
	return node;
}

static inline CUgraphNode add_host(CUgraph graph, const CUgraphNode *after, size_t count,
                                   CUhostFn call, void *data)
{
	CUgraphNode node;
	CUDA_HOST_NODE_PARAMS params = {.fn = call, .userData = data};
	OK(cuGraphAddHostNode(&node, graph, after, count, &params));
	return node;
}

/* fill(memory, value, count) with threads for `count`. */
static inline CUgraphNode add_fill(CUgraph graph, const CUgraphNode *after, size_t dependencies,
                                   CUdeviceptr memory, uint32_t value, uint32_t count)
{
	CUgraphNode node;
	void *parameters[] = {&memory, &value, &count};
	CUDA_KERNEL_NODE_PARAMS params = {.func = function_named("fill"),
	                                  .gridDimX = (count + 63) / 64,
	                                  .gridDimY = 1,
	                                  .gridDimZ = 1,
	                                  .blockDimX = 64,
	                                  .blockDimY = 1,
	                                  .blockDimZ = 1,
	                                  .kernelParams = parameters};
	OK(cuGraphAddKernelNode_v2(&node, graph, after, dependencies, &params));
	return node;
}

static inline CUDA_MEMCPY3D copy_between(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
	                       .srcDevice = from,
	                       .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
	                       .dstDevice = to,
	                       .WidthInBytes = size,
	                       .Height = 1,
	                       .Depth = 1};
}

static inline void count_call(void *counter)
{
	__atomic_fetch_add((int *)counter, 1, __ATOMIC_SEQ_CST);
}

static inline int read_counter(int *counter)
{
	return __atomic_load_n(counter, __ATOMIC_SEQ_CST);
}

static inline void wait_for(void *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

/* fill -> copy -> host, with these values. */
static inline CUgraph chain(CUdeviceptr memory, uint32_t value, int *calls)
{
	CUgraph graph = new_graph();
	CUgraphNode fill = add_fill(graph, NULL, 0, memory, value, 64), copy;
	CUDA_MEMCPY3D what = copy_between(memory + 256, memory, 256);
	OK(cuGraphAddMemcpyNode(&copy, graph, &fill, 1, &what, NULL));
	add_host(graph, &copy, 1, count_call, calls);
	return graph;
}

#endif
