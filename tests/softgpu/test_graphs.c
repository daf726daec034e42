/* SPDX-License-Identifier: MIT */
/* Tests of graphs as things: their shape, parameters of nodes, instantiation, updates. */
#include <time.h>

#include "tests/softgpu/test_graph.h"

/* Nodes and edges as all versions of the queries tell them. */
static void shape(void)
{
	start();
	CUgraph graph = new_graph(), other = new_graph();
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphCreate(&graph, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy((CUgraph)0x1234));
	CUgraphNode a = add_empty(graph, NULL, 0), b = add_empty(graph, &a, 1);
	CUgraphNode both[] = {a, b}, twice[] = {a, a}, c = add_empty(graph, both, 2), d;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&d, graph, twice, 2));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&d, other, &a, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&d, graph, NULL, 1));
	CUgraphNode nodes[5] = {0}, from[4], to[4];
	size_t count = 0;
	OK(cuGraphGetNodes(graph, NULL, &count));
	CHECK(count == 3); /* what was refused left nothing */
	count = 5;
	OK(cuGraphGetNodes(graph, nodes, &count));
	CHECK(count == 3 && nodes[0] == a && nodes[2] == c && !nodes[3] && !nodes[4]);
	count = 2;
	OK(cuGraphGetNodes(graph, nodes, &count));
	CHECK(count == 2);
	count = 5;
	OK(cuGraphGetRootNodes(graph, nodes, &count));
	CHECK(count == 1 && nodes[0] == a);
	count = 4;
	OK(cuGraphGetEdges(graph, from, to, &count));
	CHECK(count == 3 && from[0] == a && to[0] == b && from[2] == b && to[2] == c && !from[3]);
	count = 4;
	OK(cuGraphNodeGetDependencies(c, nodes, &count));
	CHECK(count == 2 && nodes[0] == a && nodes[1] == b);
	count = 0;
	OK(cuGraphNodeGetDependentNodes_v2(a, NULL, NULL, &count));
	CHECK(count == 2);
	/* Edges one by one. */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &b, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, &a, &a, 1));
	d = add_empty(graph, NULL, 0);
	CUgraphNode sources[] = {b, a}, targets[] = {d, b};
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies(graph, sources, targets, 2));
	OK(cuGraphNodeGetDependencies(d, NULL, &count));
	CHECK(count == 0); /* all or none */
	OK(cuGraphAddDependencies(graph, sources, targets, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &a, &d, 1));
	OK(cuGraphRemoveDependencies(graph, sources, targets, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, sources, targets, 1));
	/* Without the node in the middle its edges are gone, too. */
	OK(cuGraphDestroyNode(b));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(b));
	OK(cuGraphGetEdges(graph, NULL, NULL, &count));
	CHECK(count == 1);
	OK(cuGraphDestroy(graph));
	CUgraphNodeType type;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(a, &type));
}

/* Edges that say more than "after" are lost in queries that cannot tell. */
static void edge_data(void)
{
	start();
	CUgraph graph = new_graph();
	CUdeviceptr memory;
	OK(cuMemAlloc_v2(&memory, 256));
	CUgraphNode a = add_fill(graph, NULL, 0, memory, 1, 64), b, c = add_empty(graph, &a, 1);
	CUgraphEdgeData early = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
	                         .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
	CUgraphEdgeData wrong = {.to_port = 1}, found[2];
	b = add_fill(graph, NULL, 0, memory, 2, 64);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies_v2(graph, &a, &b, &wrong, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddDependencies_v2(graph, &c, &b, &early, 1));
	OK(cuGraphAddDependencies_v2(graph, &a, &b, &early, 1));
	CUgraphNode nodes[2], from[2], to[2];
	size_t count = 2;
	EXPECT(CUDA_ERROR_LOSSY_QUERY, cuGraphNodeGetDependencies(b, nodes, &count));
	EXPECT(CUDA_ERROR_LOSSY_QUERY, cuGraphGetEdges(graph, from, to, &count));
	OK(cuGraphNodeGetDependencies_v2(b, nodes, found, &count));
	CHECK(count == 1 && memcmp(&found[0], &early, sizeof(early)) == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies(graph, &a, &b, 1));
	OK(cuGraphRemoveDependencies_v2(graph, &a, &b, &early, 1));
}

