/* SPDX-License-Identifier: MIT */
/*
 * Graphs: nodes go with their graph, and know the kernel they launch or the memory they allocate;
 * an executable graph knows the sum, and that it was changed. Addresses in nodes stay valid:
 * Spillway never moves memory to another address.
 */
#include "shim/owner.h"
#include "shim/sampled.h"
#include "shim/shape.h"
#include "shim/track.h"

#include "core/job/job.h"
#include "core/memory/copy/async.h"
#include "core/memory/uses/graph_memory.h"

/*
 * --- memory that a graph uses, which it is credited with (core/memory/arena/heat.h). It is not
 * sampled. The caller keeps errno ---
 */

/* A node's use of memory: a kernel's parameters, or addresses, or another graph. */
struct node_use {
	CUfunction function;
	void **parameters, **extra;
	CUdeviceptr a, b;
	CUgraph child;
	const CUDA_MEMCPY3D *copy; /* a copy node's */
};

#define KERNEL_USE(p)                                             \
	((p) ? (struct node_use){.function = (p)->func,           \
	                         .parameters = (p)->kernelParams, \
	                         .extra = (p)->extra}             \
	     : (struct node_use){0})

/* Deeper than conditional nodes are nested. */
enum { DEPTH_MAX = 32 };

/* Finds the whole graph, which uses what a conditional node's body uses. */
static const void *whole_of(CUgraph graph)
{
	uint64_t whole = HANDLE(graph);

	for (int i = 0; i < DEPTH_MAX; i++) {
		uint64_t node = owner_of(&object_type_graph_body, whole);

		if (node == whole)
			break;
		whole = owner_of(&object_type_graph_node, node);
	}
	return (const void *)(uintptr_t)whole;
}

static void credit(const void *graph, CUgraphNode node, const struct node_use *use, bool is_changed)
{
	if (use->function)
		placement_tell(graph_kernel, graph, node, use->function, use->parameters,
		               use->extra, is_changed);
	if (use->a)
		placement_tell(graph_address, graph, use->a);
	if (use->b)
		placement_tell(graph_address, graph, use->b);
	if (use->child)
		placement_tell(graph_add, graph, use->child);
}

/* Keeps the ends of a copy where they are that is the host's from here on. */
static void keep_ends(const struct node_use *use)
{
	struct async_copy shape;

	if (use->copy && async_is_concerned() && job_is_active() && shape_of_3d(use->copy, &shape))
		async_keep_ends(&shape);
}

/* node: where the driver wrote its handle, or NULL. */
static void sampled_node(CUgraph graph, const CUgraphNode *node, const struct node_use *use)
{
	keep_ends(use);
	if (sampled_is_wanted())
		credit(whole_of(graph), node ? *node : NULL, use, false);
}

/*
 * Credits a changed node. The node of a captured graph is not in the books: it may be any graph's.
 */
static void sampled_changed_node(CUgraphNode node, const struct node_use *use)
{
	uint64_t graph;

	keep_ends(use);
	if (!sampled_is_wanted())
		return;
	graph = owner_of(&object_type_graph_node, HANDLE(node));
	credit(graph == HANDLE(node) ? HEAT_ANY_GRAPH : whole_of((CUgraph)(uintptr_t)graph), node,
	       use, true);
}

static void sampled_exec_node(CUgraphExec exec, CUgraphNode node, const struct node_use *use)
{
	keep_ends(use);
	if (sampled_is_wanted())
		credit(exec, node, use, true);
}

/* Notes that `to` was made from `from`, or is now what that is. */
static void sampled_made_graph(const void *to, CUgraph from)
{
	if (sampled_is_wanted())
		placement_tell(graph_add, to, whole_of(from));
}

static void sampled_updated_graph(CUgraphExec exec, CUgraph from)
{
	if (sampled_is_wanted())
		placement_tell(graph_replace, exec, whole_of(from));
}

void sampled_captured_graph(CUgraph graph)
{
	if (sampled_is_wanted())
		placement_tell(graph_capture_ended, graph ? whole_of(graph) : NULL);
}

/* --- graphs --- */

