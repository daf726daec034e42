/* SPDX-License-Identifier: MIT */
/* Executable graphs: instantiation, and changes to their nodes. */
#include "tests/softgpu/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct graph_exec *exec_find(CUgraphExec handle)
{
	return handle_find(handle, HANDLE_GRAPH_EXEC);
}

/* Makes the nodes known by those they were copied from, within child graphs too. */
static bool index_nodes(struct graph_exec *exec, struct graph *graph)
{
	struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		HASH_ADD(by_origin, exec->by_origin, origin, sizeof(node->origin), node);
		if (!node->by_origin.tbl)
			return false;
		struct graph *within;
		for (unsigned int i = 0; (within = node_within(node, i)); i++)
			if (!index_nodes(exec, within))
				return false;
	}
	return true;
}

void exec_unreference(struct graph_exec *exec)
{
	if (--exec->references)
		return;
	HASH_CLEAR(by_origin, exec->by_origin);
	if (exec->graph)
		graph_free(exec->graph);
	if (exec->last.stream)
		stream_unreference(exec->last.stream);
	handle_free(exec);
}

/* A node that lies on a circle, in this graph or one within it; NULL: there is none. */
static CUresult find_circle(const struct graph *graph, struct graph_node **offender)
{
	struct graph_node **order = graph_sort(graph, offender);
	if (!order)
		return *offender ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
	free(order);
	const struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		const struct graph *within;
		for (unsigned int i = 0; (within = node_within(node, i)); i++) {
			CUresult result = find_circle(within, offender);
			if (result != CUDA_SUCCESS)
				return result;
		}
	}
	return CUDA_SUCCESS;
}

#define FLAGS                                                                                   \
	(CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | \
	 CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |                                            \
	 CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static CUresult make(struct graph *graph, unsigned long long flags, struct graph_exec **out)
{
	struct graph_exec *exec = calloc(1, sizeof(*exec));
	if (!exec || !handle_add(&exec->handle, HANDLE_GRAPH_EXEC)) {
		free(exec);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	exec->references = 1;
	exec->flags = flags & ~(unsigned long long)CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
	CUresult result = graph_copy(graph, true, &exec->graph);
	if (result == CUDA_SUCCESS && !index_nodes(exec, exec->graph))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		handle_remove(&exec->handle);
		exec_unreference(exec);
		return result;
	}
	if (graph_has_memory_nodes(graph) || graph_has_conditionals(graph)) {
		exec->source = graph;
		graph->instance = exec;
	}
	*out = exec;
	return CUDA_SUCCESS;
}

/* Returns whether each handle made for the graph or one within it has a node. */
static bool handles_are_used(const struct graph *graph)
{
	const struct graph_node *node;
	const struct graph *within;
	DL_FOREACH (graph->nodes, node) {
		for (unsigned int i = 0; (within = node_within(node, i)); i++)
			if (!handles_are_used(within))
				return false;
	}
	return conditionals_are_used(graph);
}

static CUresult instantiate(const char *call, CUgraphExec *out, CUgraph handle,
                            unsigned long long flags, CUgraphNode *error_node,
                            CUgraphInstantiateResult *why)
{
	*why = CUDA_GRAPH_INSTANTIATE_ERROR;
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph *graph = graph_find(handle);
	struct graph_node *offender = NULL;
	struct graph_exec *exec;
	if (!out || !graph || graph->capture || graph->holder || graph->instance ||
	    (flags & ~(unsigned long long)FLAGS))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) {
		say("launching graphs from kernels is not supported");
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	}
	result = find_circle(graph, &offender);
	if (result == CUDA_SUCCESS && !handles_are_used(graph)) {
		*why = CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED;
		result = CUDA_ERROR_INVALID_VALUE;
	}
	if (result == CUDA_SUCCESS)
		result = make(graph, flags, &exec);
	if (result == CUDA_SUCCESS)
		*why = CUDA_GRAPH_INSTANTIATE_SUCCESS;
	else if (offender)
		*why = CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE;
	if (error_node)
		*error_node = (CUgraphNode)offender;
	if (result == CUDA_SUCCESS)
		*out = (CUgraphExec)exec;
	return leave(result);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                            unsigned long long flags)
{
	/* To upload needs a stream to do it in. */
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphInstantiateResult why;
	return instantiate(__func__, out, graph, flags, NULL, &why);
}

