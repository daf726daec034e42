/* SPDX-License-Identifier: MIT */
/*
 * Launches of executable graphs. Every node becomes work that is queued when the graph is launched,
 * so later changes do not reach it. A chain runs in the launching stream; branches run in lanes of
 * the exec's own. Work waits only for work queued before it, so no circle can form.
 */
#include <stdlib.h>

#include "tests/softgpu/capture.h"
#include "tests/softgpu/graph.h"
#include "tests/softgpu/trace.h"
#include "tests/softgpu/work.h"

struct launch {
	struct lanes *lanes;
	struct context *context; /* of nodes that have none */
};

static void lane_close(struct stream **lane)
{
	if (!*lane)
		return;
	if (!(*lane)->closing) /* its context has not ended before */
		stream_close(*lane);
	stream_unreference(*lane);
	*lane = NULL;
}

void lanes_close(struct lanes *lanes)
{
	for (int i = 0; i < MAX_DEVICES; i++)
		for (int j = 0; j < LANES; j++)
			lane_close(&lanes->of[i][j]);
}

/* A stream for work of that context which follows what is last in none. */
static struct stream *choose_lane(struct lanes *lanes, struct context *context)
{
	struct stream **lane = &lanes->of[context->device->index][lanes->next++ % LANES];
	if (*lane && ((*lane)->closing || (*lane)->context != context))
		lane_close(lane);
	if (!*lane) {
		*lane = stream_create(context, CU_STREAM_NON_BLOCKING, 0);
		if (*lane)
			stream_reference(*lane);
	}
	return *lane;
}

