/* SPDX-License-Identifier: MIT */
/*
 * Conditional nodes: their handles, with values that kernels set, and the bodies that run by them.
 * A graph with such nodes has one executable graph at a time, so a handle has one value.
 */
#include "tests/softgpu/graph.h"

#include <stdlib.h>

#include "tests/softgpu/memory.h"

struct conditional {
	uint64_t id; /* CUgraphConditionalHandle */
	int references;
	struct graph *graph;           /* it was made for; NULL: that is gone */
	const struct graph_node *node; /* that has it, in that graph or within; NULL: none */
	struct context *context;
	unsigned int initial, value;
	bool assigns; /* a launch begins with the initial value */
	struct lanes lanes;
	struct conditional *prev, *next; /* of the graph */
	UT_hash_handle hh;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the table and the values */
static struct conditional *table;

static struct conditional *find(uint64_t id)
{
	struct conditional *conditional;
	HASH_FIND(hh, table, &id, sizeof(id), conditional);
	return conditional;
}

bool conditional_set(void *context, uint64_t id, uint32_t value)
{
	pthread_mutex_lock(&lock);
	struct conditional *conditional = find(id);
	bool known = conditional && conditional->context == context;
	if (known)
		conditional->value = value;
	pthread_mutex_unlock(&lock);
	return known;
}

static void unreference(struct conditional *conditional)
{
	if (--conditional->references)
		return;
	pthread_mutex_lock(&lock);
	HASH_DEL(table, conditional);
	pthread_mutex_unlock(&lock);
	lanes_close(&conditional->lanes);
	free(conditional);
}

void conditionals_drop(struct graph *graph)
{
	struct conditional *conditional, *next;
	DL_FOREACH_SAFE(graph->conditionals, conditional, next)
	{
		DL_DELETE(graph->conditionals, conditional);
		conditional->graph = NULL;
		unreference(conditional);
	}
}

bool conditionals_are_used(const struct graph *graph)
{
	const struct conditional *conditional;
	DL_FOREACH (graph->conditionals, conditional) {
		if (!conditional->node)
			return false;
	}
	return true;
}

EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph handle,
                                               CUcontext context_handle, unsigned int initial,
                                               unsigned int flags)
{
	static uint64_t last_id = 0xc0de00000000ULL;
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph *graph = graph_find(handle);
	struct context *context = context_handle ? context_find(context_handle) : current_context();
	if (!out || !graph || (flags & ~(unsigned int)CU_GRAPH_COND_ASSIGN_DEFAULT))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!context)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	struct conditional *conditional = calloc(1, sizeof(*conditional));
	if (!conditional)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	conditional->id = ++last_id;
	conditional->references = 1;
	conditional->graph = graph;
	conditional->context = context;
	conditional->initial = initial;
	conditional->assigns = flags & CU_GRAPH_COND_ASSIGN_DEFAULT;
	pthread_mutex_lock(&lock);
	HASH_ADD(hh, table, id, sizeof(conditional->id), conditional);
	bool added = conditional->hh.tbl != NULL;
	pthread_mutex_unlock(&lock);
	if (!added) {
		free(conditional);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	DL_APPEND(graph->conditionals, conditional);
	*out = conditional->id;
	return leave(CUDA_SUCCESS);
}

/* --- nodes --- */

bool graph_has_conditionals(const struct graph *graph)
{
	const struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		if (node->conditional || (node->child && graph_has_conditionals(node->child)))
			return true;
	}
	return false;
}

/* The conditional of the node in whose body the graph is, at any depth; NULL: it is in none. */
static const struct conditional *body_of(const struct graph *graph)
{
	for (; graph->holder; graph = graph->holder->graph)
		if (graph->holder->conditional)
			return graph->holder->conditional;
	return NULL;
}

static bool fits(const struct graph_node *node, const struct conditional *body)
{
	const struct graph_node *inner;
	switch (node->params.type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return node->context == body->context;
	case CU_GRAPH_NODE_TYPE_EMPTY:
	case CU_GRAPH_NODE_TYPE_MEMSET:
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return true;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		DL_FOREACH (node->child->nodes, inner) {
			if (!fits(inner, body))
				return false;
		}
		return true;
	default:
		return false;
	}
}

