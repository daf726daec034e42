/* SPDX-License-Identifier: MIT */
/* Conditional nodes of graphs: the bodies that run by the values that kernels set, and refusals. */
#include "tests/softgpu/test.h"

/*
 * put(handle, in): sets the handle to *in       add(out, value): *out = *out * 31 + value
 * collatz(x, steps, handle): one step towards 1, and the handle says whether it is not reached
 * count(left, handle): *left -= 1, and the handle is whether something is left
 */
static const char kernels[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".extern .func cudaGraphSetConditional (.param .b64 handle, .param .b32 value);\n"
#define SET                                                                       \
	"	{ .param .b64 h; .param .b32 v;\n	st.param.b64 [h], %rd1;\n"            \
	"	st.param.b32 [v], %r1;\n	call.uni cudaGraphSetConditional, (h, v); }\n" \
	"	ret;\n}\n"
    ".visible .entry put(.param .u64 handle, .param .u64 in)\n{\n"
    "	.reg .b32 %r<2>;\n	.reg .b64 %rd<3>;\n"
    "	ld.param.u64 %rd1, [handle];\n	ld.param.u64 %rd2, [in];\n"
    "	ld.global.u32 %r1, [%rd2];\n" SET
    ".visible .entry add(.param .u64 out, .param .u32 value)\n{\n"
    "	.reg .b32 %r<4>;\n	.reg .b64 %rd<2>;\n"
    "	ld.param.u64 %rd1, [out];\n	ld.param.u32 %r1, [value];\n"
    "	ld.global.u32 %r2, [%rd1];\n	mad.lo.u32 %r3, %r2, 31, %r1;\n"
    "	st.global.u32 [%rd1], %r3;\n	ret;\n}\n"
    ".visible .entry collatz(.param .u64 x, .param .u64 steps, .param .u64 handle)\n{\n"
    "	.reg .pred %p<3>;\n	.reg .b32 %r<8>;\n	.reg .b64 %rd<4>;\n"
    "	ld.param.u64 %rd2, [x];\n	ld.param.u64 %rd3, [steps];\n"
    "	ld.param.u64 %rd1, [handle];\n	ld.global.u32 %r2, [%rd2];\n"
    "	and.b32 %r3, %r2, 1;\n	setp.eq.u32 %p1, %r3, 1;\n"
    "	shr.u32 %r4, %r2, 1;\n	mad.lo.u32 %r5, %r2, 3, 1;\n"
    "	selp.u32 %r6, %r5, %r4, %p1;\n	st.global.u32 [%rd2], %r6;\n"
    "	ld.global.u32 %r7, [%rd3];\n	add.u32 %r7, %r7, 1;\n	st.global.u32 [%rd3], %r7;\n"
    "	setp.ne.u32 %p2, %r6, 1;\n	selp.u32 %r1, 1, 0, %p2;\n" SET
    ".visible .entry count(.param .u64 left, .param .u64 handle)\n{\n"
    "	.reg .pred %p;\n	.reg .b32 %r<3>;\n	.reg .b64 %rd<3>;\n"
    "	ld.param.u64 %rd2, [left];\n	ld.param.u64 %rd1, [handle];\n"
    "	ld.global.u32 %r2, [%rd2];\n	sub.u32 %r2, %r2, 1;\n"
    "	st.global.u32 [%rd2], %r2;\n	setp.ne.u32 %p, %r2, 0;\n"
    "	selp.u32 %r1, 1, 0, %p;\n" SET;

static CUmodule module;
static CUstream stream;

static CUfunction function(const char *name)
{
	CUfunction found;
	OK(cuModuleGetFunction(&found, module, name));
	return found;
}

static CUgraph begin(void)
{
	CUgraph graph;
	start();
	OK(cuModuleLoadData(&module, kernels));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuGraphCreate(&graph, 0));
	return graph;
}

/* Words of device memory. */
static CUdeviceptr words(int count)
{
	CUdeviceptr made;
	OK(cuMemAlloc_v2(&made, (size_t)count * 4));
	OK(cuMemsetD32_v2(made, 0, (size_t)count));
	return made;
}

static void store(CUdeviceptr at, unsigned int value)
{
	OK(cuMemcpyHtoD_v2(at, &value, 4));
}

static unsigned int load(CUdeviceptr at)
{
	unsigned int value;
	OK(cuMemcpyDtoH_v2(&value, at, 4));
	return value;
}