/* A circle is found when the graph is to be run. */
static void circles(void)
{
	start();
	CUgraph graph = new_graph();
	CUgraphNode a = add_empty(graph, NULL, 0), b = add_empty(graph, &a, 1), where = NULL;
	CUgraphExec exec;
	char log[64] = "";
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
	OK(cuGraphAddDependencies(graph, &b, &a, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuGraphInstantiate_v2(&exec, graph, &where, log, sizeof(log)));
	CHECK((where == a || where == b) && log[0]);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph, &params));
	CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE && params.hErrNode_out);
	OK(cuGraphRemoveDependencies(graph, &b, &a, 1));
	OK(cuGraphInstantiate(&exec, graph, NULL, NULL, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 1 << 20));
	EXPECT(
	    CUDA_ERROR_NOT_SUPPORTED,
	    cuGraphInstantiateWithFlags(&exec, graph, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH));
	params.flags =
	    CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	params.hUploadStream = new_stream();
	OK(cuGraphInstantiateWithParams(&exec, graph, &params));
	CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_SUCCESS && !params.hErrNode_out);
	cuuint64_t flags;
	OK(cuGraphExecGetFlags(exec, &flags));
	CHECK(flags == CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
	OK(cuGraphExecDestroy(exec));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(exec));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, NULL));
}

/* Kernel nodes keep a copy of their parameters, in every form they can be given. */
static void kernel_nodes(void)
{
	CUcontext context = start();
	CUgraph graph = new_graph();
	CUdeviceptr memory;
	CUlibrary library;
	CUkernel kernel;
	uint32_t words[64];
	CUstream stream = new_stream();
	OK(cuMemAlloc_v2(&memory, sizeof(words)));
	struct {
		CUdeviceptr memory;
		uint32_t value, count;
	} block = {memory, 30, 32};
	size_t size = sizeof(block);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
	                 CU_LAUNCH_PARAM_END};
	CUDA_KERNEL_NODE_PARAMS_v1 v1 = {.func = function_named("fill"),
	                                 .gridDimX = 1,
	                                 .gridDimY = 1,
	                                 .gridDimZ = 1,
	                                 .blockDimX = 32,
	                                 .blockDimY = 1,
	                                 .blockDimZ = 1,
	                                 .extra = extra},
	                           found_v1;
	CUgraphNode first, second;
	OK(cuGraphAddKernelNode(&first, graph, NULL, 0, &v1));
	block.value = 0; /* copied by now */
	OK(cuGraphKernelNodeGetParams(first, &found_v1));
	CHECK(found_v1.func == v1.func && found_v1.extra && !found_v1.kernelParams);
	CHECK(memcmp(found_v1.extra[1], &(struct {
		             CUdeviceptr m;
		             uint32_t v, c;
	             }){memory, 30, 32},
	             16) == 0);
	/* The same of a library's kernel, which has no context of its own. */
	OK(cuLibraryLoadData(&library, kernels, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "fill"));
	CUdeviceptr upper = memory + 128;
	uint32_t value = 50, count = 32;
	void *parameters[] = {&upper, &value, &count};
	CUgraphNodeParams generic = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
	                             .kernel = {.gridDimX = 1,
	                                        .gridDimY = 1,
	                                        .gridDimZ = 1,
	                                        .blockDimX = 32,
	                                        .blockDimY = 1,
	                                        .blockDimZ = 1,
	                                        .kernelParams = parameters,
	                                        .kern = kernel,
	                                        .ctx = context}};
	OK(cuGraphAddNode_v2(&second, graph, NULL, NULL, 0, &generic));
	CUDA_KERNEL_NODE_PARAMS found;
	OK(cuGraphKernelNodeGetParams_v2(second, &found));
	CHECK(found.kern == kernel && !found.func && *(uint32_t *)found.kernelParams[1] == 50);
	/* What a launch refuses, a node refuses. */
	generic.kernel.blockDimX = 0;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&second, graph, NULL, 0, &generic));
	generic.kernel.blockDimX = 32;
	generic.reserved2 = 1;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&second, graph, NULL, 0, &generic));
	CUgraphExec exec = instantiate(graph);
	OK(cuMemsetD8Async(memory, 0, sizeof(words), stream));
	launch_and_wait(exec, stream);
	OK(cuMemcpyDtoH_v2(words, memory, sizeof(words)));
	for (uint32_t i = 0; i < 64; i++)
		CHECK(words[i] == (i < 32 ? 30 + i : 50 + i - 32));
	/* New parameters for the graph's node are not those of the executable one, and the other
	 * way round. */
	found_v1.extra = NULL;
	found_v1.kernelParams = parameters;
	value = 70;
	OK(cuGraphKernelNodeSetParams(first, &found_v1));
	launch_and_wait(exec, stream);
	OK(cuMemcpyDtoH_v2(words, memory, sizeof(words)));
	CHECK(words[0] == 30 && words[32] == 50);
	value = 90;
	OK(cuGraphExecKernelNodeSetParams(exec, first, &found_v1));
	OK(cuMemsetD8Async(memory, 0, sizeof(words), stream));
	launch_and_wait(exec, stream);
	OK(cuMemcpyDtoH_v2(words, memory, sizeof(words)));
	CHECK(words[0] == 0 && (words[32] == 50 || words[32] == 90)); /* both write there */
	OK(cuGraphKernelNodeGetParams(first, &found_v1));
	CHECK(*(uint32_t *)found_v1.kernelParams[1] == 70);
	/* Attributes are kept and copied. */
	CUkernelNodeAttrValue priority = {0}, got;
	priority.priority = -3;
	OK(cuGraphKernelNodeSetAttribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority));
	OK(cuGraphKernelNodeGetAttribute(first, CU_LAUNCH_ATTRIBUTE_PRIORITY, &got));
	CHECK(got.priority == -3);
	OK(cuGraphKernelNodeGetAttribute(first, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &got));
	CHECK(got.cooperative == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphKernelNodeGetAttribute(first, 999, &got));
	/* Code that is gone is not run. */
	OK(cuLibraryUnload(library));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch(exec, stream));
}

