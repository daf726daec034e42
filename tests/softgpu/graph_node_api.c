/* SPDX-License-Identifier: MIT */
/* The calls that add nodes and read and change their parameters. */
#include "tests/softgpu/graph.h"

#include <string.h>

/* Adds a node; without `edges` the dependencies are plain. `params` may get an address back. */
static CUresult add(const char *call, CUgraphNode *out, CUgraph handle,
                    const CUgraphNode *dependencies, const CUgraphEdgeData *edges, size_t count,
                    CUgraphNodeParams *params)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph *graph = graph_find(handle);
	struct graph_node *node;
	if (!graph || !out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	result = graph_add(graph, dependencies, edges, count, params, current_context(), &node);
	if (result == CUDA_SUCCESS)
		*out = (CUgraphNode)node;
	return leave(result);
}

static CUresult set(const char *call, CUgraphNode handle, const CUgraphNodeParams *params)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph_node *node = node_find(handle);
	if (!node || node->params.type != params->type)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (node->memory || node->conditional)
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	struct context *context = node->context ? node->context : current_context();
	return leave(node_assign(node, params, context));
}

/* Enters a call about a node of that type. */
static CUresult enter_node(const char *call, CUgraphNode handle, CUgraphNodeType type,
                           const void *out, struct graph_node **node)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	*node = node_find(handle);
	return *node && (*node)->params.type == type && out ? CUDA_SUCCESS
	                                                    : leave(CUDA_ERROR_INVALID_VALUE);
}

/* The parameters of the first version are the beginning of the later ones. */
static CUgraphNodeParams kernel_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *what)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	memcpy(&params.kernel, what, sizeof(*what));
	return params;
}

static CUgraphNodeParams kernel_v2(const CUDA_KERNEL_NODE_PARAMS_v2 *what)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	memcpy(&params.kernel, what, sizeof(*what));
	return params;
}

EXPORT CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph,
                                     const CUgraphNode *dependencies, size_t count,
                                     const CUDA_KERNEL_NODE_PARAMS_v1 *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = kernel_v1(what);
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph graph,
                                        const CUgraphNode *dependencies, size_t count,
                                        const CUDA_KERNEL_NODE_PARAMS_v2 *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = kernel_v2(what);
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

EXPORT CUresult cuGraphKernelNodeGetParams(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v1 *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_KERNEL, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	memcpy(out, &node->params.kernel, sizeof(*out));
	if (!out->func) /* this form knows nothing of CUkernel but that it can be cast */
		out->func = (CUfunction)node->params.kernel.kern;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS_v2 *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_KERNEL, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	memcpy(out, &node->params.kernel, sizeof(*out));
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = kernel_v1(what);
	return set(__func__, node, &params);
}

EXPORT CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node,
                                              const CUDA_KERNEL_NODE_PARAMS_v2 *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = kernel_v2(what);
	return set(__func__, node, &params);
}

/* Attributes that kernel nodes have; those of streams alone and of device-side updates are not. */
static bool is_node_attribute(CUkernelNodeAttrID id)
{
	switch ((int)id) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
	case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
	case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		return true;
	default:
		return false;
	}
}

EXPORT CUresult cuGraphKernelNodeGetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                              CUkernelNodeAttrValue *value)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_KERNEL, value, &node);
	if (result != CUDA_SUCCESS)
		return result;
	if (!is_node_attribute(id))
		return leave(CUDA_ERROR_INVALID_VALUE);
	*value = node->attributes[id] ? *node->attributes[id] : (CUlaunchAttributeValue){0};
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                                              const CUkernelNodeAttrValue *value)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_KERNEL, value, &node);
	if (result != CUDA_SUCCESS)
		return result;
	if (!is_node_attribute(id))
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(node_set_attribute(node, id, value));
}

EXPORT CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode to_handle, CUgraphNode from_handle)
{
	struct graph_node *to;
	CUresult result =
	    enter_node(__func__, to_handle, CU_GRAPH_NODE_TYPE_KERNEL, to_handle, &to);
	if (result != CUDA_SUCCESS)
		return result;
	const struct graph_node *from = node_find(from_handle);
	if (!from || from->params.type != CU_GRAPH_NODE_TYPE_KERNEL || from->context != to->context)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(node_copy_attributes(to, from));
}

EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph,
                                     const CUgraphNode *dependencies, size_t count,
                                     const CUDA_MEMCPY3D *what, CUcontext context)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
	                            .memcpy = {.copyCtx = context, .copyParams = *what}};
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

EXPORT CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_MEMCPY, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	*out = node->params.memcpy.copyParams;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY, .memcpy.copyParams = *what};
	return set(__func__, node, &params);
}

