/* SPDX-License-Identifier: MIT */
/* Sets of nodes, in the order they were added, with the data of an edge to each. */
#include "tests/softgpu/graph.h"

#include <stdlib.h>
#include <string.h>

size_t node_set_find(const struct node_set *set, const struct graph_node *node)
{
	size_t i = 0;
	while (i < set->count && set->nodes[i] != (CUgraphNode)node)
		i++;
	return i;
}

static bool reserve(struct node_set *set, size_t wanted)
{
	if (wanted <= set->capacity)
		return true;
	size_t capacity = set->capacity ? 2 * set->capacity : 4;
	if (capacity < wanted)
		capacity = wanted;
	CUgraphNode *nodes = realloc(set->nodes, capacity * sizeof(*nodes));
	if (!nodes)
		return false;
	set->nodes = nodes;
	CUgraphEdgeData *edges = realloc(set->edges, capacity * sizeof(*edges));
	if (!edges)
		return false;
	set->edges = edges;
	set->capacity = capacity;
	return true;
}

bool node_set_add(struct node_set *set, struct graph_node *node, const CUgraphEdgeData *edge)
{
	if (!reserve(set, set->count + 1))
		return false;
	set->nodes[set->count] = (CUgraphNode)node;
	set->edges[set->count++] = edge ? *edge : (CUgraphEdgeData){0};
	return true;
}

void node_set_remove(struct node_set *set, size_t index)
{
	size_t rest = set->count - index - 1;
	memmove(set->nodes + index, set->nodes + index + 1, rest * sizeof(*set->nodes));
	memmove(set->edges + index, set->edges + index + 1, rest * sizeof(*set->edges));
	set->count--;
}

bool node_set_copy(struct node_set *to, const struct node_set *from)
{
	if (!reserve(to, from->count))
		return false;
	if (from->count) {
		memcpy(to->nodes, from->nodes, from->count * sizeof(*to->nodes));
		memcpy(to->edges, from->edges, from->count * sizeof(*to->edges));
	}
	to->count = from->count;
	return true;
}

void node_set_clear(struct node_set *set)
{
	free(set->nodes);
	free(set->edges);
	*set = (struct node_set){0};
}

bool edge_is_plain(const CUgraphEdgeData *edge)
{
	static const CUgraphEdgeData plain;
	return memcmp(edge, &plain, sizeof(plain)) == 0;
}

CUresult node_set_answer(const struct node_set *set, CUgraphNode *nodes, CUgraphEdgeData *edges,
                         size_t *count)
{
	if (!count || (edges && !nodes))
		return CUDA_ERROR_INVALID_VALUE;
	if (!nodes) {
		*count = set->count;
		return CUDA_SUCCESS;
	}
	size_t given = *count < set->count ? *count : set->count;
	for (size_t i = 0; !edges && i < given; i++)
		if (!edge_is_plain(&set->edges[i]))
			return CUDA_ERROR_LOSSY_QUERY;
	for (size_t i = 0; i < *count; i++) {
		nodes[i] = i < given ? set->nodes[i] : NULL;
		if (edges)
			edges[i] = i < given ? set->edges[i] : (CUgraphEdgeData){0};
	}
	*count = given;
	return CUDA_SUCCESS;
}
