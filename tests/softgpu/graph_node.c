/* SPDX-License-Identifier: MIT */
/*
 * The parameters of nodes. Parameters are kept as the driver's own CUgraphNodeParams, regardless of
 * the call that brought them. The data that they point to is copied. Addresses mean nothing until a
 * launch.
 */
#include "tests/softgpu/graph.h"

#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/memory.h"
#include "tests/softgpu/work.h"

/* Frees what the parameters own; attributes stay with the node. */
static void clear_contents(struct graph_node *node)
{
	free(node->arguments);
	free(node->accesses);
	if (node->child) {
		node->child->holder = NULL;
		graph_free(node->child);
	}
	if (node->memory)
		graph_memory_unreference(node->memory);
	conditional_clear(node);
	node->arguments = NULL;
	node->accesses = NULL;
	node->child = NULL;
	node->memory = NULL;
}

void node_clear(struct graph_node *node)
{
	clear_contents(node);
	for (int i = 0; i < CU_LAUNCH_ATTRIBUTE_MAX; i++)
		free(node->attributes[i]);
}

bool node_is_cooperative(const struct graph_node *node)
{
	const CUlaunchAttributeValue *value = node->attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE];
	return value && value->cooperative;
}

CUresult node_function(const struct graph_node *node, struct function **function)
{
	const CUDA_KERNEL_NODE_PARAMS_v3 *kernel = &node->params.kernel;
	return function_find(kernel->func ? kernel->func : (CUfunction)kernel->kern, node->context,
	                     function);
}

static struct kernel_arguments *new_arguments(const struct ptx_function_info *info)
{
	struct kernel_arguments *arguments =
	    calloc(1, sizeof(*arguments) + info->parameter_bytes +
	                  (info->parameter_count + 1) * sizeof(void *) + sizeof(void *));
	if (!arguments)
		return NULL;
	size_t words = (info->parameter_bytes + sizeof(void *) - 1) / sizeof(void *);
	arguments->size = info->parameter_bytes;
	arguments->pointers = (void **)arguments->block + words;
	for (uint32_t i = 0; i < info->parameter_count; i++)
		arguments->pointers[i] =
		    (unsigned char *)arguments->block + info->parameters[i].offset;
	return arguments;
}

/* Points the parameters to the node's own copy, in the form they were given. */
static void point_to_arguments(struct graph_node *node, bool as_extra)
{
	struct kernel_arguments *arguments = node->arguments;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, arguments->block,
	                 CU_LAUNCH_PARAM_BUFFER_SIZE, &arguments->size, CU_LAUNCH_PARAM_END};
	memcpy(arguments->extra, extra, sizeof(extra));
	node->params.kernel.extra = as_extra ? arguments->extra : NULL;
	node->params.kernel.kernelParams = as_extra ? NULL : arguments->pointers;
}

static CUresult assign_kernel(struct graph_node *node, bool cooperative)
{
	CUDA_KERNEL_NODE_PARAMS_v3 *kernel = &node->params.kernel;
	struct function *function = handle_find(kernel->func, HANDLE_FUNCTION);
	if (function) {
		node->context = function->module->context;
	} else if (!kernel->func && kernel->ctx) {
		node->context = context_find(kernel->ctx);
		if (!node->context)
			return CUDA_ERROR_INVALID_CONTEXT;
	}
	if (!kernel->func && !kernel->kern)
		return CUDA_ERROR_INVALID_VALUE;
	if (!node->context)
		return CUDA_ERROR_INVALID_CONTEXT;
	CUresult result = node_function(node, &function);
	struct ptx_launch shape = {
	    .grid = {kernel->gridDimX, kernel->gridDimY, kernel->gridDimZ},
	    .block = {kernel->blockDimX, kernel->blockDimY, kernel->blockDimZ},
	    .dynamic_shared = kernel->sharedMemBytes,
	    .cooperative = cooperative,
	};
	if (result == CUDA_SUCCESS)
		result = kernel_check(function, &shape);
	if (result != CUDA_SUCCESS)
		return result;
	node->arguments = new_arguments(function->info);
	if (!node->arguments)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = kernel_gather(node->arguments->block, function->info, kernel->kernelParams,
	                       kernel->extra);
	if (result == CUDA_SUCCESS)
		point_to_arguments(node, kernel->extra != NULL);
	return result;
}