CREATES(cuGraphCreate, graph, phGraph, (CUgraph *, phGraph), (unsigned int, flags))
HANDS_OUT(cuGraphConditionalHandleCreate, conditional, pHandle_out, graph, hGraph,
          (CUgraphConditionalHandle *, pHandle_out), (CUgraph, hGraph), (CUcontext, ctx),
          (unsigned int, defaultLaunchValue), (unsigned int, flags))

AFTER(cuGraphClone, (CUgraph *, phGraphClone), (CUgraph, originalGraph))
{
	if (!phGraphClone)
		return;
	track(&object_type_graph, HANDLE(*phGraphClone), 0);
	sampled_made_graph(*phGraphClone, originalGraph);
}

HOOK(cuGraphDestroy, CUgraph hGraph)
{
	CUresult result = DESTROYED(PASSING_GATE(REAL(cuGraphDestroy)(hGraph)), graph, hGraph);

	if (job_is_active())
		graph_memory_settle();
	return result;
}

/* --- nodes --- */

static uint64_t graph_threads_of(unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                 unsigned int block_x, unsigned int block_y, unsigned int block_z)
{
	uint64_t threads = (uint64_t)block_x * block_y * block_z;

	if (__builtin_mul_overflow(threads, (uint64_t)grid_x * grid_y, &threads) ||
	    __builtin_mul_overflow(threads, grid_z, &threads))
		return UINT64_MAX;
	return threads;
}

/* Weighs a node by its parameters; NULL ones are the driver's to judge. */
#define KERNEL(p)                                                                                  \
	((p) ? (struct object_weight){.kernels = 1,                                                \
	                              .threads = graph_threads_of((p)->gridDimX, (p)->gridDimY,    \
	                                                          (p)->gridDimZ, (p)->blockDimX,   \
	                                                          (p)->blockDimY, (p)->blockDimZ)} \
	     : (struct object_weight){0})

static struct object_weight graph_weight_of(const CUgraphNodeParams *p)
{
	if (p && p->type == CU_GRAPH_NODE_TYPE_KERNEL)
		return KERNEL(&p->kernel);
	if (p && p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return (struct object_weight){.bytes = p->alloc.bytesize};
	return (struct object_weight){0};
}

/* Says which memory it uses, likewise. */
#define COPY_USE(p)                                                                     \
	((p) ? (struct node_use){.a = (p)->dstDevice, .b = (p)->srcDevice, .copy = (p)} \
	     : (struct node_use){0})
#define FILL_USE(p)  ((p) ? (struct node_use){.a = (p)->dst, .b = 0} : (struct node_use){0})
#define CHILD_USE(g) ((struct node_use){.child = (g)})
#define NO_USE       ((struct node_use){0})

/* Returns the memory that a kernel node uses. A kernel goes by its function or by itself. */
static struct node_use kernel_use(const CUDA_KERNEL_NODE_PARAMS *p)
{
	struct node_use use = KERNEL_USE(p);

	if (p && !use.function)
		use.function = (CUfunction)p->kern;
	return use;
}

static struct node_use use_of(const CUgraphNodeParams *p)
{
	struct node_use use = NO_USE;

