/* SPDX-License-Identifier: MIT */
/* Tests of graph launches: order, branches, memory, and random graphs against doing it in turn. */
#include <time.h>

#include "tests/softgpu/test_graph.h"

/* Time for what runs too early to do so; however little it is, nothing else depends on it. */
static void let_others_run(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
}

/* Launches come after what is in the stream and after each other; what comes later waits. */
static void stream_order(void)
{
	start();
	CUgraph graph = new_graph();
	CUstream stream = new_stream(), other = new_stream();
	sem_t gate;
	int calls = 0, after = 0, beside = 0;
	sem_init(&gate, 0, 0);
	CUgraphNode node = add_host(graph, NULL, 0, count_call, &calls);
	add_host(graph, &node, 1, count_call, &calls);
	add_host(graph, &node, 1, count_call, &calls);
	CUgraphExec exec = instantiate(graph);
	OK(cuLaunchHostFunc(stream, wait_for, &gate));
	OK(cuGraphLaunch(exec, stream));
	OK(cuLaunchHostFunc(stream, count_call, &after));
	OK(cuGraphLaunch(exec, other)); /* the same graph: after its launch before */
	OK(cuLaunchHostFunc(other, count_call, &after));
	let_others_run();
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
	CHECK(read_counter(&calls) == 0 && read_counter(&after) == 0);
	/* The graph can go while it is on its way, and its launches stay. */
	OK(cuGraphDestroy(graph));
	OK(cuGraphExecDestroy(exec));
	sem_post(&gate);
	OK(cuStreamSynchronize(stream));
	CHECK(read_counter(&calls) >= 3);
	OK(cuCtxSynchronize());
	CHECK(calls == 6 && after == 2);
	/* Launched in the legacy stream, all of it comes before what blocking streams do next. */
	graph = new_graph();
	node = add_host(graph, NULL, 0, wait_for, &gate);
	add_host(graph, NULL, 0, count_call, &calls);
	add_host(graph, &node, 1, count_call, &calls);
	exec = instantiate(graph);
	CUstream blocking;
	OK(cuStreamCreate(&blocking, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuLaunchHostFunc(blocking, count_call, &beside));
	let_others_run();
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(blocking));
	CHECK(read_counter(&beside) == 0);
	sem_post(&gate);
	OK(cuStreamSynchronize(blocking));
	CHECK(calls == 8 && beside == 1);
}

/* Two host functions that each wait for the other can only end side by side. */
static sem_t meeting[2];

static void meet(void *data)
{
	int own = (int)(intptr_t)data;
	sem_post(&meeting[own]);
	wait_for(&meeting[!own]);
}

static void parallel_branches(void)
{
	start();
	CUgraph graph = new_graph(), inner = new_graph();
	CUstream stream = new_stream();
	CUgraphNode child;
	sem_init(&meeting[0], 0, 0);
	sem_init(&meeting[1], 0, 0);
	CUgraphNode top = add_empty(graph, NULL, 0);
	add_host(inner, NULL, 0, meet, (void *)1);
	CUgraphNode left = add_host(graph, &top, 1, meet, (void *)0);
	OK(cuGraphAddChildGraphNode(&child, graph, &top, 1, inner));
	CUgraphNode both[] = {left, child};
	int calls = 0;
	add_host(graph, both, 2, count_call, &calls);
	CUgraphExec exec = instantiate(graph);
	for (int round = 1; round <= 3; round++) {
		launch_and_wait(exec, stream);
		CHECK(calls == round);
	}
}

/* A graph works on whatever is mapped at its addresses when it runs. */
static void memory_that_moves(void)
{
	start();
	CUstream stream = new_stream();
	CUdeviceptr base;
	CUmemGenericAllocationHandle handles[3];
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = wanted.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	uint32_t words[128];
	int calls = 0;
	OK(cuMemAddressReserve(&base, 2 * MIB, 0, 0, 0));
	for (int i = 0; i < 3; i++)
		OK(cuMemCreate(&handles[i], 2 * MIB, &wanted, 0));
	OK(cuMemMap(base, 2 * MIB, 0, handles[0], 0));
	OK(cuMemSetAccess(base, 2 * MIB, &access, 1));
	CUgraphExec exec = instantiate(chain(base, 40, &calls));
	for (int i = 0; i < 3; i++) {
		if (i > 0) {
			OK(cuMemUnmap(base, 2 * MIB));
			OK(cuMemMap(base, 2 * MIB, 0, handles[i], 0));
			OK(cuMemSetAccess(base, 2 * MIB, &access, 1));
		}
		OK(cuMemcpyDtoH_v2(words, base, sizeof(words)));
		CHECK(words[5] == 0); /* new memory each time */
		launch_and_wait(exec, stream);
		OK(cuMemcpyDtoH_v2(words, base, sizeof(words)));
		for (uint32_t j = 0; j < 128; j++)
			CHECK(words[j] == 40 + j % 64);
	}
	OK(cuMemUnmap(base, 2 * MIB));
	OK(cuGraphLaunch(exec, stream));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	CHECK(calls == 3);
}

