/* SPDX-License-Identifier: MIT */
/*
 * Graphs: nodes, edges, copies. The calls that ask for and change the shape are in graph_edges.c.
 */
#include "tests/softgpu/graph.h"

#include <stdlib.h>
#include <string.h>

static uint64_t last_serial;

struct graph *graph_new(bool hidden)
{
	struct graph *graph = calloc(1, sizeof(*graph));
	if (!graph || (!hidden && !handle_add(&graph->handle, HANDLE_GRAPH))) {
		free(graph);
		return NULL;
	}
	graph->hidden = hidden;
	graph->serial = ++last_serial;
	return graph;
}

struct graph *graph_find(CUgraph handle)
{
	return handle_find(handle, HANDLE_GRAPH);
}

struct graph_node *node_find(CUgraphNode handle)
{
	return handle_find(handle, HANDLE_GRAPH_NODE);
}

static struct graph_node *node_new(struct graph *graph, struct context *context)
{
	struct graph_node *node = calloc(1, sizeof(*node));
	if (!node || (!graph->hidden && !handle_add(&node->handle, HANDLE_GRAPH_NODE))) {
		free(node);
		return NULL;
	}
	node->graph = graph;
	node->serial = ++last_serial;
	node->id = graph->last_id++;
	node->context = context;
	graph->count++;
	DL_APPEND(graph->nodes, node);
	return node;
}

static void node_free(struct graph_node *node)
{
	struct graph *graph = node->graph;
	node_clear(node);
	node_set_clear(&node->before);
	node_set_clear(&node->after);
	if (!graph->hidden)
		handle_remove(&node->handle);
	DL_DELETE(graph->nodes, node);
	graph->count--;
	free(node);
}

void graph_free(struct graph *graph)
{
	struct graph_node *node, *next;
	DL_FOREACH_SAFE(graph->nodes, node, next)
	{
		node_free(node);
	}
	if (graph->instance)
		graph->instance->source = NULL;
	conditionals_drop(graph);
	user_references_drop(&graph->references);
	if (!graph->hidden)
		handle_remove(&graph->handle);
	handle_free(graph);
}

/*
 * Returns whether such an edge can be: other ports and types are for what follows a kernel early.
 */
static bool edge_is_valid(const struct graph_node *from, const struct graph_node *to,
                          const CUgraphEdgeData *edge)
{
	if (edge_is_plain(edge))
		return true;
	CUgraphEdgeData known = {.from_port = edge->from_port, .type = edge->type};
	return memcmp(&known, edge, sizeof(known)) == 0 &&
	       edge->type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
	       (edge->from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
	        edge->from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) &&
	       from->params.type == CU_GRAPH_NODE_TYPE_KERNEL &&
	       to->params.type == CU_GRAPH_NODE_TYPE_KERNEL;
}

CUresult graph_connect(struct graph_node *from, struct graph_node *to, const CUgraphEdgeData *edge)
{
	static const CUgraphEdgeData plain;
	if (!edge)
		edge = &plain;
	if (from == to || from->graph != to->graph || !edge_is_valid(from, to, edge) ||
	    node_set_find(&to->before, from) < to->before.count)
		return CUDA_ERROR_INVALID_VALUE;
	if (!node_set_add(&to->before, from, edge))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!node_set_add(&from->after, to, edge)) {
		node_set_remove(&to->before, to->before.count - 1);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

static void disconnect_all(struct graph_node *node)
{
	for (size_t i = 0; i < node->before.count; i++) {
		struct graph_node *other = (struct graph_node *)node->before.nodes[i];
		node_set_remove(&other->after, node_set_find(&other->after, node));
	}
	for (size_t i = 0; i < node->after.count; i++) {
		struct graph_node *other = (struct graph_node *)node->after.nodes[i];
		node_set_remove(&other->before, node_set_find(&other->before, node));
	}
}

CUresult graph_add(struct graph *graph, const CUgraphNode *dependencies,
                   const CUgraphEdgeData *edges, size_t count, CUgraphNodeParams *params,
                   struct context *context, struct graph_node **out)
{
	if (count && !dependencies)
		return CUDA_ERROR_INVALID_VALUE;
	struct graph_node *node = node_new(graph, context);
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	node->params.type = params->type;
	CUresult result = CUDA_SUCCESS;
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		struct graph_node *from = node_find(dependencies[i]);
		result = from ? graph_connect(from, node, edges ? &edges[i] : NULL)
		              : CUDA_ERROR_INVALID_VALUE;
	}
	/* Last, as a child graph that is moved cannot be given back. */
	if (result == CUDA_SUCCESS)
		result = node_assign(node, params, context);
	if (result != CUDA_SUCCESS) {
		disconnect_all(node);
		node_free(node);
		return result;
	}
	if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		params->alloc.dptr = node->params.alloc.dptr;
	if (params->type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
		params->conditional.phGraph_out = node->params.conditional.phGraph_out;
	*out = node;
	return CUDA_SUCCESS;
}

CUresult graph_copy(const struct graph *from, bool hidden, struct graph **out)
{
	struct graph *graph = graph_new(hidden);
	struct graph_node **copies = calloc(from->count + 1, sizeof(struct graph_node *));
	CUresult result = graph && copies ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS && !user_references_copy(&graph->references, from->references))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	size_t count = 0;
	for (struct graph_node *node = from->nodes; node && result == CUDA_SUCCESS;
	     node = node->next) {
		struct graph_node *copy = node_new(graph, node->context);
		if (!copy) {
			result = CUDA_ERROR_OUT_OF_MEMORY;
			break;
		}
		node->rank = count;
		copies[count++] = copy;
		copy->origin = node->serial;
		copy->disabled = node->disabled;
		result = node_copy(copy, node);
	}
	for (struct graph_node *node = from->nodes; node && result == CUDA_SUCCESS;
	     node = node->next) {
		for (size_t i = 0; i < node->before.count && result == CUDA_SUCCESS; i++) {
			const struct graph_node *before =
			    (struct graph_node *)node->before.nodes[i];
			result = graph_connect(copies[before->rank], copies[node->rank],
			                       &node->before.edges[i]);
		}
	}
	free(copies);
	if (result != CUDA_SUCCESS) {
		if (graph)
			graph_free(graph);
		return result;
	}
	graph->origin = from->serial;
	*out = graph;
	return CUDA_SUCCESS;
}

