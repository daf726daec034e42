/* SPDX-License-Identifier: MIT */
/* The calls that ask for a graph's nodes and edges, and that add and remove edges. */
#include "tests/softgpu/graph.h"

#include <string.h>

/* Answers with all nodes of a graph, or those without dependencies. */
static CUresult get_nodes(const char *call, CUgraph handle, CUgraphNode *nodes, size_t *count,
                          bool roots_only)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	const struct graph *graph = graph_find(handle);
	if (!graph || !count)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct node_set all = {0};
	struct graph_node *node;
	bool complete = true;
	DL_FOREACH (graph->nodes, node) {
		if (!roots_only || node->before.count == 0)
			complete = complete && node_set_add(&all, node, NULL);
	}
	result = complete ? node_set_answer(&all, nodes, NULL, count) : CUDA_ERROR_OUT_OF_MEMORY;
	node_set_clear(&all);
	return leave(result);
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return get_nodes(__func__, graph, nodes, count, false);
}

EXPORT CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	return get_nodes(__func__, graph, nodes, count, true);
}

static CUresult get_edges(const char *call, CUgraph handle, CUgraphNode *from, CUgraphNode *to,
                          CUgraphEdgeData *data, size_t *count)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	const struct graph *graph = graph_find(handle);
	if (!graph || !count || !from != !to || (data && !from))
		return leave(CUDA_ERROR_INVALID_VALUE);
	size_t found = 0;
	const struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		for (size_t i = 0; i < node->after.count; i++, found++) {
			if (!from || found >= *count)
				continue;
			if (!data && !edge_is_plain(&node->after.edges[i]))
				return leave(CUDA_ERROR_LOSSY_QUERY);
			from[found] = (CUgraphNode)node;
			to[found] = node->after.nodes[i];
			if (data)
				data[found] = node->after.edges[i];
		}
	}
	for (size_t i = found; from && i < *count; i++)
		from[i] = to[i] = NULL;
	if (!from || found < *count)
		*count = found;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
	return get_edges(__func__, graph, from, to, NULL, count);
}

EXPORT CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                                   CUgraphEdgeData *data, size_t *count)
{
	return get_edges(__func__, graph, from, to, data, count);
}

static CUresult get_neighbours(const char *call, CUgraphNode handle, CUgraphNode *nodes,
                               CUgraphEdgeData *data, size_t *count, bool before)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	const struct graph_node *node = node_find(handle);
	if (!node)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(node_set_answer(before ? &node->before : &node->after, nodes, data, count));
}

EXPORT CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
	return get_neighbours(__func__, node, nodes, NULL, count, true);
}

EXPORT CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes,
                                              CUgraphEdgeData *data, size_t *count)
{
	return get_neighbours(__func__, node, nodes, data, count, true);
}

EXPORT CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
	return get_neighbours(__func__, node, nodes, NULL, count, false);
}

EXPORT CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                                CUgraphEdgeData *data, size_t *count)
{
	return get_neighbours(__func__, node, nodes, data, count, false);
}

static void disconnect(struct graph_node *from, struct graph_node *to)
{
	node_set_remove(&from->after, node_set_find(&from->after, to));
	node_set_remove(&to->before, node_set_find(&to->before, from));
}

/* Adds all the edges or none. */
static CUresult add_edges(const char *call, CUgraph handle, const CUgraphNode *from,
                          const CUgraphNode *to, const CUgraphEdgeData *data, size_t count)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	const struct graph *graph = graph_find(handle);
	if (!graph || (count && (!from || !to)))
		return leave(CUDA_ERROR_INVALID_VALUE);
	size_t added = 0;
	for (; added < count && result == CUDA_SUCCESS; added++) {
		struct graph_node *a = node_find(from[added]), *b = node_find(to[added]);
		result = a && b && a->graph == graph
		             ? graph_connect(a, b, data ? &data[added] : NULL)
		             : CUDA_ERROR_INVALID_VALUE;
	}
	if (result != CUDA_SUCCESS)
		for (added--; added-- > 0;)
			disconnect((struct graph_node *)from[added],
			           (struct graph_node *)to[added]);
	return leave(result);
}

EXPORT CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from,
                                       const CUgraphNode *to, size_t count)
{
	return add_edges(__func__, graph, from, to, NULL, count);
}

EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                          const CUgraphNode *to, const CUgraphEdgeData *data,
                                          size_t count)
{
	return add_edges(__func__, graph, from, to, data, count);
}

static bool edge_exists(const struct graph *graph, const struct graph_node *from,
                        const struct graph_node *to, const CUgraphEdgeData *data)
{
	static const CUgraphEdgeData plain;
	if (!from || !to || from->graph != graph || to->graph != graph)
		return false;
	size_t index = node_set_find(&to->before, from);
	return index < to->before.count &&
	       memcmp(&to->before.edges[index], data ? data : &plain, sizeof(plain)) == 0;
}

/* Removes all the edges, or none when one does not exist. */
static CUresult remove_edges(const char *call, CUgraph handle, const CUgraphNode *from,
                             const CUgraphNode *to, const CUgraphEdgeData *data, size_t count)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	const struct graph *graph = graph_find(handle);
	if (!graph || (count && (!from || !to || graph_is_fixed(graph))))
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < count; i++)
		if (!edge_exists(graph, node_find(from[i]), node_find(to[i]),
		                 data ? &data[i] : NULL))
			return leave(CUDA_ERROR_INVALID_VALUE);
	for (size_t i = 0; i < count; i++) {
		struct graph_node *a = node_find(from[i]), *b = node_find(to[i]);
		if (edge_exists(graph, a, b, data ? &data[i] : NULL)) /* may be named twice */
			disconnect(a, b);
	}
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from,
                                          const CUgraphNode *to, size_t count)
{
	return remove_edges(__func__, graph, from, to, NULL, count);
}

EXPORT CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                             const CUgraphNode *to, const CUgraphEdgeData *data,
                                             size_t count)
{
	return remove_edges(__func__, graph, from, to, data, count);
}