/* Memory nodes made by hand. */
static void memory_nodes(void)
{
	start();
	CUgraph graph = new_graph(), freeing = new_graph();
	CUstream stream = new_stream();
	CUgraphNode alloc, node, free_node;
	CUdeviceptr found;
	uint32_t words[64];
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
	    .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
	    .bytesize = sizeof(words)};
	CUDA_MEM_ALLOC_NODE_PARAMS got;
	OK(cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &params));
	CHECK(params.dptr);
	OK(cuGraphMemAllocNodeGetParams(alloc, &got));
	CHECK(got.dptr == params.dptr && got.bytesize == sizeof(words));
	node = add_fill(graph, &alloc, 1, params.dptr, 9, 64);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemFreeNode(&free_node, graph, NULL, 0, 0x1000));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(node));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &alloc, &node, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddChildGraphNode(&node, freeing, NULL, 0, graph));
	/* Another graph frees it; then its own may not. */
	OK(cuGraphAddMemFreeNode(&free_node, freeing, NULL, 0, params.dptr));
	OK(cuGraphMemFreeNodeGetParams(free_node, &found));
	CHECK(found == params.dptr);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuGraphAddMemFreeNode(&free_node, freeing, NULL, 0, params.dptr));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuGraphAddMemFreeNode(&free_node, graph, &node, 1, params.dptr));
	CUgraphExec making = instantiate(graph), ending = instantiate(freeing);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(ending, stream));
	for (int round = 0; round < 3; round++) {
		OK(cuGraphLaunch(making, stream));
		OK(cuMemcpyDtoHAsync_v2(words, params.dptr, sizeof(words), stream));
		OK(cuGraphLaunch(ending, stream));
		OK(cuStreamSynchronize(stream));
		CHECK(words[63] == 72);
	}
	/* More than there is fails the launch, and leaves the rest. */
	CUgraph large = new_graph();
	params.bytesize = 64 * MIB;
	OK(cuGraphAddMemAllocNode(&alloc, large, NULL, 0, &params));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuGraphLaunch(instantiate(large), stream));
	OK(cuGraphLaunch(making, stream));
	OK(cuStreamSynchronize(stream));
	cuuint64_t zero = 0, high;
	OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
	OK(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &high));
	CHECK(high == 2 * MIB);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGraphMemTrim(7));
}

/*
 * Random graphs against the same steps one after the other. Every node makes one word of what the
 * words of its dependencies are; a node that runs too early takes rubbish from the round before.
 */
#define CELLS 60
enum step { STEP_FILL, STEP_KERNEL, STEP_COPY, STEP_HOST, STEPS };

static struct cell {
	enum step step;
	size_t count, before[CELLS];
	uint32_t value;
	uint32_t *words; /* all of them, pinned */
	size_t own;
} cells[CELLS];

static uint32_t mix(uint32_t a, uint32_t b)
{
	return (a ^ b) * 2654435761U + (a >> 15);
}

static void make_cell(void *data)
{
	const struct cell *cell = data;
	uint32_t value = cell->value;
	for (size_t i = 0; i < cell->count; i++)
		value = mix(value, cell->words[cell->before[i]]);
	cell->words[cell->own] = value;
}

static void make_cell_in_turn(const struct cell *cell, uint32_t *words)
{
	struct cell other = *cell;
	other.words = words;
	if (cell->step == STEP_HOST)
		make_cell(&other);
	else if (cell->step == STEP_COPY)
		words[cell->own] = words[cell->before[0]];
	else
		words[cell->own] = cell->value;
}

static CUgraphNode add_cell(CUgraph graph, struct cell *cell, const CUgraphNode *after)
{
	CUgraphNode node;
	CUdeviceptr own = (CUdeviceptr)&cell->words[cell->own];
	CUDA_MEMCPY3D copy;
	CUDA_MEMSET_NODE_PARAMS fill = {
	    .dst = own, .value = cell->value, .elementSize = 4, .width = 1, .height = 1};
	switch (cell->step) {
	case STEP_FILL:
		OK(cuGraphAddMemsetNode(&node, graph, after, cell->count, &fill, NULL));
		return node;
	case STEP_KERNEL:
		return add_fill(graph, after, cell->count, own, cell->value, 1);
	case STEP_COPY:
		copy = copy_between(own, (CUdeviceptr)&cell->words[cell->before[0]], 4);
		OK(cuGraphAddMemcpyNode(&node, graph, after, cell->count, &copy, NULL));
		return node;
	default:
		return add_host(graph, after, cell->count, make_cell, cell);
	}
}

