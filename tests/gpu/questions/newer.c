/* SPDX-License-Identifier: MIT */
/*
 * Features of newer drivers: pools of managed memory, conditional nodes of graphs, and the heap of
 * malloc in kernels. cuda.h leaves these questions open.
 */
#include "tests/gpu/questions/question.h"

#include <stdlib.h>

enum { HEAP = 32 << 20 };

/* A kernel that calls malloc and keeps nothing. */
static const char heap_kernel[] = ".version 6.4\n.target sm_50\n.address_size 64\n"
                                  ".extern .func (.param .b64 result) malloc (.param .b64 size);\n"
                                  ".extern .func free (.param .b64 address);\n"
                                  ".visible .entry ask(.param .u64 out, .param .u64 size)\n"
                                  "{\n"
                                  "	.reg .b64 %d<4>;\n"
                                  "	ld.param.u64 %d1, [out];\n"
                                  "	ld.param.u64 %d2, [size];\n"
                                  "	{ .param .b64 a; .param .b64 got;\n"
                                  "	st.param.b64 [a], %d2;\n"
                                  "	call.uni (got), malloc, (a);\n"
                                  "	ld.param.b64 %d3, [got]; }\n"
                                  "	st.global.u64 [%d1], %d3;\n"
                                  "	{ .param .b64 a;\n"
                                  "	st.param.b64 [a], %d3;\n"
                                  "	call.uni free, (a); }\n"
                                  "	ret;\n"
                                  "}\n";

/* --- pools of managed memory --- */

static CUdeviceptr from_pool(CUmemoryPool *pool)
{
	const CUmemPoolProps properties = {
	    .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
	    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}};
	CUdeviceptr memory = 0;

	ATTEMPT(cuMemPoolCreate(pool, &properties));
	ATTEMPT(cuMemAllocFromPoolAsync(&memory, 4 * small_chunk, *pool, stream));
	return memory;
}

static void ask_pool_keeps(const struct question *q)
{
	CUmemoryPool pool = NULL;
	cuuint64_t reserved[2] = {0};
	CUdeviceptr memory = from_pool(&pool);

	ATTEMPT(cuMemsetD8Async(memory, 1, 4 * small_chunk, stream));
	ATTEMPT(cuStreamSynchronize(stream));
	if (not_asked(q))
		return;
	ATTEMPT(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved[0]));
	ATTEMPT(cuMemFreeAsync(memory, stream));
	ATTEMPT(cuStreamSynchronize(stream));
	ATTEMPT(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved[1]));
	if (!refused(q))
		answer(q->name, reserved[1] ? "keeps" : "nothing",
		       "%llu bytes reserved, %llu after the free", (unsigned long long)reserved[0],
		       (unsigned long long)reserved[1]);
}

static void ask_pool_prefers(const struct question *q)
{
	CUmemoryPool pool = NULL;
	CUdeviceptr memory = from_pool(&pool);
	int where = CU_DEVICE_INVALID;

	if (not_asked(q))
		return;
	ATTEMPT(cuMemRangeGetAttribute(
	    &where, sizeof(where), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, small_chunk));
	if (!refused(q))
		answer(q->name, where == device ? "its device" : "other", "%d", where);
}

static void ask_pool_advice(const struct question *q)
{
	const CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
	CUmemoryPool pool = NULL;
	CUdeviceptr memory = from_pool(&pool);
	int where = CU_DEVICE_INVALID;

	if (not_asked(q))
		return;
	ATTEMPT(cuMemAdvise_v2(memory, small_chunk, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
	ATTEMPT(cuMemRangeGetAttribute(
	    &where, sizeof(where), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, memory, small_chunk));
	if (!refused(q))
		answer(q->name, where == CU_DEVICE_CPU ? "yes" : "no", "prefers %d", where);
}

/* What a graph allocates of managed memory: in the driver's books of graphs, or not. */
static void ask_graph_counts(const struct question *q)
{
	CUDA_MEM_ALLOC_NODE_PARAMS what = {
	    .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
	                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
	    .bytesize = 4 * small_chunk};
	CUgraphExec executable = NULL;
	CUgraph graph = NULL;
	CUgraphNode node = NULL;
	cuuint64_t before = 0, after = 0;

	ATTEMPT(cuGraphCreate(&graph, 0));
	ATTEMPT(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &what));
	ATTEMPT(cuGraphInstantiate(&executable, graph, 0));
	if (not_asked(q))
		return;
	ATTEMPT(
	    cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &before));
	ATTEMPT(cuGraphLaunch(executable, stream));
	ATTEMPT(cuStreamSynchronize(stream));
	ATTEMPT(
	    cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &after));
	if (!refused(q))
		answer(q->name, after - before >= what.bytesize ? "yes" : "no",
		       "%llu bytes reserved, %llu after a launch", (unsigned long long)before,
		       (unsigned long long)after);
}

/* --- conditional nodes --- */