	if (p && p->type == CU_GRAPH_NODE_TYPE_KERNEL) {
		use = KERNEL_USE(&p->kernel);
		if (!use.function)
			use.function = (CUfunction)p->kernel.kern;
	} else if (p && p->type == CU_GRAPH_NODE_TYPE_MEMCPY) {
		use = COPY_USE(&p->memcpy.copyParams);
	} else if (p && p->type == CU_GRAPH_NODE_TYPE_MEMSET) {
		use = FILL_USE(&p->memset);
	} else if (p && p->type == CU_GRAPH_NODE_TYPE_GRAPH) {
		use = CHILD_USE(p->graph.graph);
	}
	return use;
}

/* Enters a node that was added to a graph, which may be the body of a conditional node. */
static void node_added(const CUgraphNode *node, CUgraph graph, const struct object_weight *weight)
{
	const struct resource_type *type = &object_type_graph;
	struct resource *known;

	if (!node)
		return;
	known = context_find_object(type, HANDLE(graph));
	if (!known)
		type = &object_type_graph_body;
	resource_release(known);
	track_owned(&object_type_graph_node, HANDLE(*node), weight, type, HANDLE(graph));
	if (weight->bytes)
		graph_memory_expect();
}

#define NOTHING ((struct object_weight){0})

/*
 * Hooks a call that adds a node: its weight, the memory it uses, and the parameters after those
 * with which every form begins.
 */
#define ADDS(symbol, weight, use, ...)                                 \
	AFTER(symbol, (CUgraphNode *, phGraphNode), (CUgraph, hGraph), \
	      (const CUgraphNode *, dependencies), __VA_ARGS__)        \
	{                                                              \
		const struct object_weight weight_ = weight;           \
		const struct node_use use_ = use;                      \
                                                                       \
		node_added(phGraphNode, hGraph, &weight_);             \
		sampled_node(hGraph, phGraphNode, &use_);              \
	}

ADDS(cuGraphAddKernelNode, KERNEL(nodeParams), KERNEL_USE(nodeParams), (size_t, numDependencies),
     (const CUDA_KERNEL_NODE_PARAMS_v1 *, nodeParams))
ADDS(cuGraphAddKernelNode_v2, KERNEL(nodeParams), kernel_use(nodeParams), (size_t, numDependencies),
     (const CUDA_KERNEL_NODE_PARAMS *, nodeParams))
ADDS(cuGraphAddMemcpyNode, NOTHING, COPY_USE(copyParams), (size_t, numDependencies),
     (const CUDA_MEMCPY3D *, copyParams), (CUcontext, ctx))
ADDS(cuGraphAddMemsetNode, NOTHING, FILL_USE(memsetParams), (size_t, numDependencies),
     (const CUDA_MEMSET_NODE_PARAMS *, memsetParams), (CUcontext, ctx))
ADDS(cuGraphAddHostNode, NOTHING, NO_USE, (size_t, numDependencies),
     (const CUDA_HOST_NODE_PARAMS *, nodeParams))
ADDS(cuGraphAddBatchMemOpNode, NOTHING, NO_USE, (size_t, numDependencies),
     (const CUDA_BATCH_MEM_OP_NODE_PARAMS *, nodeParams))
ADDS(cuGraphAddMemAllocNode, {.bytes = nodeParams ? nodeParams->bytesize : 0}, NO_USE,
     (size_t, numDependencies), (CUDA_MEM_ALLOC_NODE_PARAMS *, nodeParams))
ADDS(cuGraphAddMemFreeNode, NOTHING, NO_USE, (size_t, numDependencies), (CUdeviceptr, dptr))

/* Sums up the launches of a graph's own nodes; of one that was captured nothing is known. */
static struct object_weight graph_sum_of(CUgraph graph)
{
	struct object_weight sum = NOTHING;
	struct resource *known =
	    job_is_active() ? context_find_object(&object_type_graph, HANDLE(graph)) : NULL;