static void random_graphs(void)
{
	start();
	CUstream streams[2] = {new_stream(), new_stream()};
	uint32_t *words, expected[CELLS];
	OK(cuMemAllocHost_v2((void **)&words, sizeof(expected)));
	for (unsigned int seed = 1; seed <= 12; seed++) {
		CUgraph graph = new_graph();
		CUgraphNode nodes[CELLS] = {0};
		unsigned int density = 1 + seed % 6;
		srand(seed);
		for (size_t i = 0; i < CELLS; i++) {
			struct cell *cell = &cells[i];
			CUgraphNode after[CELLS];
			*cell = (struct cell){.step = (enum step)(rand() % STEPS),
			                      .value = (uint32_t)rand(),
			                      .words = words,
			                      .own = i};
			for (size_t j = 0; j < i; j++) {
				if ((unsigned int)rand() % 20 >= density)
					continue;
				after[cell->count] = nodes[j];
				cell->before[cell->count++] = j;
			}
			if (cell->step == STEP_COPY && cell->count == 0)
				cell->step = STEP_HOST;
			nodes[i] = add_cell(graph, cell, after);
		}
		CUgraphExec exec = instantiate(graph);
		for (int round = 0; round < 4; round++) {
			for (size_t i = 0; i < CELLS; i++)
				words[i] = 0xdead0000U + (uint32_t)i;
			for (size_t i = 0; i < CELLS; i++)
				make_cell_in_turn(&cells[i], expected);
			launch_and_wait(exec, streams[round % 2]);
			if (memcmp(words, expected, sizeof(expected)) != 0)
				fprintf(stderr, "seed %u, round %d\n", seed, round);
			CHECK(memcmp(words, expected, sizeof(expected)) == 0);
		}
		OK(cuGraphExecDestroy(exec));
		OK(cuGraphDestroy(graph));
	}
}

/* 2,000 nodes: each notes when it ran, and all that it depends on ran before. */
#define MANY 2000
static int when[MANY], clock_of_nodes;

static void note(void *data)
{
	when[(intptr_t)data] = __atomic_add_fetch(&clock_of_nodes, 1, __ATOMIC_SEQ_CST);
}

static void many_nodes(void)
{
	start();
	CUgraph graph = new_graph(), clone;
	CUstream stream = new_stream();
	static CUgraphNode nodes[MANY];
	for (intptr_t i = 0; i < MANY; i++) {
		CUgraphNode after[2] = {i >= 3 ? nodes[i - 3] : NULL,
		                        i >= 10 ? nodes[i / 2] : NULL};
		size_t count = (i >= 3) + (i >= 10);
		nodes[i] = add_host(graph, after, count, note, (void *)i);
	}
	size_t count;
	OK(cuGraphClone(&clone, graph));
	OK(cuGraphGetNodes(clone, NULL, &count));
	CHECK(count == MANY);
	CUgraphExec exec = instantiate(clone);
	for (int round = 1; round <= 3; round++) {
		launch_and_wait(exec, stream);
		CHECK(clock_of_nodes == round * MANY);
		for (int i = 10; i < MANY; i++)
			CHECK(when[i] > when[i - 3] && when[i] > when[i / 2]);
	}
	CUgraphExecUpdateResultInfo info;
	OK(cuGraphExecUpdate_v2(exec, graph, &info));
	launch_and_wait(exec, stream);
	CHECK(clock_of_nodes == 4 * MANY);
}

/* Kernels of both devices in one graph, with a copy between them. */
static void two_devices(void)
{
	CUcontext contexts[2] = {start()};
	CUstream stream = new_stream();
	CUdeviceptr memory[2];
	uint32_t words[64];
	CUgraph graph = new_graph();
	OK(cuDevicePrimaryCtxRetain(&contexts[1], 1));
	OK(cuMemAlloc_v2(&memory[0], sizeof(words)));
	CUgraphNode node = add_fill(graph, NULL, 0, memory[0], 600, 64), copy;
	OK(cuCtxSetCurrent(contexts[1]));
	OK(cuMemAlloc_v2(&memory[1], sizeof(words)));
	CUDA_MEMCPY3D what = copy_between(memory[1], memory[0], 128);
	OK(cuGraphAddMemcpyNode(&copy, graph, &node, 1, &what, contexts[1]));
	CUDA_MEMSET_NODE_PARAMS fill = {
	    .dst = memory[1] + 128, .value = 3, .elementSize = 4, .width = 32, .height = 1};
	OK(cuGraphAddMemsetNode(&node, graph, &copy, 1, &fill, contexts[1]));
	OK(cuCtxSetCurrent(contexts[0]));
	CUgraphExec exec = instantiate(graph);
	for (int round = 0; round < 3; round++) {
		OK(cuMemsetD8Async(memory[1], 0, sizeof(words), stream));
		launch_and_wait(exec, stream);
		OK(cuMemcpyDtoH_v2(words, memory[1], sizeof(words)));
		for (uint32_t i = 0; i < 64; i++)
			CHECK(words[i] == (i < 32 ? 600 + i : 3));
	}
	OK(cuDevicePrimaryCtxReset_v2(1));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuGraphLaunch(exec, stream));
}

int main(void)
{
	int failed = 0;
	failed += RUN(stream_order, NULL);
	failed += RUN(parallel_branches, NULL);
	failed += RUN(memory_that_moves, NULL);
	failed += RUN(memory_nodes, "SOFTGPU_MEMORY=32M SOFTGPU_QUIET=1");
	failed += RUN(random_graphs, NULL);
	failed += RUN(many_nodes, NULL);
	failed += RUN(two_devices, "SOFTGPU_DEVICES=2");
	return failed != 0;
}
