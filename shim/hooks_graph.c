/*
 * Graphs: nodes go with their graph, and know what they launch or allocate; an executable graph
 * knows the sum, and that it was changed. Addresses in nodes stay what they are: Spillway never
 * moves memory to another address.
 */
#include "shim/sampled.h"
#include "shim/track.h"

#include "core/job/job.h"
#include "core/memory/uses/graph_memory.h"

/* --- graphs --- */

CREATES(cuGraphCreate, graph, phGraph, (CUgraph *, phGraph), (unsigned int, flags))
HANDS_OUT(cuGraphConditionalHandleCreate, conditional, pHandle_out, graph, hGraph,
          (CUgraphConditionalHandle *, pHandle_out), (CUgraph, hGraph), (CUcontext, ctx),
          (unsigned int, defaultLaunchValue), (unsigned int, flags))

HOOK(cuGraphClone, CUgraph *phGraphClone, CUgraph originalGraph)
{
	CUresult result =
	    CREATED(REAL(cuGraphClone)(phGraphClone, originalGraph), graph, phGraphClone);

	if (result == CUDA_SUCCESS && phGraphClone)
		sampled_made_graph(*phGraphClone, originalGraph);
	return result;
}

HOOK(cuGraphDestroy, CUgraph hGraph)
{
	CUresult result = DESTROYED(PASSING_GATE(REAL(cuGraphDestroy)(hGraph)), graph, hGraph);

	if (job_is_active())
		graph_memory_settle();
	return result;
}

/* --- nodes --- */

static uint64_t threads_of(unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                           unsigned int block_x, unsigned int block_y, unsigned int block_z)
{
	uint64_t threads = (uint64_t)block_x * block_y * block_z;

	if (__builtin_mul_overflow(threads, (uint64_t)grid_x * grid_y, &threads) ||
	    __builtin_mul_overflow(threads, grid_z, &threads))
		return UINT64_MAX;
	return threads;
}

/* Weighs a node by its parameters; NULL ones are the driver's to judge. */
#define KERNEL(p)                                                                            \
	((p) ? (struct object_weight){.kernels = 1,                                          \
	                              .threads = threads_of((p)->gridDimX, (p)->gridDimY,    \
	                                                    (p)->gridDimZ, (p)->blockDimX,   \
	                                                    (p)->blockDimY, (p)->blockDimZ)} \
	     : (struct object_weight){0})

static struct object_weight weight_of(const CUgraphNodeParams *p)
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

/* Returns what a kernel node uses. A kernel goes by its function or by itself. */
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
static void node_added(CUresult result, const CUgraphNode *node, CUgraph graph,
                       const struct object_weight *weight)
{
	const struct resource_type *type = &object_type_graph;
	struct resource *known;

	if (result != CUDA_SUCCESS || !node || !job_is_active())
		return;
	known = context_find_object(type, HANDLE(graph));
	if (!known)
		type = &object_type_graph_body;
	resource_release(known);
	track_owned(&object_type_graph_node, HANDLE(*node), weight, type, HANDLE(graph));
	if (weight && weight->bytes)
		graph_memory_expect();
}

#define ADDED(call, weight, use)                                   \
	({                                                         \
		KEEP_ERRNO;                                        \
		CUresult added_ = (call);                          \
		const struct object_weight weight_ = weight;       \
		node_added(added_, phGraphNode, hGraph, &weight_); \
		if (added_ == CUDA_SUCCESS) {                      \
			const struct node_use use_ = use;          \
			sampled_node(hGraph, &use_);               \
		}                                                  \
		added_;                                            \
	})
#define NOTHING ((struct object_weight){0})

/* Every form begins with these. */
#define NODE                                                                       \
	CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, \
	    size_t numDependencies

HOOK(cuGraphAddKernelNode, NODE, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return ADDED(REAL(cuGraphAddKernelNode)(phGraphNode, hGraph, dependencies, numDependencies,
	                                        nodeParams),
	             KERNEL(nodeParams), KERNEL_USE(nodeParams));
}

HOOK(cuGraphAddKernelNode_v2, NODE, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return ADDED(REAL(cuGraphAddKernelNode_v2)(phGraphNode, hGraph, dependencies,
	                                           numDependencies, nodeParams),
	             KERNEL(nodeParams), kernel_use(nodeParams));
}