	if (known)
		sum = object_owned_weight(known, &object_type_graph_node);
	resource_release(known);
	return sum;
}

ADDS(cuGraphAddChildGraphNode, graph_sum_of(childGraph), CHILD_USE(childGraph),
     (size_t, numDependencies), (CUgraph, childGraph))

/* Enters a node of any kind, with the bodies that a conditional one was given. */
static void any_added(const CUgraphNode *node, CUgraph graph, const CUgraphNodeParams *p)
{
	const struct object_weight weight = graph_weight_of(p);
	const struct node_use use = use_of(p);

	node_added(node, graph, &weight);
	sampled_node(graph, node, &use);
	if (!node || !p || p->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return;
	for (unsigned int i = 0; p->conditional.phGraph_out && i < p->conditional.size; i++)
		track_owned(&object_type_graph_body, HANDLE(p->conditional.phGraph_out[i]), NULL,
		            &object_type_graph_node, HANDLE(*node));
}

AFTER(cuGraphAddNode, (CUgraphNode *, phGraphNode), (CUgraph, hGraph),
      (const CUgraphNode *, dependencies), (size_t, numDependencies),
      (CUgraphNodeParams *, nodeParams))
{
	any_added(phGraphNode, hGraph, nodeParams);
}

AFTER(cuGraphAddNode_v2, (CUgraphNode *, phGraphNode), (CUgraph, hGraph),
      (const CUgraphNode *, dependencies), (const CUgraphEdgeData *, dependencyData),
      (size_t, numDependencies), (CUgraphNodeParams *, nodeParams))
{
	any_added(phGraphNode, hGraph, nodeParams);
}

AFTER(cuGraphAddNode_v3, (CUgraphNode *, phGraphNode), (CUgraph, hGraph),
      (const CUgraphNode *, dependencies), (const CUgraphEdgeData *, dependencyData),
      (size_t, numDependencies), (CUgraphNodeParams *, nodeParams))
{
	any_added(phGraphNode, hGraph, nodeParams);
}

DESTROYS(cuGraphDestroyNode, graph_node, hNode, (CUgraphNode, hNode))

/* --- changes --- */

static void weigh(const struct resource_type *type, uint64_t object,
                  const struct object_weight *weight)
{
	struct resource *known = context_find_object(type, object);

	if (known)
		object_weigh(known, weight);
	resource_release(known);
}

/* Hooks a call that changes a node, which may weigh and use something else now. */
#define CHANGES_NODE(symbol, weight, use, ...)                           \
	AFTER(symbol, (CUgraphNode, hNode), __VA_ARGS__)                 \
	{                                                                \
		const struct object_weight weight_ = weight;             \
		const struct node_use use_ = use;                        \
                                                                         \
		weigh(&object_type_graph_node, HANDLE(hNode), &weight_); \
		sampled_changed_node(hNode, &use_);                      \
	}

CHANGES_NODE(cuGraphKernelNodeSetParams, KERNEL(nodeParams), KERNEL_USE(nodeParams),
             (const CUDA_KERNEL_NODE_PARAMS_v1 *, nodeParams))
CHANGES_NODE(cuGraphKernelNodeSetParams_v2, KERNEL(nodeParams), kernel_use(nodeParams),
             (const CUDA_KERNEL_NODE_PARAMS *, nodeParams))
CHANGES_NODE(cuGraphNodeSetParams, graph_weight_of(nodeParams), use_of(nodeParams),
             (CUgraphNodeParams *, nodeParams))
CHANGES_NODE(cuGraphNodeSetParams_v2, graph_weight_of(nodeParams), use_of(nodeParams),
             (CUgraphNodeParams *, nodeParams))

/*
 * Hooks a call that changes a node of an executable graph: the graph gets its old weight anew,
 * because its cost is to be learnt anew.
 */
static void weigh_anew(CUgraphExec exec)
{
	struct resource *known = context_find_object(&object_type_graph_exec, HANDLE(exec));

	if (known) {
		const struct object_weight weight = object_weight(known);

		object_weigh(known, &weight);
	}
	resource_release(known);
}

#define CHANGES(symbol, use, ...)                             \
	AFTER(symbol, (CUgraphExec, hGraphExec), __VA_ARGS__) \
	{                                                     \
		const struct node_use use_ = use;             \
                                                              \
		weigh_anew(hGraphExec);                       \
		sampled_exec_node(hGraphExec, hNode, &use_);  \
	}
CHANGES(cuGraphExecKernelNodeSetParams, KERNEL_USE(nodeParams), (CUgraphNode, hNode),
        (const CUDA_KERNEL_NODE_PARAMS_v1 *, nodeParams))
CHANGES(cuGraphExecKernelNodeSetParams_v2, kernel_use(nodeParams), (CUgraphNode, hNode),
        (const CUDA_KERNEL_NODE_PARAMS *, nodeParams))
CHANGES(cuGraphExecMemcpyNodeSetParams, COPY_USE(copyParams), (CUgraphNode, hNode),
        (const CUDA_MEMCPY3D *, copyParams), (CUcontext, ctx))
CHANGES(cuGraphExecMemsetNodeSetParams, FILL_USE(memsetParams), (CUgraphNode, hNode),
        (const CUDA_MEMSET_NODE_PARAMS *, memsetParams), (CUcontext, ctx))
CHANGES(cuGraphExecHostNodeSetParams, NO_USE, (CUgraphNode, hNode),
        (const CUDA_HOST_NODE_PARAMS *, nodeParams))
CHANGES(cuGraphExecChildGraphNodeSetParams, CHILD_USE(childGraph), (CUgraphNode, hNode),
        (CUgraph, childGraph))
CHANGES(cuGraphExecBatchMemOpNodeSetParams, NO_USE, (CUgraphNode, hNode),
        (const CUDA_BATCH_MEM_OP_NODE_PARAMS *, nodeParams))
CHANGES(cuGraphExecNodeSetParams, use_of(nodeParams), (CUgraphNode, hNode),
        (CUgraphNodeParams *, nodeParams))
CHANGES(cuGraphNodeSetEnabled, NO_USE, (CUgraphNode, hNode), (unsigned int, isEnabled))

/* Notes that an executable graph now equals that graph. */
static void updated(CUgraphExec exec, CUgraph graph)
{
	const struct object_weight weight = graph_sum_of(graph);

	weigh(&object_type_graph_exec, HANDLE(exec), &weight);
	sampled_updated_graph(exec, graph);
}

AFTER(cuGraphExecUpdate, (CUgraphExec, hGraphExec), (CUgraph, hGraph),
      (CUgraphNode *, hErrorNode_out), (CUgraphExecUpdateResult *, updateResult_out))
{
	updated(hGraphExec, hGraph);
}

AFTER(cuGraphExecUpdate_v2, (CUgraphExec, hGraphExec), (CUgraph, hGraph),
      (CUgraphExecUpdateResultInfo *, resultInfo))
{
	updated(hGraphExec, hGraph);
}

/* --- executable graphs --- */

static void instantiated(CUgraphExec exec, CUgraph graph)
{
	KEEP_ERRNO;
	const struct object_weight weight = graph_sum_of(graph);

	if (!job_is_active())
		return;
	weigh(&object_type_graph_exec, HANDLE(exec), &weight);
	sampled_made_graph(exec, graph);
}

#define INSTANTIATES(symbol, ...)                                                             \
	HOOK(symbol, CUgraphExec *phGraphExec, CUgraph hGraph, PAIRS(PARAMETER, __VA_ARGS__)) \
	{                                                                                     \
		CUresult result = CREATED_MEASURED(                                           \
		    PASSING_GATE(FORWARD(symbol, (, phGraphExec), (, hGraph), __VA_ARGS__)),  \
		    graph_exec, phGraphExec);                                                 \
                                                                                              \
		if (result == CUDA_SUCCESS && phGraphExec)                                    \
			instantiated(*phGraphExec, hGraph);                                   \
		return result;                                                                \
	}

INSTANTIATES(cuGraphInstantiate, (CUgraphNode *, phErrorNode), (char *, logBuffer),
             (size_t, bufferSize))
INSTANTIATES(cuGraphInstantiate_v2, (CUgraphNode *, phErrorNode), (char *, logBuffer),
             (size_t, bufferSize))
INSTANTIATES(cuGraphInstantiateWithFlags, (unsigned long long, flags))
INSTANTIATES(cuGraphInstantiateWithParams, (CUDA_GRAPH_INSTANTIATE_PARAMS *, instantiateParams))
INSTANTIATES(cuGraphInstantiateWithParams_ptsz,
             (CUDA_GRAPH_INSTANTIATE_PARAMS *, instantiateParams))

HOOK(cuGraphExecDestroy, CUgraphExec hGraphExec)
{
	CUresult result = DESTROYED_MEASURED(PASSING_GATE(REAL(cuGraphExecDestroy)(hGraphExec)),
	                                     graph_exec, hGraphExec);

	if (job_is_active())
		graph_memory_settle();
	return result;
}

BOTH(cuGraphUpload, cuGraphUpload_ptsz, (CUgraphExec, hGraphExec), (CUstream, hStream))
{
	CUresult result = MEASURED(PASSING_GATE(real(hGraphExec, hStream)), HANDLE(hGraphExec),
	                           MEASURED_MOST_OBJECT);

	if (job_is_active())
		graph_memory_settle();
	return result;
}