/* Copies, fills and host calls: what is read back, and what may change in an executable graph. */
static void other_nodes(void)
{
	CUcontext context = start();
	CUgraph graph = new_graph();
	CUstream stream = new_stream();
	CUdeviceptr a, b;
	uint32_t word;
	int calls = 0, other_calls = 0;
	OK(cuMemAlloc_v2(&a, 4096));
	OK(cuMemAlloc_v2(&b, 4096));
	CUDA_MEMSET_NODE_PARAMS fill = {
	    .dst = a, .value = 0x01020304, .elementSize = 4, .width = 64, .height = 1};
	CUDA_MEMCPY3D copy = copy_between(b, a, 256), found_copy;
	CUDA_HOST_NODE_PARAMS host = {.fn = count_call, .userData = &calls}, found_host;
	CUgraphNode fill_node, copy_node, host_node, wrong;
	OK(cuGraphAddMemsetNode(&fill_node, graph, NULL, 0, &fill, context));
	OK(cuGraphAddMemcpyNode(&copy_node, graph, &fill_node, 1, &copy, context));
	OK(cuGraphAddHostNode(&host_node, graph, &copy_node, 1, &host));
	OK(cuGraphMemcpyNodeGetParams(copy_node, &found_copy));
	CHECK(found_copy.dstDevice == b && found_copy.WidthInBytes == 256);
	OK(cuGraphHostNodeGetParams(host_node, &found_host));
	CHECK(found_host.fn == count_call && found_host.userData == &calls);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphHostNodeGetParams(copy_node, &found_host));
	fill.elementSize = 3;
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuGraphAddMemsetNode(&wrong, graph, NULL, 0, &fill, context));
	copy.WidthInBytes = 8192;
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuGraphAddMemcpyNode(&wrong, graph, NULL, 0, &copy, context));
	host.fn = NULL;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddHostNode(&wrong, graph, NULL, 0, &host));
	CUgraphExec exec = instantiate(graph);
	launch_and_wait(exec, stream);
	OK(cuMemcpyDtoH_v2(&word, b + 252, 4));
	CHECK(word == 0x01020304 && calls == 1);
	/* Changes of the executable graph alone. */
	fill.elementSize = 4;
	fill.value = 5;
	OK(cuGraphExecMemsetNodeSetParams(exec, fill_node, &fill, context));
	copy = copy_between(b + 1024, a, 256);
	OK(cuGraphExecMemcpyNodeSetParams(exec, copy_node, &copy, context));
	host = (CUDA_HOST_NODE_PARAMS){.fn = count_call, .userData = &other_calls};
	OK(cuGraphExecHostNodeSetParams(exec, host_node, &host));
	launch_and_wait(exec, stream);
	OK(cuMemcpyDtoH_v2(&word, b, 4));
	CHECK(word == 0x01020304);
	OK(cuMemcpyDtoH_v2(&word, b + 1024, 4));
	CHECK(word == 5 && calls == 1 && other_calls == 1);
	OK(cuGraphMemcpyNodeGetParams(copy_node, &found_copy));
	CHECK(found_copy.dstDevice == b);
	copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuGraphExecMemcpyNodeSetParams(exec, copy_node, &copy, context));
	copy.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	copy.Height = 2;
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuGraphExecMemcpyNodeSetParams(exec, copy_node, &copy, context));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecHostNodeSetParams(exec, copy_node, &host));
	/* Disabled nodes are empty ones. */
	unsigned int enabled;
	OK(cuGraphNodeGetEnabled(exec, fill_node, &enabled));
	CHECK(enabled == 1);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetEnabled(exec, host_node, 0));
	OK(cuGraphNodeSetEnabled(exec, fill_node, 0));
	OK(cuGraphNodeGetEnabled(exec, fill_node, &enabled));
	CHECK(enabled == 0);
	OK(cuMemsetD32Async(a, 77, 64, stream));
	launch_and_wait(exec, stream);
	OK(cuMemcpyDtoH_v2(&word, b + 1024, 4));
	CHECK(word == 77 && other_calls == 2);
	OK(cuGraphNodeSetEnabled(exec, fill_node, 1));
	launch_and_wait(exec, stream);
	OK(cuMemcpyDtoH_v2(&word, b + 1024, 4));
	CHECK(word == 5);
	/* A node that was removed from the graph stands for none. */
	OK(cuGraphDestroyNode(host_node));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecHostNodeSetParams(exec, host_node, &host));
	/* Kinds that are not there say so. */
	CUgraphNodeParams other = {.type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphAddNode(&wrong, graph, NULL, 0, &other));
	other.type = 99;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&wrong, graph, NULL, 0, &other));
}