HOOK(cuGraphAddMemcpyNode, NODE, const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	return ADDED(REAL(cuGraphAddMemcpyNode)(phGraphNode, hGraph, dependencies, numDependencies,
	                                        copyParams, ctx),
	             NOTHING, COPY_USE(copyParams));
}

HOOK(cuGraphAddMemsetNode, NODE, const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	return ADDED(REAL(cuGraphAddMemsetNode)(phGraphNode, hGraph, dependencies, numDependencies,
	                                        memsetParams, ctx),
	             NOTHING, FILL_USE(memsetParams));
}

HOOK(cuGraphAddHostNode, NODE, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	return ADDED(REAL(cuGraphAddHostNode)(phGraphNode, hGraph, dependencies, numDependencies,
	                                      nodeParams),
	             NOTHING, NO_USE);
}

/* Sums up what a graph's own nodes launch; of one that was captured nothing is known. */
static struct object_weight sum_of(CUgraph graph)
{
	struct object_weight sum = NOTHING;
	struct resource *known =
	    job_is_active() ? context_find_object(&object_type_graph, HANDLE(graph)) : NULL;

	if (known)
		sum = object_owned_weight(known, &object_type_graph_node);
	resource_release(known);
	return sum;
}

HOOK(cuGraphAddChildGraphNode, NODE, CUgraph childGraph)
{
	return ADDED(REAL(cuGraphAddChildGraphNode)(phGraphNode, hGraph, dependencies,
	                                            numDependencies, childGraph),
	             sum_of(childGraph), CHILD_USE(childGraph));
}

HOOK(cuGraphAddBatchMemOpNode, NODE, const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
	return ADDED(REAL(cuGraphAddBatchMemOpNode)(phGraphNode, hGraph, dependencies,
	                                            numDependencies, nodeParams),
	             NOTHING, NO_USE);
}

HOOK(cuGraphAddMemAllocNode, NODE, CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	return ADDED(REAL(cuGraphAddMemAllocNode)(phGraphNode, hGraph, dependencies,
	                                          numDependencies, nodeParams),
	             {.bytes = nodeParams ? nodeParams->bytesize : 0}, NO_USE);
}

HOOK(cuGraphAddMemFreeNode, NODE, CUdeviceptr dptr)
{
	return ADDED(
	    REAL(cuGraphAddMemFreeNode)(phGraphNode, hGraph, dependencies, numDependencies, dptr),
	    NOTHING, NO_USE);
}

/* Enters the bodies that a conditional node was given. */
static void bodies_made(CUresult result, const CUgraphNode *node, const CUgraphNodeParams *p)
{
	if (result != CUDA_SUCCESS || !node || !p || p->type != CU_GRAPH_NODE_TYPE_CONDITIONAL)
		return;
	for (unsigned int i = 0; p->conditional.phGraph_out && i < p->conditional.size; i++)
		track_owned(&object_type_graph_body, HANDLE(p->conditional.phGraph_out[i]), NULL,
		            &object_type_graph_node, HANDLE(*node));
}