/* The older forms fill a text; there is nothing to say in it but where a circle is. */
static CUresult instantiate_with_log(const char *call, CUgraphExec *out, CUgraph graph,
                                     CUgraphNode *error_node, char *log, size_t size)
{
	CUgraphNode node = NULL;
	CUgraphInstantiateResult why;
	CUresult result = instantiate(call, out, graph, 0, &node, &why);
	if (log && size)
		snprintf(log, size, "%s", node ? "the graph has a circle" : "");
	if (error_node)
		*error_node = node;
	return result;
}

EXPORT CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                                   char *log, size_t size)
{
	return instantiate_with_log(__func__, out, graph, error_node, log, size);
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph graph, CUgraphNode *error_node,
                                      char *log, size_t size)
{
	return instantiate_with_log(__func__, out, graph, error_node, log, size);
}

static CUresult instantiate_with_params(const char *call, bool per_thread, CUgraphExec *out,
                                        CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNode node = NULL;
	CUgraphInstantiateResult why;
	CUresult result = instantiate(call, out, graph, params->flags, &node, &why);
	if (result == CUDA_SUCCESS && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
		result = per_thread ? cuGraphUpload_ptsz(*out, params->hUploadStream)
		                    : cuGraphUpload(*out, params->hUploadStream);
		if (result != CUDA_SUCCESS) {
			cuGraphExecDestroy(*out);
			why = CUDA_GRAPH_INSTANTIATE_ERROR;
		}
	}
	params->hErrNode_out = node;
	params->result_out = why;
	return result;
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph,
                                             CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return instantiate_with_params(__func__, false, out, graph, params);
}

EXPORT CUresult cuGraphInstantiateWithParams_ptsz(CUgraphExec *out, CUgraph graph,
                                                  CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	return instantiate_with_params(__func__, true, out, graph, params);
}

/* Enters a call about one executable graph. */
static CUresult enter_exec(const char *call, CUgraphExec handle, struct graph_exec **exec)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	*exec = exec_find(handle);
	return *exec ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t *flags)
{
	struct graph_exec *exec;
	CUresult result = enter_exec(__func__, handle, &exec);
	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*flags = exec->flags;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec handle)
{
	struct graph_exec *exec;
	CUresult result = enter_exec(__func__, handle, &exec);
	if (result != CUDA_SUCCESS)
		return result;
	handle_remove(&exec->handle);
	if (exec->source)
		exec->source->instance = NULL;
	exec->source = NULL;
	lanes_close(&exec->lanes); /* after what is queued there */
	exec_unreference(exec);
	return leave(CUDA_SUCCESS);
}

/* The node of the exec that stands for a node of the graph it was made from. */
static struct graph_node *find_node(const struct graph_exec *exec, CUgraphNode handle)
{
	const struct graph_node *original = node_find(handle);
	struct graph_node *node = NULL;
	if (original)
		HASH_FIND(by_origin, exec->by_origin, &original->serial, sizeof(original->serial),
		          node);
	return node;
}