CUresult graph_of_copy(const struct graph_node *node, struct graph **out)
{
	struct graph *graph = graph_new(true);
	struct graph_node *copy = graph ? node_new(graph, node->context) : NULL;
	CUresult result = copy ? node_copy(copy, node) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS)
		*out = graph;
	else if (graph)
		graph_free(graph);
	return result;
}

struct graph_node **graph_sort(const struct graph *graph, struct graph_node **offender)
{
	struct graph_node **order = calloc(graph->count + 1, sizeof(struct graph_node *));
	if (!order)
		return NULL;
	size_t ready = 0;
	struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		node->rank = node->before.count; /* edges still to be followed */
		if (node->rank == 0)
			order[ready++] = node;
	}
	for (size_t done = 0; done < ready; done++) {
		for (size_t i = 0; i < order[done]->after.count; i++) {
			struct graph_node *after = (struct graph_node *)order[done]->after.nodes[i];
			if (--after->rank == 0)
				order[ready++] = after;
		}
	}
	if (ready == graph->count)
		return order;
	DL_FOREACH (graph->nodes, node) {
		if (node->rank) {
			*offender = node;
			break;
		}
	}
	free(order);
	return NULL;
}

bool graph_has_memory_nodes(const struct graph *graph)
{
	const struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		if (node->memory || (node->child && graph_has_memory_nodes(node->child)))
			return true;
	}
	return false;
}

bool graph_is_fixed(const struct graph *graph)
{
	return graph->capture || graph_has_memory_nodes(graph);
}

EXPORT CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || flags != 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct graph *graph = graph_new(false);
	if (!graph)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	*out = (CUgraph)graph;
	return leave(CUDA_SUCCESS);
}

/* Enters a call about one graph. */
static CUresult enter_graph(const char *call, CUgraph handle, struct graph **graph)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	*graph = graph_find(handle);
	return *graph ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuGraphDestroy(CUgraph handle)
{
	struct graph *graph;
	CUresult result = enter_graph(__func__, handle, &graph);
	if (result != CUDA_SUCCESS)
		return result;
	if (graph->capture || graph->holder)
		return leave(CUDA_ERROR_INVALID_VALUE);
	graph_free(graph);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphClone(CUgraph *out, CUgraph handle)
{
	struct graph *graph, *copy;
	CUresult result = enter_graph(__func__, handle, &graph);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || graph_has_memory_nodes(graph) || graph_has_conditionals(graph))
		return leave(CUDA_ERROR_INVALID_VALUE);
	result = graph_copy(graph, false, &copy);
	if (result == CUDA_SUCCESS)
		*out = (CUgraph)copy;
	return leave(result);
}

/* A graph and the graphs of its child nodes are searched for the copy of a node. */
static struct graph_node *find_copy(const struct graph *graph, uint64_t origin)
{
	struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		if (node->origin == origin)
			return node;
		const struct graph *inner;
		for (unsigned int i = 0; (inner = node_within(node, i)); i++) {
			struct graph_node *within = find_copy(inner, origin);
			if (within)
				return within;
		}
	}
	return NULL;
}

EXPORT CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone)
{
	struct graph *graph;
	CUresult result = enter_graph(__func__, clone, &graph);
	if (result != CUDA_SUCCESS)
		return result;
	const struct graph_node *node = node_find(original);
	struct graph_node *copy = node ? find_copy(graph, node->serial) : NULL;
	if (!out || !copy)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUgraphNode)copy;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphDestroyNode(CUgraphNode handle)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph_node *node = node_find(handle);
	if (!node || graph_is_fixed(node->graph))
		return leave(CUDA_ERROR_INVALID_VALUE);
	disconnect_all(node);
	node_free(node);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	const struct graph_node *node = node_find(handle);
	if (!node || !type)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*type = node->params.type;
	return leave(CUDA_SUCCESS);
}