/* Events that nodes record and wait for connect graphs with streams. */
static void event_nodes(void)
{
	start();
	CUgraph recording = new_graph(), waiting = new_graph();
	CUstream stream = new_stream(), other = new_stream();
	CUevent event, second, found;
	CUgraphNode node, record, wait;
	int calls = 0;
	sem_t gate;
	sem_init(&gate, 0, 0);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&second, CU_EVENT_DISABLE_TIMING));
	node = add_host(recording, NULL, 0, wait_for, &gate);
	OK(cuGraphAddEventRecordNode(&record, recording, &node, 1, event));
	OK(cuGraphAddEventWaitNode(&wait, waiting, NULL, 0, event));
	add_host(waiting, &wait, 1, count_call, &calls);
	OK(cuGraphEventRecordNodeGetEvent(record, &found));
	CHECK(found == event);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphEventWaitNodeGetEvent(record, &found));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
	       cuGraphAddEventRecordNode(&node, recording, NULL, 0, (CUevent)0x1234));
	CUgraphExec recorder = instantiate(recording), waiter = instantiate(waiting);
	OK(cuGraphLaunch(recorder, stream));
	OK(cuGraphLaunch(waiter, other));
	EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(other));
	CHECK(read_counter(&calls) == 0);
	sem_post(&gate);
	OK(cuStreamSynchronize(other));
	OK(cuEventQuery(event));
	CHECK(read_counter(&calls) == 1);
	/* Another event, in the executable graph alone. */
	OK(cuGraphExecEventRecordNodeSetEvent(recorder, record, second));
	OK(cuGraphExecEventWaitNodeSetEvent(waiter, wait, second));
	OK(cuGraphLaunch(recorder, stream));
	OK(cuEventQuery(event));
	EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(second));
	sem_post(&gate);
	OK(cuStreamSynchronize(stream));
	OK(cuEventDestroy_v2(second));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch(recorder, stream));
}