bool node_fits_body(const struct graph_node *node)
{
	const struct conditional *body = body_of(node->graph);
	return !body || fits(node, body);
}

static bool size_is_valid(const CUDA_CONDITIONAL_NODE_PARAMS *what)
{
	switch (what->type) {
	case CU_GRAPH_COND_TYPE_IF:
		return what->size == 1 || what->size == 2;
	case CU_GRAPH_COND_TYPE_WHILE:
		return what->size == 1;
	case CU_GRAPH_COND_TYPE_SWITCH:
		return what->size > 0;
	}
	return false;
}

/* Returns whether the graph, or one that it is within, is that of the handle. */
static bool is_within(const struct graph *graph, const struct graph *outer)
{
	while (graph != outer && graph->holder)
		graph = graph->holder->graph;
	return outer && graph == outer;
}

CUresult conditional_assign(struct graph_node *node)
{
	CUDA_CONDITIONAL_NODE_PARAMS *what = &node->params.conditional;
	struct conditional *conditional = find(what->handle);
	if (!conditional || conditional->node || !size_is_valid(what) ||
	    !is_within(node->graph, conditional->graph) ||
	    (what->ctx && context_find(what->ctx) != conditional->context))
		return CUDA_ERROR_INVALID_VALUE;
	node->bodies = calloc(what->size, sizeof(*node->bodies));
	if (!node->bodies)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned int i = 0; i < what->size; i++) {
		node->bodies[i] = graph_new(false);
		if (!node->bodies[i])
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	node->conditional = conditional;
	conditional->references++;
	node->context = conditional->context;
	what->ctx = (CUcontext)conditional->context;
	what->phGraph_out = (CUgraph *)node->bodies;
	return CUDA_SUCCESS;
}

void conditional_belongs_to(struct graph_node *node)
{
	for (unsigned int i = 0; i < node->params.conditional.size; i++)
		node->bodies[i]->holder = node;
	if (!node->graph->hidden)
		node->conditional->node = node;
}

CUresult conditional_copy(struct graph_node *node, const struct graph_node *from)
{
	const CUDA_CONDITIONAL_NODE_PARAMS *what = &from->params.conditional;
	node->bodies = calloc(what->size, sizeof(*node->bodies));
	CUresult result = node->bodies ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	for (unsigned int i = 0; i < what->size && result == CUDA_SUCCESS; i++)
		result = graph_copy(from->bodies[i], true, &node->bodies[i]);
	node->conditional = from->conditional;
	node->conditional->references++;
	return result;
}

void conditional_clear(struct graph_node *node)
{
	for (unsigned int i = 0; node->bodies && i < node->params.conditional.size; i++) {
		if (!node->bodies[i])
			continue;
		node->bodies[i]->holder = NULL;
		graph_free(node->bodies[i]);
	}
	free(node->bodies);
	node->bodies = NULL;
	if (!node->conditional)
		return;
	if (node->conditional->node == node)
		node->conditional->node = NULL;
	unreference(node->conditional);
	node->conditional = NULL;
}

/* --- launches --- */

void conditionals_begin(const struct graph *graph)
{
	const struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		struct conditional *conditional = node->conditional;
		if (!conditional)
			continue;
		if (conditional->assigns)
			conditional_set(conditional->context, conditional->id,
			                conditional->initial);
		for (unsigned int i = 0; i < node->params.conditional.size; i++)
			conditionals_begin(node->bodies[i]);
	}
}

struct lanes *conditional_lanes(const struct graph_node *node)
{
	return &node->conditional->lanes;
}

struct graph *conditional_choose(const struct graph_node *node)
{
	const CUDA_CONDITIONAL_NODE_PARAMS *what = &node->params.conditional;
	pthread_mutex_lock(&lock);
	unsigned int value = node->conditional->value;
	pthread_mutex_unlock(&lock);
	if (what->type != CU_GRAPH_COND_TYPE_SWITCH)
		value = value == 0;
	return value < what->size ? node->bodies[value] : NULL;
}