static CUgraphConditionalHandle handle_for(CUgraph graph, unsigned int initial, unsigned int flags)
{
	CUgraphConditionalHandle handle;
	OK(cuGraphConditionalHandleCreate(&handle, graph, NULL, initial, flags));
	return handle;
}

static CUgraphNode add_kernel(CUgraph graph, CUgraphNode after, const char *name, void **arguments)
{
	CUgraphNode node;
	CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = function(name),
	                                     .gridDimX = 1,
	                                     .gridDimY = 1,
	                                     .gridDimZ = 1,
	                                     .blockDimX = 1,
	                                     .blockDimY = 1,
	                                     .blockDimZ = 1,
	                                     .kernelParams = arguments};
	OK(cuGraphAddKernelNode_v2(&node, graph, &after, after != NULL, &params));
	return node;
}

static CUgraphNodeParams conditional(CUgraphConditionalHandle handle,
                                     CUgraphConditionalNodeType type, unsigned int size)
{
	return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
	                           .conditional = {.handle = handle, .type = type, .size = size}};
}

static CUgraphNode add_conditional(CUgraph graph, CUgraphNode after,
                                   CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                                   unsigned int size, CUgraph *bodies)
{
	CUgraphNodeParams params = conditional(handle, type, size);
	CUgraphNode node;
	OK(cuGraphAddNode(&node, graph, &after, after != NULL, &params));
	for (unsigned int i = 0; i < size; i++)
		bodies[i] = params.conditional.phGraph_out[i];
	return node;
}