/* Child graphs and clones are copies, whose nodes are found by those they were copied from. */
static void children_and_clones(void)
{
	start();
	CUgraph inner = new_graph(), outer = new_graph(), clone, held;
	CUstream stream = new_stream();
	int calls = 0, late_calls = 0;
	CUgraphNode a = add_host(inner, NULL, 0, count_call, &calls), child, found, within;
	OK(cuGraphAddChildGraphNode(&child, outer, NULL, 0, inner));
	add_host(inner, &a, 1, count_call, &late_calls); /* too late for the child */
	add_host(outer, &child, 1, count_call, &calls);
	OK(cuGraphChildGraphNodeGetGraph(child, &held));
	CHECK(held != inner);
	size_t count = 1;
	OK(cuGraphGetNodes(held, &within, &count));
	CHECK(count == 1);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(held));
	OK(cuGraphClone(&clone, outer));
	OK(cuGraphNodeFindInClone(&found, child, clone));
	CHECK(found != child);
	OK(cuGraphNodeFindInClone(&found, within, clone));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphNodeFindInClone(&found, a, clone));
	OK(cuGraphDestroy(inner));
	CUgraphExec exec = instantiate(clone);
	OK(cuGraphDestroy(clone));
	launch_and_wait(exec, stream);
	CHECK(calls == 2 && late_calls == 0);
	OK(cuGraphExecDestroy(exec));
	/* A node within a child graph can be changed in the executable graph. */
	exec = instantiate(outer);
	CUDA_HOST_NODE_PARAMS host = {.fn = count_call, .userData = &late_calls};
	OK(cuGraphExecHostNodeSetParams(exec, within, &host));
	launch_and_wait(exec, stream);
	CHECK(calls == 3 && late_calls == 1);
	/* Or all of it at once. */
	CUgraph fresh = new_graph();
	add_host(fresh, NULL, 0, count_call, &calls);
	OK(cuGraphExecChildGraphNodeSetParams(exec, child, fresh));
	launch_and_wait(exec, stream);
	CHECK(calls == 5 && late_calls == 1);
	add_host(fresh, NULL, 0, count_call, &calls);
	CHECK(cuGraphExecChildGraphNodeSetParams(exec, child, fresh) != CUDA_SUCCESS);
	launch_and_wait(exec, stream);
	CHECK(calls == 7);
	/* Moved, a graph belongs to its node. */
	CUgraphNodeParams moved = {
	    .type = CU_GRAPH_NODE_TYPE_GRAPH,
	    .graph = {.graph = fresh, .ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE}};
	OK(cuGraphAddNode(&child, outer, NULL, 0, &moved));
	OK(cuGraphChildGraphNodeGetGraph(child, &held));
	CHECK(held == fresh);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(fresh));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, fresh, 0));
	moved.graph.graph = outer;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode(&child, fresh, NULL, 0, &moved));
	OK(cuGraphDestroy(outer));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(fresh));
}

static void expect_changed(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResult why)
{
	CUgraphExecUpdateResultInfo info;
	CUgraphExecUpdateResult result;
	CUgraphNode node;
	EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, graph, &info));
	CHECK(info.result == why);
	EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
	       cuGraphExecUpdate(exec, graph, &node, &result));
	CHECK(result == why && node == info.errorNode);
	OK(cuGraphDestroy(graph));
}