static CUgraph body_of(CUgraph graph)
{
	CUgraphConditionalHandle handle = 0;
	CUgraphNode node = NULL;

	ATTEMPT(cuGraphConditionalHandleCreate(&handle, graph, context, 0,
	                                       CU_GRAPH_COND_ASSIGN_DEFAULT));
	CUgraphNodeParams params = {
	    .type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
	    .conditional = {
	        .handle = handle, .type = CU_GRAPH_COND_TYPE_IF, .size = 1, .ctx = context}};
	ATTEMPT(cuGraphAddNode(&node, graph, NULL, NULL, 0, &params));
	return attempt.result == CUDA_SUCCESS ? params.conditional.phGraph_out[0] : NULL;
}

static void ask_body_allocates(const struct question *q)
{
	CUDA_MEM_ALLOC_NODE_PARAMS what = {
	    .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}},
	    .bytesize = small_chunk};
	CUgraphExec executable = NULL;
	CUgraph graph = NULL;
	CUgraphNode node = NULL;

	ATTEMPT(cuGraphCreate(&graph, 0));
	CUgraph body = body_of(graph);
	if (not_asked(q))
		return;
	CUresult added = gpu.cuGraphAddMemAllocNode(&node, body, NULL, 0, &what);
	CUresult made =
	    added == CUDA_SUCCESS ? gpu.cuGraphInstantiate(&executable, graph, 0) : added;
	answer(q->name,
	       added != CUDA_SUCCESS  ? "refused"
	       : made != CUDA_SUCCESS ? "refused later"
	                              : "allowed",
	       "added: %s, then %s", gpu_error_name(added), gpu_error_name(made));
}

/* --- malloc in kernels --- */

static size_t free_bytes(void)
{
	size_t available = 0, total = 0;

	ATTEMPT(cuMemGetInfo(&available, &total));
	return available;
}

static void ask_heap(const struct question *q)
{
	CUmodule module = NULL;
	CUfunction ask = NULL;
	CUdeviceptr out = 0;
	uint64_t size = q->form ? (uint64_t)q->form : 0, got = 0;
	void *arguments[] = {&out, &size};

	ATTEMPT(cuMemAlloc(&out, sizeof(got)));
	ATTEMPT(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, HEAP));
	if (not_asked(q))
		return;
	size_t before = free_bytes();
	ATTEMPT(cuModuleLoadData(&module, heap_kernel));
	ATTEMPT(cuModuleGetFunction(&ask, module, "ask"));
	size_t loaded = free_bytes();
	ATTEMPT(cuLaunchKernel(ask, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL));
	ATTEMPT(cuStreamSynchronize(stream));
	size_t launched = free_bytes();
	ATTEMPT(cuMemcpyDtoH(&got, out, sizeof(got)));
	if (refused(q))
		return;
	if (!size) {
		answer(q->name, got ? "an address" : "NULL", "%#llx", (unsigned long long)got);
		return;
	}
	answer(q->name,
	       before - loaded >= HEAP     ? "the module is loaded"
	       : before - launched >= HEAP ? "the kernel is launched"
	                                   : "other",
	       "%zu bytes free, %zu after loading, %zu after a launch", before, loaded, launched);
}

const struct question newer_questions[] = {
    {.name = "managed_pool_keeps",
     .risk = "-",
     .asks = "What does a pool of managed memory keep of what was freed?",
     .counted_on = "nothing",
     .then = "its memory counts by allocation, until its stream is at the free",
     .otherwise = "count what the pool has reserved beyond what is in use",
     .ask = ask_pool_keeps},
    {.name = "managed_pool_prefers",
     .risk = "-",
     .asks = "Which location does memory of a managed pool on a device prefer?",
     .counted_on = "its device",
     .then = "memory that comes to the device late is advised to prefer it again",
     .otherwise = "take our advice back without giving another",
     .ask = ask_pool_prefers},
    {.name = "managed_pool_takes_advice",
     .risk = "-",
     .asks = "Does memory of a managed pool on a device take the advice to prefer the host?",
     .counted_on = "yes",
     .then = "what is beyond the limit stays on the host by that advice",
     .otherwise = "refuse what does not fit, or allocate it from a managed pool of the host",
     .ask = ask_pool_advice},
    {.name = "managed_graph_memory_counts",
     .risk = "-",
     .asks = "Does managed memory that a graph allocates count as the memory of graphs?",
     .counted_on = "yes",
     .then = "it counts in the limit by the driver's books of graphs",
     .otherwise = "count the nodes of managed memory by what they ask for",
     .ask = ask_graph_counts},
    {.name = "conditional_body_allocates",
     .risk = "-",
     .asks = "Can the body of a conditional node allocate?",
     .counted_on = "refused | refused later",
     .then = "a graph's memory is that of its own nodes and its children's",
     .otherwise = "count the memory that bodies allocate when the graph is launched",
     .ask = ask_body_allocates},
    {.name = "kernel_heap_is_taken",
     .risk = "-",
     .asks = "When is the memory for malloc in kernels taken?",
     .counted_on = "the module is loaded | the kernel is launched",
     .then = "it counts as the driver's own memory, measured around both",
     .otherwise = "look at the driver's own memory elsewhere, too",
     .ask = ask_heap,
     .form = 64},
    {.name = "kernel_malloc_of_nothing",
     .risk = "-",
     .asks = "What does malloc(0) in a kernel answer?",
     .then = "nothing depends on it; the software GPU answers NULL",
     .ask = ask_heap},
    {0},
};