/* The context that parameters name, or the current one. */
static CUresult assign_context(struct graph_node *node, CUcontext *named)
{
	if (*named)
		node->context = context_find(*named);
	*named = (CUcontext)node->context;
	return node->context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult assign_copy(struct graph_node *node)
{
	CUDA_MEMCPY_NODE_PARAMS *copy = &node->params.memcpy;
	struct copy_side to, from;
	struct copy_shape shape;
	if (copy->flags || copy->reserved)
		return CUDA_ERROR_INVALID_VALUE;
	CUresult result = assign_context(node, &copy->copyCtx);
	if (result == CUDA_SUCCESS)
		result = copy_read_3d(&copy->copyParams, &to, &from, &shape);
	if (result != CUDA_SUCCESS)
		return result;
	if (shape.width == 0 || shape.height == 0 || shape.depth == 0)
		return CUDA_ERROR_INVALID_VALUE;
	result = copy_check(&to, &from, &shape);
	node->by_cpu = result == CUDA_SUCCESS && is_cpu_copy(&to, &from);
	return result;
}

static CUresult assign_fill(struct graph_node *node)
{
	CUDA_MEMSET_NODE_PARAMS_v2 *fill = &node->params.memset;
	enum side_kind kind;
	CUresult result = assign_context(node, &fill->ctx);
	if (result != CUDA_SUCCESS)
		return result;
	if (fill->width == 0 || fill->height == 0)
		return CUDA_ERROR_INVALID_VALUE;
	return fill_check(fill, &kind);
}

/* Returns whether the graph holds the node, at any depth. */
static bool graph_holds(const struct graph *graph, const struct graph_node *node)
{
	for (; node; node = node->graph->holder)
		if (node->graph == graph)
			return true;
	return false;
}

static CUresult assign_child(struct graph_node *node)
{
	CUDA_CHILD_GRAPH_NODE_PARAMS *child = &node->params.graph;
	struct graph *graph = graph_find(child->graph);
	if (!graph || graph->capture || graph_has_conditionals(graph))
		return CUDA_ERROR_INVALID_VALUE;
	if (child->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE) {
		if (graph_has_memory_nodes(graph))
			return CUDA_ERROR_INVALID_VALUE;
		CUresult result = graph_copy(graph, node->graph->hidden, &node->child);
		if (result != CUDA_SUCCESS)
			return result;
	} else if (child->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE) {
		if (graph->holder || graph->instance || graph_holds(graph, node))
			return CUDA_ERROR_INVALID_VALUE;
		node->child = graph;
	} else {
		return CUDA_ERROR_INVALID_VALUE;
	}
	child->graph = (CUgraph)node->child;
	return CUDA_SUCCESS;
}

static CUresult assign_event(struct graph_node *node, CUevent event)
{
	node->context = event_context(event);
	return node->context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static CUresult assign_allocation(struct graph_node *node)
{
	CUDA_MEM_ALLOC_NODE_PARAMS_v2 *what = &node->params.alloc;
	if (!node->context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (node->graph->holder)
		return CUDA_ERROR_INVALID_VALUE;
	if (what->accessDescCount) {
		if (!what->accessDescs || what->accessDescCount > (size_t)device_count)
			return CUDA_ERROR_INVALID_VALUE;
		node->accesses = calloc(what->accessDescCount, sizeof(*node->accesses));
		if (!node->accesses)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(node->accesses, what->accessDescs,
		       what->accessDescCount * sizeof(*node->accesses));
	}
	what->accessDescs = node->accesses;
	return graph_memory_new(node->graph, node->context, what, &node->memory);
}

static CUresult assign_free(struct graph_node *node)
{
	if (!node->context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (node->graph->holder)
		return CUDA_ERROR_INVALID_VALUE;
	return graph_memory_for_free(node->graph, node->params.free.dptr, &node->memory);
}

static CUresult assign(struct graph_node *node, bool cooperative)
{
	switch (node->params.type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return assign_kernel(node, cooperative);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return assign_copy(node);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return assign_fill(node);
	case CU_GRAPH_NODE_TYPE_HOST:
		return node->params.host.fn ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return assign_child(node);
	case CU_GRAPH_NODE_TYPE_EMPTY:
		return CUDA_SUCCESS;
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return assign_event(node, node->params.eventWait.event);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return assign_event(node, node->params.eventRecord.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return assign_allocation(node);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return assign_free(node);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return conditional_assign(node);
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
	case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
		say("graph nodes of type %d are not supported", (int)node->params.type);
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult node_assign(struct graph_node *node, const CUgraphNodeParams *params,
                     struct context *context)
{
	struct graph_node fresh = {.graph = node->graph, .context = context, .params = *params};
	CUresult result = assign(&fresh, node_is_cooperative(node));
	if (result == CUDA_SUCCESS && !node_fits_body(&fresh))
		result = CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS) {
		clear_contents(&fresh);
		return result;
	}
	clear_contents(node);
	node->context = fresh.context;
	node->params = fresh.params;
	node->by_cpu = fresh.by_cpu;
	node->arguments = fresh.arguments;
	node->child = fresh.child;
	node->memory = fresh.memory;
	node->accesses = fresh.accesses;
	node->conditional = fresh.conditional;
	node->bodies = fresh.bodies;
	if (node->child)
		node->child->holder = node;
	if (node->conditional)
		conditional_belongs_to(node);
	return CUDA_SUCCESS;
}

CUresult node_copy_attributes(struct graph_node *node, const struct graph_node *from)
{
	for (int i = 0; i < CU_LAUNCH_ATTRIBUTE_MAX; i++) {
		if (!from->attributes[i])
			continue;
		CUresult result =
		    node_set_attribute(node, (CUkernelNodeAttrID)i, from->attributes[i]);
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

CUresult node_copy(struct graph_node *node, const struct graph_node *from)
{
	struct graph_node fresh = {.params = from->params, .by_cpu = from->by_cpu};
	if (from->arguments) {
		struct function *function;
		CUresult result = node_function(from, &function);
		if (result != CUDA_SUCCESS)
			return result;
		fresh.arguments = new_arguments(function->info);
		if (!fresh.arguments)
			return CUDA_ERROR_OUT_OF_MEMORY;
		memcpy(fresh.arguments->block, from->arguments->block, fresh.arguments->size);
	}
	if (from->child) {
		CUresult result = graph_copy(from->child, node->graph->hidden, &fresh.child);
		if (result != CUDA_SUCCESS)
			return result;
	}
	if (from->conditional) {
		CUresult result = conditional_copy(&fresh, from);
		if (result != CUDA_SUCCESS) {
			conditional_clear(&fresh);
			return result;
		}
	}
	clear_contents(node);
	node->context = from->context;
	node->params = fresh.params;
	node->by_cpu = fresh.by_cpu;
	node->arguments = fresh.arguments;
	node->child = fresh.child;
	node->conditional = fresh.conditional;
	node->bodies = fresh.bodies;
	if (node->conditional) {
		node->params.conditional.phGraph_out = (CUgraph *)node->bodies;
		conditional_belongs_to(node);
	}
	if (node->arguments)
		point_to_arguments(node, from->params.kernel.extra != NULL);
	if (node->child) {
		node->params.graph.graph = (CUgraph)node->child;
		node->child->holder = node;
	}
	if (from->memory) {
		/* Its access descriptors stay with the original: the memory knows its rights. */
		node->params.alloc.accessDescs = NULL;
		node->memory = from->memory;
		graph_memory_reference(node->memory);
	}
	return node_copy_attributes(node, from);
}

CUresult node_set_attribute(struct graph_node *node, CUkernelNodeAttrID id,
                            const CUlaunchAttributeValue *value)
{
	if (!node->attributes[id])
		node->attributes[id] = malloc(sizeof(*value));
	if (!node->attributes[id])
		return CUDA_ERROR_OUT_OF_MEMORY;
	*node->attributes[id] = *value;
	return CUDA_SUCCESS;
}

/* Returns whether an address is memory of the same context and device as before. */
static bool same_place(uint64_t before, uint64_t now)
{
	const struct range *a = range_find(before), *b = range_find(now);
	/* Pageable memory, and what was unmapped since, have no place to compare. */
	return !a || !b || (a->context == b->context && a->device == b->device);
}

static bool same_side(const struct copy_side *a, const struct copy_side *b)
{
	return a->address == b->address && a->pitch == b->pitch && a->slice == b->slice;
}

static bool copy_may_become(const CUDA_MEMCPY3D *copy, const CUDA_MEMCPY3D *other)
{
	struct copy_side to, from, new_to, new_from;
	struct copy_shape shape, new_shape;
	if (copy_read_3d(copy, &to, &from, &shape) != CUDA_SUCCESS ||
	    copy_read_3d(other, &new_to, &new_from, &new_shape) != CUDA_SUCCESS ||
	    to.meant != new_to.meant || from.meant != new_from.meant)
		return false;
	if (shape.height == 1 && shape.depth == 1 && new_shape.height == 1 && new_shape.depth == 1)
		return same_place(to.address, new_to.address) &&
		       same_place(from.address, new_from.address);
	/* Of copies of rows and planes nothing may change. */
	return same_side(&to, &new_to) && same_side(&from, &new_from) &&
	       shape.width == new_shape.width && shape.height == new_shape.height &&
	       shape.depth == new_shape.depth;
}

static bool fill_may_become(const CUDA_MEMSET_NODE_PARAMS_v2 *fill,
                            const CUDA_MEMSET_NODE_PARAMS_v2 *other)
{
	bool same_shape = fill->width == other->width && fill->height == other->height &&
	                  fill->elementSize == other->elementSize &&
	                  (fill->height == 1 || fill->pitch == other->pitch);
	bool flat = fill->height == 1 && other->height == 1;
	return (same_shape || flat) && same_place(fill->dst, other->dst);
}

CUgraphExecUpdateResult node_may_become(const struct graph_node *node,
                                        const struct graph_node *other)
{
	if (node->params.type != other->params.type)
		return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
	bool fits = true;
	switch (node->params.type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		if (node->context != other->context)
			return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
		if (node_is_cooperative(node) != node_is_cooperative(other))
			return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		fits = node->context == other->context &&
		       copy_may_become(&node->params.memcpy.copyParams,
		                       &other->params.memcpy.copyParams);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		fits = node->context == other->context &&
		       fill_may_become(&node->params.memset, &other->params.memset);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		if (node->memory != other->memory)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
		break;
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		if (node->conditional != other->conditional)
			return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
		break;
	default:
		break;
	}
	return fits ? CU_GRAPH_EXEC_UPDATE_SUCCESS : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
}