static CUresult is_enabled(struct graph_node *node, unsigned int *enabled)
{
	switch (node->params.type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
	case CU_GRAPH_NODE_TYPE_MEMCPY:
	case CU_GRAPH_NODE_TYPE_MEMSET:
		*enabled = !node->disabled;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

EXPORT CUresult cuGraphNodeGetEnabled(CUgraphExec handle, CUgraphNode original,
                                      unsigned int *enabled)
{
	struct graph_exec *exec;
	CUresult result = enter_exec(__func__, handle, &exec);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph_node *node = find_node(exec, original);
	return leave(node && enabled ? is_enabled(node, enabled) : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuGraphNodeSetEnabled(CUgraphExec handle, CUgraphNode original,
                                      unsigned int enabled)
{
	struct graph_exec *exec;
	CUresult result = enter_exec(__func__, handle, &exec);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph_node *node = find_node(exec, original);
	unsigned int before;
	result = node ? is_enabled(node, &before) : CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		node->disabled = enabled == 0;
	return leave(result);
}

static CUresult update(struct graph *into, struct graph *from, CUgraphExecUpdateResultInfo *info);

/* Gives the exec's node new parameters where the rules of updates allow that. */
static CUresult set(const char *call, CUgraphExec handle, CUgraphNode original,
                    const CUgraphNodeParams *params)
{
	struct graph_exec *exec;
	CUresult result = enter_exec(call, handle, &exec);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph_node *node = find_node(exec, original);
	if (!node || node->params.type != params->type)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (node->memory || node->conditional)
		return leave(CUDA_ERROR_NOT_SUPPORTED);
	if (node->child) {
		CUgraphExecUpdateResultInfo info;
		struct graph *graph = graph_find(params->graph.graph);
		if (!graph)
			return leave(CUDA_ERROR_INVALID_VALUE);
		return leave(update(node->child, graph, &info));
	}
	/* Checked on a node of its own first: a refused change leaves the exec as it was. */
	struct graph_node probe = {.graph = exec->graph};
	result = node_copy(&probe, node);
	if (result == CUDA_SUCCESS)
		result = node_assign(&probe, params, node->context);
	if (result == CUDA_SUCCESS && node_may_become(node, &probe) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
		result = CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		result = node_copy(node, &probe);
	node_clear(&probe);
	return leave(result);
}

static CUgraphNodeParams params_of(CUgraphNodeType type)
{
	return (CUgraphNodeParams){.type = type};
}

EXPORT CUresult cuGraphExecNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                         CUgraphNodeParams *params)
{
	return params ? set(__func__, exec, node, params) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_KERNEL_NODE_PARAMS_v1 *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
	memcpy(&params.kernel, what, sizeof(*what));
	return set(__func__, exec, node, &params);
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS_v2 *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_KERNEL);
	memcpy(&params.kernel, what, sizeof(*what));
	return set(__func__, exec, node, &params);
}

EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_MEMCPY3D *what, CUcontext context)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMCPY);
	params.memcpy.copyCtx = context;
	params.memcpy.copyParams = *what;
	return set(__func__, exec, node, &params);
}

EXPORT CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                               const CUDA_MEMSET_NODE_PARAMS *what,
                                               CUcontext context)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_MEMSET);
	memcpy(&params.memset, what, sizeof(*what));
	params.memset.ctx = context;
	return set(__func__, exec, node, &params);
}

EXPORT CUresult cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                             const CUDA_HOST_NODE_PARAMS *what)
{
	if (!what)
		return CUDA_ERROR_INVALID_VALUE;
	CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_HOST);
	params.host.fn = what->fn;
	params.host.userData = what->userData;
	return set(__func__, exec, node, &params);
}

EXPORT CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                   CUgraph child)
{
	CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_GRAPH);
	params.graph.graph = child;
	return set(__func__, exec, node, &params);
}

EXPORT CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec, CUgraphNode node,
                                                   CUevent event)
{
	CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_EVENT_RECORD);
	params.eventRecord.event = event;
	return set(__func__, exec, node, &params);
}

EXPORT CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec, CUgraphNode node, CUevent event)
{
	CUgraphNodeParams params = params_of(CU_GRAPH_NODE_TYPE_WAIT_EVENT);
	params.eventWait.event = event;
	return set(__func__, exec, node, &params);
}

static CUgraphExecUpdateResult changed(CUgraphExecUpdateResultInfo *info,
                                       const struct graph_node *node,
                                       const struct graph_node *before)
{
	info->errorNode = (CUgraphNode)node;
	info->errorFromNode = (CUgraphNode)before;
	return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
}