static CUgraphExec exec_of(CUgraph graph)
{
	CUgraphExec exec;
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

static void launch(CUgraphExec exec)
{
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
}

/* put -> switch or if of `size` bodies, each of which adds another number -> add 9 */
static void choose(CUgraphConditionalNodeType type, unsigned int size)
{
	CUgraph graph = begin(), bodies[8];
	CUdeviceptr memory = words(2), in = memory, out = memory + 4;
	CUgraphConditionalHandle handle = handle_for(graph, 0, 0);
	CUgraphNode node = add_kernel(graph, NULL, "put", (void *[]){&handle, &in});
	node = add_conditional(graph, node, handle, type, size, bodies);
	for (unsigned int i = 0; i < size; i++) {
		unsigned int value = 100 + i;
		CUgraphNode first = add_kernel(bodies[i], NULL, "add", (void *[]){&out, &value});
		value += 50;
		add_kernel(bodies[i], first, "add", (void *[]){&out, &value});
	}
	unsigned int nine = 9, expected = 0;
	add_kernel(graph, node, "add", (void *[]){&out, &nine});
	CUgraphExec exec = exec_of(graph);
	for (int round = 0; round < 40; round++) {
		unsigned int value = (unsigned int)rand() % (size + 3), body = value;
		if (type == CU_GRAPH_COND_TYPE_IF)
			body = value == 0;
		store(in, value);
		launch(exec);
		if (body < size)
			expected = (expected * 31 + 100 + body) * 31 + 150 + body;
		expected = expected * 31 + 9;
		CHECK(load(out) == expected);
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
}

static void ifs(void)
{
	choose(CU_GRAPH_COND_TYPE_IF, 1);
}

static void if_elses(void)
{
	choose(CU_GRAPH_COND_TYPE_IF, 2);
}

static void switches(void)
{
	choose(CU_GRAPH_COND_TYPE_SWITCH, 5);
}

/* A loop until 1 is reached; the handle begins as 1 with each launch. */
static void whiles(void)
{
	CUgraph graph = begin(), body;
	CUdeviceptr memory = words(2), x = memory, steps = memory + 4;
	CUgraphConditionalHandle handle = handle_for(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	add_conditional(graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
	add_kernel(body, NULL, "collatz", (void *[]){&x, &steps, &handle});
	CUgraphExec exec = exec_of(graph);
	unsigned int expected = 0;
	for (int round = 0; round < 8; round++) {
		unsigned int value = 2 + (unsigned int)rand() % 5000;
		store(x, value);
		launch(exec);
		for (; value != 1; expected++)
			value = value % 2 ? value * 3 + 1 : value / 2;
		CHECK(load(x) == 1 && load(steps) == expected);
	}
	/* Several launches in a row, each after the one before: from 1 there are three steps. */
	for (int i = 0; i < 5; i++)
		OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecDestroy(exec));
	OK(cuStreamSynchronize(stream));
	CHECK(load(x) == 1 && load(steps) == expected + 15);
}

/* A loop in a loop, with a branch in it and fills and copies and a child graph. */
static void nested(void)
{
	CUgraph graph = begin(), outer, inner, branch[2], child;
	CUdeviceptr memory = words(8), rows = memory, columns = memory + 4, out = memory + 8;
	CUdeviceptr width = memory + 12;
	CUcontext context;
	OK(cuCtxGetCurrent(&context));
	CUgraphConditionalHandle by_row = handle_for(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	add_conditional(graph, NULL, by_row, CU_GRAPH_COND_TYPE_WHILE, 1, &outer);
	/* Handles may be made for the graph or for one within it. */
	CUgraphConditionalHandle by_column = handle_for(graph, 0, 0);
	CUgraphConditionalHandle by_parity = handle_for(outer, 0, 0);
	CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                      .srcDevice = width,
	                      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                      .dstDevice = columns,
	                      .WidthInBytes = 4,
	                      .Height = 1,
	                      .Depth = 1};
	CUgraphNode node, copied;
	OK(cuGraphAddMemcpyNode(&copied, outer, NULL, 0, &copy, context));
	node = add_kernel(outer, copied, "put", (void *[]){&by_column, &columns});
	node = add_conditional(outer, node, by_column, CU_GRAPH_COND_TYPE_WHILE, 1, &inner);
	unsigned int two = 2, three = 3, five = 5, seven = 7;
	OK(cuGraphCreate(&child, 0));
	add_kernel(child, NULL, "add", (void *[]){&out, &two});
	CUgraphNode added;
	OK(cuGraphAddChildGraphNode(&added, inner, NULL, 0, child));
	CUgraphNode counted = add_kernel(inner, added, "count", (void *[]){&columns, &by_column});
	CUgraphNode put = add_kernel(inner, counted, "put", (void *[]){&by_parity, &columns});
	add_conditional(inner, put, by_parity, CU_GRAPH_COND_TYPE_SWITCH, 2, branch);
	add_kernel(branch[0], NULL, "add", (void *[]){&out, &three});
	add_kernel(branch[1], NULL, "add", (void *[]){&out, &five});
	node = add_kernel(outer, node, "add", (void *[]){&out, &seven});
	add_kernel(outer, node, "count", (void *[]){&rows, &by_row});
	CUgraphExec exec = exec_of(graph);
	unsigned int expected = 0;
	for (int round = 0; round < 6; round++) {
		unsigned int height = 1 + (unsigned int)rand() % 4,
		             wide = 1 + (unsigned int)rand() % 6;
		store(rows, height);
		store(width, wide);
		launch(exec);
		for (unsigned int row = height; row; row--) {
			for (unsigned int column = wide; column--;) {
				expected = expected * 31 + 2;
				if (column < 2)
					expected = expected * 31 + (column ? 5 : 3);
			}
			expected = expected * 31 + 7;
		}
		CHECK(load(out) == expected);
	}
	/* A change of a node in a body is one of the executable graph, for later launches. */
	unsigned int eleven = 11;
	CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = function("add"),
	                                     .gridDimX = 1,
	                                     .gridDimY = 1,
	                                     .gridDimZ = 1,
	                                     .blockDimX = 1,
	                                     .blockDimY = 1,
	                                     .blockDimZ = 1,
	                                     .kernelParams = (void *[]){&out, &eleven}};
	store(rows, 3);
	store(width, 1);
	OK(cuGraphLaunch(exec, stream));
	OK(cuGraphExecKernelNodeSetParams_v2(exec, node, &params));
	OK(cuStreamSynchronize(stream));
	for (int row = 0; row < 3; row++)
		expected = ((expected * 31 + 2) * 31 + 3) * 31 + 7;
	CHECK(load(out) == expected);
	store(rows, 1);
	launch(exec);
	CHECK(load(out) == ((expected * 31 + 2) * 31 + 3) * 31 + 11);
}

/* A body that is captured from a stream. */
static void captured(void)
{
	CUgraph graph = begin(), body, same;
	CUdeviceptr memory = words(2), left = memory, out = memory + 4;
	CUgraphConditionalHandle handle = handle_for(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	add_conditional(graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
	unsigned int value = 4, expected = 0;
	OK(cuStreamBeginCaptureToGraph(stream, body, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuLaunchKernel(function("add"), 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&out, &value},
	                  NULL));
	OK(cuLaunchKernel(function("count"), 1, 1, 1, 1, 1, 1, 0, stream,
	                  (void *[]){&left, &handle}, NULL));
	OK(cuStreamEndCapture(stream, &same));
	CHECK(same == body);
	store(left, 17);
	launch(exec_of(graph));
	for (int i = 0; i < 17; i++)
		expected = expected * 31 + 4;
	CHECK(load(out) == expected);
}

static CUresult try(CUgraph graph, CUgraphConditionalHandle handle, CUgraphConditionalNodeType type,
                    unsigned int size)
{
	CUgraphNodeParams params = conditional(handle, type, size);
	CUgraphNode node;
	return cuGraphAddNode(&node, graph, NULL, 0, &params);
}

static void nothing(void *unused)
{
	(void)unused;
}

static void refusals(void)
{
	CUgraph graph = begin(), other, body, copy;
	CUgraphConditionalHandle handle, unused;
	CUgraphNode node;
	CUgraphExec exec, second;
	OK(cuGraphCreate(&other, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphConditionalHandleCreate(NULL, graph, NULL, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphConditionalHandleCreate(&handle, NULL, NULL, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuGraphConditionalHandleCreate(&handle, graph, NULL, 0, 2));
	handle = handle_for(graph, 0, 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, try(graph, 0, CU_GRAPH_COND_TYPE_IF, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, try(graph, handle, CU_GRAPH_COND_TYPE_IF, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, try(graph, handle, CU_GRAPH_COND_TYPE_IF, 3));
	EXPECT(CUDA_ERROR_INVALID_VALUE, try(graph, handle, CU_GRAPH_COND_TYPE_WHILE, 2));
	EXPECT(CUDA_ERROR_INVALID_VALUE, try(graph, handle, CU_GRAPH_COND_TYPE_SWITCH, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, try(graph, handle, 9, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, try(other, handle, CU_GRAPH_COND_TYPE_IF, 1));
	CUgraphNode one = add_conditional(graph, NULL, handle, CU_GRAPH_COND_TYPE_IF, 1, &body);
	EXPECT(CUDA_ERROR_INVALID_VALUE, try(graph, handle, CU_GRAPH_COND_TYPE_IF, 1));
	/* A body takes what a device runs by itself. */
	CUDA_HOST_NODE_PARAMS host = {.fn = nothing};
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddHostNode(&node, body, NULL, 0, &host));
	CUDA_MEM_ALLOC_NODE_PARAMS_v1 allocation = {
	    .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
	    .bytesize = MIB};
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddMemAllocNode(&node, body, NULL, 0, &allocation));
	OK(cuGraphAddHostNode(&node, other, NULL, 0, &host));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddChildGraphNode(&node, body, NULL, 0, other));
	OK(cuGraphAddEmptyNode(&node, body, NULL, 0));
	/* It belongs to its node; its graph is no child, is not cloned, has one instance. */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(body));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, body, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphClone(&copy, graph));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddChildGraphNode(&node, other, NULL, 0, graph));
	exec = exec_of(graph);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&second, graph, 0));
	OK(cuGraphExecDestroy(exec));
	/* Each handle wants a node, and has it until that is destroyed. */
	unused = handle_for(body, 0, 0);
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithParams(&exec, graph, &params));
	CHECK(params.result_out == CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED);
	OK(try(body, unused, CU_GRAPH_COND_TYPE_WHILE, 1));
	OK(cuGraphDestroyNode(one));
	OK(try(graph, handle, CU_GRAPH_COND_TYPE_SWITCH, 3));
	launch(exec_of(graph));
	/* A kernel that sets what is no handle. */
	CUdeviceptr in = words(1);
	CUgraphConditionalHandle wrong = handle + 1000;
	OK(cuLaunchKernel(function("put"), 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&wrong, &in},
	                  NULL));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
}

/* A body that breaks the context ends the loop. */
static void breaks(void)
{
	CUgraph graph = begin(), body;
	CUdeviceptr nowhere = 0;
	unsigned int value = 1;
	CUgraphConditionalHandle handle = handle_for(graph, 1, CU_GRAPH_COND_ASSIGN_DEFAULT);
	add_conditional(graph, NULL, handle, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
	add_kernel(body, NULL, "add", (void *[]){&nowhere, &value});
	CUgraphExec exec = exec_of(graph);
	OK(cuGraphLaunch(exec, stream));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
}

int main(void)
{
	int failed = 0;
	failed += RUN(ifs, NULL);
	failed += RUN(if_elses, NULL);
	failed += RUN(switches, NULL);
	failed += RUN(whiles, NULL);
	failed += RUN(nested, NULL);
	failed += RUN(captured, NULL);
	failed += RUN(refusals, "SOFTGPU_QUIET=1");
	failed += RUN(breaks, "SOFTGPU_QUIET=1");
	return failed != 0;
}