HOOK(cuGraphAddNode, NODE, CUgraphNodeParams *nodeParams)
{
	CUresult result = ADDED(
	    REAL(cuGraphAddNode)(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
	    weight_of(nodeParams), use_of(nodeParams));

	bodies_made(result, phGraphNode, nodeParams);
	return result;
}

HOOK(cuGraphAddNode_v2, CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
     const CUgraphEdgeData *dependencyData, size_t numDependencies, CUgraphNodeParams *nodeParams)
{
	CUresult result =
	    ADDED(REAL(cuGraphAddNode_v2)(phGraphNode, hGraph, dependencies, dependencyData,
	                                  numDependencies, nodeParams),
	          weight_of(nodeParams), use_of(nodeParams));

	bodies_made(result, phGraphNode, nodeParams);
	return result;
}

DESTROYS(cuGraphDestroyNode, graph_node, hNode, (CUgraphNode, hNode))

/* --- changes --- */

static void weigh(CUresult result, const struct resource_type *type, uint64_t object,
                  const struct object_weight *weight)
{
	KEEP_ERRNO;
	struct resource *known;

	if (result != CUDA_SUCCESS || !job_is_active())
		return;
	known = context_find_object(type, object);
	if (known)
		object_weigh(known, weight);
	resource_release(known);
}

#define WEIGHED(call, type, object, weight)                                     \
	({                                                                      \
		CUresult changed_ = (call);                                     \
		const struct object_weight weight_ = weight;                    \
		weigh(changed_, &object_type_##type, HANDLE(object), &weight_); \
		changed_;                                                       \
	})

/*
 * A node, or one of an executable graph (credit: sampled_changed_node or sampled_exec_node), uses
 * something else now.
 */
#define USED(call, credit, object, use)                   \
	({                                                \
		CUresult used_ = (call);                  \
		if (used_ == CUDA_SUCCESS) {              \
			const struct node_use use_ = use; \
			credit(object, &use_);            \
		}                                         \
		used_;                                    \
	})

HOOK(cuGraphKernelNodeSetParams, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return USED(WEIGHED(REAL(cuGraphKernelNodeSetParams)(hNode, nodeParams), graph_node, hNode,
	                    KERNEL(nodeParams)),
	            sampled_changed_node, hNode, KERNEL_USE(nodeParams));
}

HOOK(cuGraphKernelNodeSetParams_v2, CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
	return USED(WEIGHED(REAL(cuGraphKernelNodeSetParams_v2)(hNode, nodeParams), graph_node,
	                    hNode, KERNEL(nodeParams)),
	            sampled_changed_node, hNode, kernel_use(nodeParams));
}

HOOK(cuGraphNodeSetParams, CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return USED(WEIGHED(REAL(cuGraphNodeSetParams)(hNode, nodeParams), graph_node, hNode,
	                    weight_of(nodeParams)),
	            sampled_changed_node, hNode, use_of(nodeParams));
}

/*
 * Returns the weight of an executable graph of which a node is changed: what the whole costs is to
 * be learnt anew.
 */
static struct object_weight unchanged(CUgraphExec exec)
{
	struct object_weight weight = NOTHING;
	struct resource *known =
	    job_is_active() ? context_find_object(&object_type_graph_exec, HANDLE(exec)) : NULL;

	if (known)
		weight = object_weight(known);
	resource_release(known);
	return weight;
}

#define CHANGES(symbol, use, ...)                                                           \
	HOOK(symbol, PAIRS(PARAMETER, __VA_ARGS__))                                         \
	{                                                                                   \
		return USED(WEIGHED(REAL(symbol)(PAIRS(ARGUMENT, __VA_ARGS__)), graph_exec, \
		                    hGraphExec, unchanged(hGraphExec)),                     \
		            sampled_exec_node, hGraphExec, use);                            \
	}
CHANGES(cuGraphExecKernelNodeSetParams, KERNEL_USE(nodeParams), (CUgraphExec, hGraphExec),
        (CUgraphNode, hNode), (const CUDA_KERNEL_NODE_PARAMS_v1 *, nodeParams))
CHANGES(cuGraphExecKernelNodeSetParams_v2, kernel_use(nodeParams), (CUgraphExec, hGraphExec),
        (CUgraphNode, hNode), (const CUDA_KERNEL_NODE_PARAMS *, nodeParams))
CHANGES(cuGraphExecMemcpyNodeSetParams, COPY_USE(copyParams), (CUgraphExec, hGraphExec),
        (CUgraphNode, hNode), (const CUDA_MEMCPY3D *, copyParams), (CUcontext, ctx))
CHANGES(cuGraphExecMemsetNodeSetParams, FILL_USE(memsetParams), (CUgraphExec, hGraphExec),
        (CUgraphNode, hNode), (const CUDA_MEMSET_NODE_PARAMS *, memsetParams), (CUcontext, ctx))
CHANGES(cuGraphExecHostNodeSetParams, NO_USE, (CUgraphExec, hGraphExec), (CUgraphNode, hNode),
        (const CUDA_HOST_NODE_PARAMS *, nodeParams))
CHANGES(cuGraphExecChildGraphNodeSetParams, CHILD_USE(childGraph), (CUgraphExec, hGraphExec),
        (CUgraphNode, hNode), (CUgraph, childGraph))
CHANGES(cuGraphExecBatchMemOpNodeSetParams, NO_USE, (CUgraphExec, hGraphExec), (CUgraphNode, hNode),
        (const CUDA_BATCH_MEM_OP_NODE_PARAMS *, nodeParams))
CHANGES(cuGraphExecNodeSetParams, use_of(nodeParams), (CUgraphExec, hGraphExec),
        (CUgraphNode, hNode), (CUgraphNodeParams *, nodeParams))
CHANGES(cuGraphNodeSetEnabled, NO_USE, (CUgraphExec, hGraphExec), (CUgraphNode, hNode),
        (unsigned int, isEnabled))

#define UPDATED(call)                                              \
	({                                                         \
		CUresult updated_ = (call);                        \
		if (updated_ == CUDA_SUCCESS)                      \
			sampled_updated_graph(hGraphExec, hGraph); \
		updated_;                                          \
	})

HOOK(cuGraphExecUpdate, CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
     CUgraphExecUpdateResult *updateResult_out)
{
	return UPDATED(
	    WEIGHED(REAL(cuGraphExecUpdate)(hGraphExec, hGraph, hErrorNode_out, updateResult_out),
	            graph_exec, hGraphExec, sum_of(hGraph)));
}

HOOK(cuGraphExecUpdate_v2, CUgraphExec hGraphExec, CUgraph hGraph,
     CUgraphExecUpdateResultInfo *resultInfo)
{
	return UPDATED(WEIGHED(REAL(cuGraphExecUpdate_v2)(hGraphExec, hGraph, resultInfo),
	                       graph_exec, hGraphExec, sum_of(hGraph)));
}

/* --- executable graphs --- */

#define INSTANTIATED(call)                                                        \
	({                                                                        \
		CUresult made_ = CREATED_MEASURED(call, graph_exec, phGraphExec); \
		if (made_ == CUDA_SUCCESS && phGraphExec) {                       \
			WEIGHED(made_, graph_exec, *phGraphExec, sum_of(hGraph)); \
			sampled_made_graph(*phGraphExec, hGraph);                 \
		}                                                                 \
		made_;                                                            \
	})

HOOK(cuGraphInstantiate, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
     char *logBuffer, size_t bufferSize)
{
	return INSTANTIATED(PASSING_GATE(
	    REAL(cuGraphInstantiate)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize)));
}

HOOK(cuGraphInstantiate_v2, CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
     char *logBuffer, size_t bufferSize)
{
	return INSTANTIATED(PASSING_GATE(
	    REAL(cuGraphInstantiate_v2)(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize)));
}

HOOK(cuGraphInstantiateWithFlags, CUgraphExec *phGraphExec, CUgraph hGraph,
     unsigned long long flags)
{
	return INSTANTIATED(
	    PASSING_GATE(REAL(cuGraphInstantiateWithFlags)(phGraphExec, hGraph, flags)));
}

HOOK(cuGraphInstantiateWithParams, CUgraphExec *phGraphExec, CUgraph hGraph,
     CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return INSTANTIATED(PASSING_GATE(
	    REAL(cuGraphInstantiateWithParams)(phGraphExec, hGraph, instantiateParams)));
}

HOOK(cuGraphInstantiateWithParams_ptsz, CUgraphExec *phGraphExec, CUgraph hGraph,
     CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	return INSTANTIATED(PASSING_GATE(
	    REAL(cuGraphInstantiateWithParams_ptsz)(phGraphExec, hGraph, instantiateParams)));
}

HOOK(cuGraphExecDestroy, CUgraphExec hGraphExec)
{
	CUresult result = DESTROYED_MEASURED(PASSING_GATE(REAL(cuGraphExecDestroy)(hGraphExec)),
	                                     graph_exec, hGraphExec);

	if (job_is_active())
		graph_memory_settle();
	return result;
}

#define UPLOADED(call)                                                                      \
	({                                                                                  \
		CUresult uploaded_ =                                                        \
		    MEASURED(PASSING_GATE(call), HANDLE(hGraphExec), MEASURED_MOST_OBJECT); \
		if (job_is_active())                                                        \
			graph_memory_settle();                                              \
		uploaded_;                                                                  \
	})

HOOK(cuGraphUpload, CUgraphExec hGraphExec, CUstream hStream)
{
	return UPLOADED(REAL(cuGraphUpload)(hGraphExec, hStream));
}

HOOK(cuGraphUpload_ptsz, CUgraphExec hGraphExec, CUstream hStream)
{
	return UPLOADED(REAL(cuGraphUpload_ptsz)(hGraphExec, hStream));
}
