/* SPDX-License-Identifier: MIT */
/* cuGraphDebugDotPrint: a graph as text for the tools of Graphviz. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/softgpu/graph.h"
#include "tests/softgpu/work.h"

static const char *const type_names[] = {
    [CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
    [CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
    [CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
    [CU_GRAPH_NODE_TYPE_HOST] = "HOST",
    [CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
    [CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
    [CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "WAIT_EVENT",
    [CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
    [CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "MEM_ALLOC",
    [CU_GRAPH_NODE_TYPE_MEM_FREE] = "MEM_FREE",
    [CU_GRAPH_NODE_TYPE_CONDITIONAL] = "CONDITIONAL",
};

static bool wants(unsigned int flags, unsigned int detail)
{
	return flags & (detail | CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
}

static void print_details(FILE *file, const struct graph_node *node, unsigned int flags)
{
	struct function *function;
	const CUgraphNodeParams *params = &node->params;
	switch (params->type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		if (node_function(node, &function) == CUDA_SUCCESS)
			fprintf(file, "\\n%s", function->info->name);
		if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_KERNEL_NODE_PARAMS))
			fprintf(file, "\\n<<<(%u,%u,%u),(%u,%u,%u),%u>>>", params->kernel.gridDimX,
			        params->kernel.gridDimY, params->kernel.gridDimZ,
			        params->kernel.blockDimX, params->kernel.blockDimY,
			        params->kernel.blockDimZ, params->kernel.sharedMemBytes);
		break;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMCPY_NODE_PARAMS))
			fprintf(file, "\\n%zux%zux%zu", params->memcpy.copyParams.WidthInBytes,
			        params->memcpy.copyParams.Height, params->memcpy.copyParams.Depth);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEMSET_NODE_PARAMS))
			fprintf(file, "\\n%#llx = %#x, %zux%zu of %u", params->memset.dst,
			        params->memset.value, params->memset.width, params->memset.height,
			        params->memset.elementSize);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_ALLOC_NODE_PARAMS))
			fprintf(file, "\\n%#llx, %zu bytes", params->alloc.dptr,
			        params->alloc.bytesize);
		break;
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_MEM_FREE_NODE_PARAMS))
			fprintf(file, "\\n%#llx", params->free.dptr);
		break;
	default:
		break;
	}
	if (wants(flags, CU_GRAPH_DEBUG_DOT_FLAGS_HANDLES))
		fprintf(file, "\\nnode %p", (const void *)node);
}

static void print_graph(FILE *file, const struct graph *graph, unsigned int flags)
{
	const struct graph_node *node;
	fprintf(file, "subgraph cluster_%llu {\nlabel=\"graph_%llu\"\n",
	        (unsigned long long)graph->serial, (unsigned long long)graph->serial);
	DL_FOREACH (graph->nodes, node) {
		fprintf(file, "node_%llu [label=\"%u\\n%s", (unsigned long long)node->serial,
		        node->id, type_names[node->params.type]);
		print_details(file, node, flags);
		fprintf(file, "\"]\n");
		const struct graph *within;
		for (unsigned int i = 0; (within = node_within(node, i)); i++)
			print_graph(file, within, flags);
	}
	DL_FOREACH (graph->nodes, node) {
		for (size_t i = 0; i < node->after.count; i++)
			fprintf(file, "node_%llu -> node_%llu\n", (unsigned long long)node->serial,
			        (unsigned long long)((struct graph_node *)node->after.nodes[i])
			            ->serial);
	}
	fprintf(file, "}\n");
}

EXPORT CUresult cuGraphDebugDotPrint(CUgraph handle, const char *path, unsigned int flags)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	const struct graph *graph = graph_find(handle);
	if (!graph || !path)
		return leave(CUDA_ERROR_INVALID_VALUE);
	FILE *file = fopen(path, "we");
	if (!file) {
		say("%s: %s", path, strerror(errno));
		return leave(CUDA_ERROR_OPERATING_SYSTEM);
	}
	fprintf(file, "digraph dot {\n");
	print_graph(file, graph, flags);
	fprintf(file, "}\n");
	return leave(fclose(file) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM);
}