static CUgraphNodeParams memset_v1(const CUDA_MEMSET_NODE_PARAMS *what, CUcontext context)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMSET};
	memcpy(&params.memset, what, sizeof(*what));
	params.memset.ctx = context;
	return params;
}

EXPORT CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph graph,
                                     const CUgraphNode *dependencies, size_t count,
                                     const CUDA_MEMSET_NODE_PARAMS *what, CUcontext context)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = memset_v1(what, context);
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

EXPORT CUresult cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_MEMSET, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	memcpy(out, &node->params.memset, sizeof(*out));
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = memset_v1(what, NULL);
	return set(__func__, node, &params);
}

static CUgraphNodeParams host_params(const CUDA_HOST_NODE_PARAMS *what)
{
	return (CUgraphNodeParams){.type = CU_GRAPH_NODE_TYPE_HOST,
	                           .host = {.fn = what->fn, .userData = what->userData}};
}

EXPORT CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                                   size_t count, const CUDA_HOST_NODE_PARAMS *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = host_params(what);
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

EXPORT CUresult cuGraphHostNodeGetParams(CUgraphNode handle, CUDA_HOST_NODE_PARAMS *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_HOST, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	out->fn = node->params.host.fn;
	out->userData = node->params.host.userData;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = host_params(what);
	return set(__func__, node, &params);
}

EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph graph,
                                         const CUgraphNode *dependencies, size_t count,
                                         CUgraph child)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph.graph = child};
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

EXPORT CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode handle, CUgraph *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_GRAPH, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	*out = (CUgraph)node->child;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph graph,
                                    const CUgraphNode *dependencies, size_t count)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

/* Nodes of events hold the event alone, and both kinds hold it in the same place. */
static CUgraphNodeParams event_params(CUgraphNodeType type, CUevent event)
{
	CUgraphNodeParams params = {.type = type};
	if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		params.eventRecord.event = event;
	else
		params.eventWait.event = event;
	return params;
}

EXPORT CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph graph,
                                          const CUgraphNode *dependencies, size_t count,
                                          CUevent event)
{
	CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

EXPORT CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode handle, CUevent *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	*out = node->params.eventRecord.event;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent event)
{
	CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
	return set(__func__, node, &params);
}

EXPORT CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph graph,
                                        const CUgraphNode *dependencies, size_t count,
                                        CUevent event)
{
	CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

EXPORT CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode handle, CUevent *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_WAIT_EVENT, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	*out = node->params.eventWait.event;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent event)
{
	CUgraphNodeParams params = event_params(CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
	return set(__func__, node, &params);
}

EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *out, CUgraph graph,
                                       const CUgraphNode *dependencies, size_t count,
                                       CUDA_MEM_ALLOC_NODE_PARAMS *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
	memcpy(&params.alloc, what, sizeof(*what)); /* two names of one layout */
	CUresult result = add(__func__, out, graph, dependencies, NULL, count, &params);
	if (result == CUDA_SUCCESS)
		what->dptr = params.alloc.dptr;
	return result;
}

EXPORT CUresult cuGraphMemAllocNodeGetParams(CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	memcpy(out, &node->params.alloc, sizeof(*out));
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *out, CUgraph graph,
                                      const CUgraphNode *dependencies, size_t count,
                                      CUdeviceptr address)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE, .free.dptr = address};
	return add(__func__, out, graph, dependencies, NULL, count, &params);
}

EXPORT CUresult cuGraphMemFreeNodeGetParams(CUgraphNode handle, CUdeviceptr *out)
{
	struct graph_node *node;
	CUresult result = enter_node(__func__, handle, CU_GRAPH_NODE_TYPE_MEM_FREE, out, &node);
	if (result != CUDA_SUCCESS)
		return result;
	*out = node->params.free.dptr;
	return leave(CUDA_SUCCESS);
}

/* Returns whether what must be zero is. */
static bool is_clean(const CUgraphNodeParams *params)
{
	static const int zeroes[3];
	return memcmp(params->reserved0, zeroes, sizeof(zeroes)) == 0 && params->reserved2 == 0;
}

EXPORT CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                               size_t count, CUgraphNodeParams *params)
{
	if (!params || !is_clean(params))
		return CUDA_ERROR_INVALID_VALUE;
	return add(__func__, out, graph, dependencies, NULL, count, params);
}

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *out, CUgraph graph, const CUgraphNode *dependencies,
                                  const CUgraphEdgeData *edges, size_t count,
                                  CUgraphNodeParams *params)
{
	if (!params || !is_clean(params))
		return CUDA_ERROR_INVALID_VALUE;
	return add(__func__, out, graph, dependencies, edges, count, params);
}

EXPORT CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *params)
{
	if (!params || !is_clean(params))
		return CUDA_ERROR_INVALID_VALUE;
	return set(__func__, node, params);
}