/* Pairs the nodes of two graphs from their ends, along the dependencies in their order. */
static CUgraphExecUpdateResult pair_nodes(struct graph *into, struct graph *from,
                                          struct graph_node **queue,
                                          CUgraphExecUpdateResultInfo *info)
{
	struct graph_node *node, *other = into->nodes;
	size_t queued = 0;
	if (into->count != from->count)
		return changed(info, NULL, NULL);
	DL_FOREACH (into->nodes, node) {
		node->pair = NULL;
	}
	DL_FOREACH (from->nodes, node) {
		node->pair = NULL;
	}
	DL_FOREACH (from->nodes, node) {
		if (node->after.count)
			continue;
		while (other && other->after.count)
			other = other->next;
		if (!other)
			return changed(info, node, NULL);
		node->pair = other;
		other->pair = node;
		queue[queued++] = node;
		other = other->next;
	}
	for (size_t done = 0; done < queued; done++) {
		node = queue[done];
		other = node->pair;
		if (node->before.count != other->before.count)
			return changed(info, node, NULL);
		for (size_t i = 0; i < node->before.count; i++) {
			struct graph_node *a = (struct graph_node *)node->before.nodes[i];
			struct graph_node *b = (struct graph_node *)other->before.nodes[i];
			if (!a->pair && !b->pair) {
				a->pair = b;
				b->pair = a;
				queue[queued++] = a;
			} else if (a->pair != b) {
				return changed(info, node, a);
			}
		}
	}
	return queued == from->count ? CU_GRAPH_EXEC_UPDATE_SUCCESS : changed(info, NULL, NULL);
}

/* Pairs and compares two graphs and those within them; nothing is changed. */
static CUgraphExecUpdateResult compare(struct graph *into, struct graph *from,
                                       CUgraphExecUpdateResultInfo *info)
{
	struct graph_node **queue = calloc(from->count + 1, sizeof(struct graph_node *));
	if (!queue)
		return CU_GRAPH_EXEC_UPDATE_ERROR;
	CUgraphExecUpdateResult result = pair_nodes(into, from, queue, info);
	free(queue);
	struct graph_node *node;
	DL_FOREACH (from->nodes, node) {
		if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS || !node->pair)
			break;
		result = node_may_become(node->pair, node);
		if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
			info->errorNode = (CUgraphNode)node;
		for (unsigned int i = 0;
		     result == CU_GRAPH_EXEC_UPDATE_SUCCESS && node_within(node, i); i++)
			result = compare(node_within(node->pair, i), node_within(node, i), info);
	}
	return result;
}

/* The exec's nodes take over what those hold that they are paired with. */
static CUresult take_over(const struct graph *from)
{
	struct graph_node *node;
	DL_FOREACH (from->nodes, node) {
		struct graph_node *own = node->pair;
		CUresult result = node_within(node, 0) ? CUDA_SUCCESS : node_copy(own, node);
		for (unsigned int i = 0; result == CUDA_SUCCESS && node_within(node, i); i++)
			result = take_over(node_within(node, i));
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

static CUresult update(struct graph *into, struct graph *from, CUgraphExecUpdateResultInfo *info)
{
	*info = (CUgraphExecUpdateResultInfo){0};
	info->result = compare(into, from, info);
	if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
		return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
	CUresult result = take_over(from);
	if (result != CUDA_SUCCESS)
		info->result = CU_GRAPH_EXEC_UPDATE_ERROR;
	return result;
}

static CUresult exec_update(const char *call, CUgraphExec handle, CUgraph graph_handle,
                            CUgraphExecUpdateResultInfo *info)
{
	struct graph_exec *exec;
	CUresult result = enter_exec(call, handle, &exec);
	*info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_ERROR};
	if (result != CUDA_SUCCESS)
		return result;
	struct graph *graph = graph_find(graph_handle);
	if (!graph || graph->capture || graph->holder)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(update(exec->graph, graph, info));
}

EXPORT CUresult cuGraphExecUpdate(CUgraphExec exec, CUgraph graph, CUgraphNode *error_node,
                                  CUgraphExecUpdateResult *answer)
{
	CUgraphExecUpdateResultInfo info;
	if (!error_node || !answer)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = exec_update(__func__, exec, graph, &info);
	*error_node = info.errorNode;
	*answer = info.result;
	return result;
}

EXPORT CUresult cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                     CUgraphExecUpdateResultInfo *info)
{
	return info ? exec_update(__func__, exec, graph, info) : CUDA_ERROR_INVALID_VALUE;
}
