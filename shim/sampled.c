/* SPDX-License-Identifier: MIT */
/* The looks at what was launched and copied; apart from the hooks, because they are rare. */
#include "shim/sampled.h"

#include "core/job/job.h"
#include "shim/owner.h"
#include "shim/shape.h"

void sampled_launch(CUfunction function, void **parameters, void **extra)
{
	KEEP_ERRNO;

	if (job_is_active())
		placement_tell(launched, function, parameters, extra);
}

void sampled_launches(const CUDA_LAUNCH_PARAMS *launches, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		sampled_launch(launches[i].function, launches[i].kernelParams, NULL);
}

void sampled_blind_launch(void)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return;
	placement_tell(launched_blindly);
}

void sampled_graph(CUgraphExec graph)
{
	KEEP_ERRNO;

	if (job_is_active())
		placement_tell(graph_launched, graph);
}

void sampled_copy(CUdeviceptr a, CUdeviceptr b)
{
	KEEP_ERRNO;
	const CUdeviceptr both[] = {a, b};

	if (job_is_active())
		placement_tell(copied, both, 2);
}

void sampled_copies(const CUdeviceptr *a, const CUdeviceptr *b, size_t count)
{
	KEEP_ERRNO;

	if (!job_is_active())
		return;
	placement_tell(copied, a, count);
	placement_tell(copied, b, count);
}

/* --- graphs --- */

/* Returns whether anything is to be credited: nothing where no arena is. */
static bool sampled_is_wanted(void)
{
	return atomic_load_explicit(&heat_sampling, memory_order_relaxed) && job_is_active();
}

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

void sampled_node(CUgraph graph, const CUgraphNode *node, const struct node_use *use)
{
	keep_ends(use);
	if (sampled_is_wanted())
		credit(whole_of(graph), node ? *node : NULL, use, false);
}

/*
 * Credits a changed node. The node of a captured graph is not in the books: it may be any graph's.
 */
void sampled_changed_node(CUgraphNode node, const struct node_use *use)
{
	uint64_t graph;

	keep_ends(use);
	if (!sampled_is_wanted())
		return;
	graph = owner_of(&object_type_graph_node, HANDLE(node));
	credit(graph == HANDLE(node) ? HEAT_ANY_GRAPH : whole_of((CUgraph)(uintptr_t)graph), node,
	       use, true);
}

void sampled_exec_node(CUgraphExec exec, CUgraphNode node, const struct node_use *use)
{
	keep_ends(use);
	if (sampled_is_wanted())
		credit(exec, node, use, true);
}

void sampled_made_graph(const void *to, CUgraph from)
{
	if (sampled_is_wanted())
		placement_tell(graph_add, to, whole_of(from));
}

void sampled_updated_graph(CUgraphExec exec, CUgraph from)
{
	if (sampled_is_wanted())
		placement_tell(graph_replace, exec, whole_of(from));
}

void sampled_forget_graph(const void *graph)
{
	if (sampled_is_wanted())
		placement_tell(graph_forget, graph);
}

void sampled_captured_graph(CUgraph graph)
{
	if (sampled_is_wanted())
		placement_tell(graph_capture_ended, graph ? whole_of(graph) : NULL);
}

/* --- others --- */

void sampled_hide(CUdeviceptr address)
{
	KEEP_ERRNO;

	if (sampled_is_wanted())
		placement_tell(hide, address);
}

void sampled_forget_asked(void)
{
	KEEP_ERRNO;

	if (job_is_active())
		placement_tell(forget_functions);
}