/* Queues the work after those points, in the stream of one of them where that costs no wait. */
static CUresult queue(const struct launch *launch, struct context *context, struct work *work,
                      const struct point *after, size_t count, struct point *point)
{
	struct stream *stream = NULL;
	for (size_t i = 0; i < count && !stream; i++)
		if (after[i].stream->issued == after[i].ticket &&
		    after[i].stream->context == context)
			stream = after[i].stream;
	if (!stream)
		stream = choose_lane(launch->lanes, context);
	bool complete = stream != NULL;
	for (size_t i = 0; i < count && complete; i++)
		if (after[i].stream != stream)
			complete = work_depend(work, after[i].stream, after[i].ticket);
	if (!complete) {
		work_free(work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	CUresult result = stream_submit(stream, work);
	*point = (struct point){.stream = stream, .ticket = stream->issued};
	return result;
}

static struct work *empty_work(void)
{
	return calloc(1, sizeof(struct work));
}

static struct work *work_of_kernel(const struct graph_node *node)
{
	const CUDA_KERNEL_NODE_PARAMS_v3 *kernel = &node->params.kernel;
	struct function *function;
	if (node_function(node, &function) != CUDA_SUCCESS)
		return NULL;
	struct ptx_launch shape = {
	    .grid = {kernel->gridDimX, kernel->gridDimY, kernel->gridDimZ},
	    .block = {kernel->blockDimX, kernel->blockDimY, kernel->blockDimZ},
	    .dynamic_shared = kernel->sharedMemBytes,
	    .cooperative = node_is_cooperative(node),
	};
	return kernel_work(node->context, function, &shape, node->arguments->block);
}

static struct work *work_of_copy(const struct graph_node *node)
{
	struct copy_side to, from;
	struct copy_shape shape;
	if (copy_read_3d(&node->params.memcpy.copyParams, &to, &from, &shape) != CUDA_SUCCESS)
		return NULL;
	return copy_work(to, from, shape, node->by_cpu);
}

static struct work *work_of_conditional(const struct graph_node *node);

static struct work *work_of(const struct graph_node *node)
{
	if (node->disabled)
		return empty_work();
	switch (node->params.type) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return work_of_kernel(node);
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return work_of_copy(node);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return fill_work(&node->params.memset);
	case CU_GRAPH_NODE_TYPE_HOST:
		return host_work(node->params.host.fn, node->params.host.userData);
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
		return event_record_work(node->params.eventRecord.event);
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
		return event_wait_work(node->params.eventWait.event);
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
		return graph_memory_work(node->memory, true);
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return graph_memory_work(node->memory, false);
	case CU_GRAPH_NODE_TYPE_CONDITIONAL:
		return work_of_conditional(node);
	default:
		return empty_work();
	}
}

static CUresult launch_nodes(const struct launch *launch, struct graph *graph, struct point entry,
                             struct work *last, struct context *context, struct point *exit);

static CUresult launch_node(const struct launch *launch, struct graph_node *node,
                            const struct point *after, size_t count)
{
	struct context *context = node->context ? node->context : launch->context;
	if (!node->child) {
		struct work *work = work_of(node);
		if (!work)
			return CUDA_ERROR_OUT_OF_MEMORY;
		return queue(launch, context, work, after, count, &node->point);
	}
	struct work *first = empty_work(), *last = empty_work();
	struct point entry;
	if (!first || !last) {
		free(first);
		free(last);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	CUresult result = queue(launch, context, first, after, count, &entry);
	if (result != CUDA_SUCCESS) {
		free(last);
		return result;
	}
	return launch_nodes(launch, node->child, entry, last, context, &node->point);
}

/* Queues all nodes after the entry, and `last`, which it takes, after all nodes. */
static CUresult launch_nodes(const struct launch *launch, struct graph *graph, struct point entry,
                             struct work *last, struct context *context, struct point *exit)
{
	struct graph_node *offender = NULL;
	struct graph_node **order = graph_sort(graph, &offender);
	struct point *after = calloc(graph->count + 1, sizeof(*after));
	CUresult result = order && after ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	for (size_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++) {
		const struct node_set *before = &order[i]->before;
		size_t count = 0;
		for (; count < before->count; count++)
			after[count] = ((struct graph_node *)before->nodes[count])->point;
		if (count == 0)
			after[count++] = entry;
		result = launch_node(launch, order[i], after, count);
	}
	size_t count = 0;
	for (size_t i = 0; i < graph->count && result == CUDA_SUCCESS; i++)
		if (order[i]->after.count == 0)
			after[count++] = order[i]->point;
	if (count == 0 && after)
		after[count++] = entry;
	if (result == CUDA_SUCCESS)
		result = queue(launch, context, last, after, count, exit);
	else
		work_free(last);
	free(after);
	free(order);
	return result;
}

/* A conditional node: as it was when the graph was launched, for changes do not reach it. */
struct conditional_work {
	struct work work;
	struct graph *graph; /* with a copy of the node alone */
};

/* Queues a body and waits until it has run. driver_lock is held, and let go for the wait. */
static CUresult run_body(const struct launch *launch, struct graph *body)
{
	struct work *first = empty_work(), *last = empty_work();
	struct point entry, exit;
	if (!first || !last) {
		free(first);
		free(last);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	CUresult result = queue(launch, launch->context, first, NULL, 0, &entry);
	if (result != CUDA_SUCCESS) {
		work_free(last);
		return result;
	}
	result = launch_nodes(launch, body, entry, last, launch->context, &exit);
	if (result != CUDA_SUCCESS)
		return result;
	stream_wait_for(exit.stream, exit.ticket);
	return CUDA_SUCCESS;
}

static CUresult run_conditional(struct work *work, CUresult broken)
{
	const struct graph_node *node = ((struct conditional_work *)work)->graph->nodes;
	struct launch launch = {.lanes = conditional_lanes(node), .context = node->context};
	CUresult result = CUDA_SUCCESS;
	struct graph *body;
	(void)broken;
	pthread_mutex_lock(&driver_lock);
	bool again = true;
	while (again && (body = conditional_choose(node))) {
		result = run_body(&launch, body);
		again = node->params.conditional.type == CU_GRAPH_COND_TYPE_WHILE &&
		        result == CUDA_SUCCESS && node->context->error == CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&driver_lock);
	return result;
}

static void release_conditional(struct work *work)
{
	graph_free(((struct conditional_work *)work)->graph);
}

static struct work *work_of_conditional(const struct graph_node *node)
{
	struct conditional_work *work = calloc(1, sizeof(*work));
	if (!work || graph_of_copy(node, &work->graph) != CUDA_SUCCESS) {
		free(work);
		return NULL;
	}
	work->work.run = run_conditional;
	work->work.release = release_conditional;
	return &work->work;
}

static CUresult prepare(const struct graph_exec *exec, const struct graph *graph);

static CUresult prepare_within(const struct graph_exec *exec, const struct graph_node *node)
{
	const struct graph *within;
	for (unsigned int i = 0; (within = node_within(node, i)); i++) {
		CUresult result = prepare(exec, within);
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

/* Refuses a launch that could not run, and takes the memory it needs. */
static CUresult prepare(const struct graph_exec *exec, const struct graph *graph)
{
	bool auto_free = exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
	const struct graph_node *node;
	DL_FOREACH (graph->nodes, node) {
		CUresult result = CUDA_SUCCESS;
		struct function *function;
		if (node->context && !node->context->alive)
			result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
		else if (node->context && node->context->error != CUDA_SUCCESS)
			result = node->context->error;
		else if (node_within(node, 0))
			result = prepare_within(exec, node);
		else if (node->params.type == CU_GRAPH_NODE_TYPE_KERNEL)
			result = node_function(node, &function);
		else if (node->params.type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
			result = event_context(node->params.eventRecord.event)
			             ? CUDA_SUCCESS
			             : CUDA_ERROR_INVALID_HANDLE;
		else if (node->params.type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
			result = event_context(node->params.eventWait.event)
			             ? CUDA_SUCCESS
			             : CUDA_ERROR_INVALID_HANDLE;
		else if (node->params.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
			result = graph_memory_prepare(node->memory, auto_free);
		else if (node->params.type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
		         !graph_memory_freed_in_graph(node->memory) &&
		         !graph_memory_is_allocated(node->memory))
			result = CUDA_ERROR_INVALID_VALUE;
		if (result != CUDA_SUCCESS)
			return result;
	}
	return CUDA_SUCCESS;
}

/* The beginning or the end of a launch, which keeps the exec until then. */
struct edge {
	struct work work;
	struct graph_exec *exec;
};

static void release_edge(struct work *work)
{
	exec_unreference(((struct edge *)work)->exec);
}

static CUresult run_beginning(struct work *work, CUresult broken)
{
	(void)broken;
	pthread_mutex_lock(&driver_lock);
	conditionals_begin(((struct edge *)work)->exec->graph);
	pthread_mutex_unlock(&driver_lock);
	return CUDA_SUCCESS;
}

static struct edge *edge_work(struct graph_exec *exec)
{
	struct edge *edge = calloc(1, sizeof(*edge));
	if (!edge)
		return NULL;
	edge->exec = exec;
	edge->work.release = release_edge;
	exec->references++;
	return edge;
}

/* Queues what begins a launch in its stream: after the exec's launch before, in any stream. */
static CUresult begin(struct graph_exec *exec, struct stream *home, struct point *entry)
{
	const struct point *before = &exec->last;
	struct edge *edge = edge_work(exec);
	if (!edge)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (graph_has_conditionals(exec->graph))
		edge->work.run = run_beginning;
	if (before->stream && !work_depend(&edge->work, before->stream, before->ticket)) {
		work_free(&edge->work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	CUresult result = stream_submit(home, &edge->work);
	*entry = (struct point){.stream = home, .ticket = home->issued};
	return result;
}

/* Queues the end: the launch is over in its stream, whatever lane was the last. */
static CUresult finish(struct graph_exec *exec, struct stream *home, struct point last)
{
	struct edge *edge = edge_work(exec);
	if (!edge)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!work_depend(&edge->work, last.stream, last.ticket)) {
		work_free(&edge->work);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	CUresult result = stream_submit(home, &edge->work);
	if (result != CUDA_SUCCESS)
		return result;
	stream_reference(home);
	if (exec->last.stream)
		stream_unreference(exec->last.stream);
	exec->last = (struct point){.stream = home, .ticket = home->issued};
	return CUDA_SUCCESS;
}

CUresult exec_launch(struct graph_exec *exec, struct stream *stream)
{
	const struct launch launch = {.lanes = &exec->lanes, .context = stream->context};
	struct point entry, last;
	CUresult result = capture_check_queue(stream);
	if (result == CUDA_SUCCESS)
		result = prepare(exec, exec->graph);
	if (result == CUDA_SUCCESS)
		result = begin(exec, stream, &entry);
	if (result != CUDA_SUCCESS)
		return result;
	struct work *all = empty_work();
	if (!all)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = launch_nodes(&launch, exec->graph, entry, all, stream->context, &last);
	return result == CUDA_SUCCESS ? finish(exec, stream, last) : result;
}

static CUresult cuGraphLaunch_on(const char *call, CUgraphExec handle, CUstream stream_handle)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(context, stream_handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	struct graph_exec *exec = exec_find(handle);
	if (!exec)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (stream->capture)
		return leave(capture_add_exec(stream, exec));
	trace_launch(exec, "graph", NULL, NULL);
	return leave(exec_launch(exec, stream));
}
EXPORT_ON_STREAM(cuGraphLaunch, (CUgraphExec exec, CUstream stream), exec, stream)

/* There is nothing to upload: memory nodes take their memory at the launch. */
static CUresult cuGraphUpload_on(const char *call, CUgraphExec handle, CUstream stream_handle)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = stream_find(context, stream_handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!exec_find(handle))
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(capture_check_queue(stream));
}
EXPORT_ON_STREAM(cuGraphUpload, (CUgraphExec exec, CUstream stream), exec, stream)