/* A whole graph takes over in one of the same shape, and nothing of one of another shape. */
static void whole_updates(void)
{
	start();
	CUstream stream = new_stream();
	CUdeviceptr memory;
	uint32_t words[128];
	int first = 0, second = 0;
	CUgraphExecUpdateResultInfo info;
	OK(cuMemAlloc_v2(&memory, 4096));
	CUgraph graph = chain(memory, 100, &first), newer = chain(memory + 1024, 200, &second);
	CUgraphExec exec = instantiate(graph);
	launch_and_wait(exec, stream);
	OK(cuGraphExecUpdate_v2(exec, newer, &info));
	CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
	OK(cuGraphDestroy(newer));
	launch_and_wait(exec, stream);
	CHECK(first == 1 && second == 1);
	for (int part = 0; part < 2; part++) {
		OK(cuMemcpyDtoH_v2(words, memory + (part ? 1024 : 0), sizeof(words)));
		for (uint32_t i = 0; i < 128; i++)
			CHECK(words[i] == (part ? 200 : 100) + i % 64);
	}
	/* More nodes; other edges; another kind; another shape of a copy. */
	newer = chain(memory, 300, &second);
	add_empty(newer, NULL, 0);
	expect_changed(exec, newer, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	newer = new_graph();
	CUgraphNode a = add_fill(newer, NULL, 0, memory, 300, 64), b;
	CUDA_MEMCPY3D what = copy_between(memory, memory + 256, 256);
	OK(cuGraphAddMemcpyNode(&b, newer, NULL, 0, &what, NULL));
	CUgraphNode both[] = {a, b};
	add_host(newer, both, 2, count_call, &second);
	expect_changed(exec, newer, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
	newer = new_graph();
	a = add_fill(newer, NULL, 0, memory, 300, 64);
	a = add_fill(newer, &a, 1, memory, 300, 64);
	add_host(newer, &a, 1, count_call, &second);
	expect_changed(exec, newer, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
	newer = new_graph();
	a = add_fill(newer, NULL, 0, memory, 300, 64);
	what.Height = 2;
	what.srcPitch = what.dstPitch = 256;
	what.WidthInBytes = 16;
	OK(cuGraphAddMemcpyNode(&b, newer, &a, 1, &what, NULL));
	add_host(newer, &b, 1, count_call, &second);
	expect_changed(exec, newer, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
	launch_and_wait(exec, stream); /* as before all those */
	OK(cuMemcpyDtoH_v2(words, memory, sizeof(words)));
	CHECK(words[0] == 100 && first == 1 && second == 2);
}

static bool reaches(int *counter, int wanted)
{
	for (int i = 0; i < 5000 && read_counter(counter) != wanted; i++)
		nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
	return read_counter(counter) == wanted;
}

/* User objects live as long as some graph or launch needs them. */
static void user_objects(void)
{
	start();
	CUuserObject object;
	CUgraph graph = new_graph(), clone;
	CUstream stream = new_stream();
	int destroyed = 0;
	sem_t gate;
	sem_init(&gate, 0, 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuUserObjectCreate(&object, &destroyed, count_call, 1, 0));
	OK(cuUserObjectCreate(&object, &destroyed, count_call, 2,
	                      CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuUserObjectRetain(object, 0));
	OK(cuUserObjectRelease(object, 1));
	OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	OK(cuGraphRetainUserObject(graph, object, 2, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphReleaseUserObject(graph, object, 4));
	OK(cuGraphReleaseUserObject(graph, object, 2));
	add_host(graph, NULL, 0, wait_for, &gate);
	OK(cuGraphClone(&clone, graph));
	CUgraphExec exec = instantiate(graph);
	OK(cuGraphDestroy(graph));
	OK(cuGraphDestroy(clone));
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecDestroy(exec));
	nanosleep(&(struct timespec){.tv_nsec = 30000000}, NULL);
	CHECK(read_counter(&destroyed) == 0); /* the launch still has it */
	sem_post(&gate);
	CHECK(reaches(&destroyed, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(object, 1));
}

static void dot_file(void)
{
	start();
	CUdeviceptr memory;
	int calls = 0;
	char path[512], text[4096];
	OK(cuMemAlloc_v2(&memory, 4096));
	CUgraph graph = chain(memory, 1, &calls), outer = new_graph();
	CUgraphNode child;
	OK(cuGraphAddChildGraphNode(&child, outer, NULL, 0, graph));
	snprintf(path, sizeof(path), "%s/graph-%d.dot",
	         getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", getpid());
	OK(cuGraphDebugDotPrint(outer, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE));
	FILE *file = fopen(path, "re");
	CHECK(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	unlink(path);
	const char *const wanted[] = {"digraph", "GRAPH", "KERNEL", "fill", "MEMCPY", "HOST", "->"};
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		CHECK(strstr(text, wanted[i]));
	EXPECT(CUDA_ERROR_OPERATING_SYSTEM, cuGraphDebugDotPrint(outer, "/nowhere/graph.dot", 0));
}

int main(void)
{
	int failed = 0;
	failed += RUN(shape, NULL);
	failed += RUN(edge_data, NULL);
	failed += RUN(circles, NULL);
	failed += RUN(kernel_nodes, NULL);
	failed += RUN(other_nodes, NULL);
	failed += RUN(event_nodes, NULL);
	failed += RUN(children_and_clones, NULL);
	failed += RUN(whole_updates, NULL);
	failed += RUN(user_objects, NULL);
	failed += RUN(dot_file, NULL);
	return failed != 0;
}
