/* SPDX-License-Identifier: MIT */
/*
 * Capture: which streams are in which sequence, and the calls that break one. The rules are those
 * of cuda.h (cuStreamBeginCapture, cuThreadExchangeStreamCaptureMode, the CUDA_ERROR_STREAM_CAPTURE
 * codes) and of the CUDA C++ Programming Guide, "Prohibited and unhandled operations" and
 * "Invalidation". A call that is refused because of a capture invalidates it, if the words there do
 * not say otherwise.
 */
#include "tests/softgpu/capture.h"

#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/graph.h"

struct capture {
	int references; /* being open, and one for each event that was recorded in it */
	unsigned long long id;
	CUstreamCaptureMode mode;
	unsigned long long thread; /* that began it */
	struct stream *origin;
	struct graph *graph;
	struct node_set left; /* the last work of streams that are destroyed */
	bool own_graph;       /* it was made for the capture */
	bool invalid, ended;
	struct capture *prev, *next;
};

static struct capture *captures; /* the open ones */

static void release(struct capture *capture)
{
	if (--capture->references)
		return;
	node_set_clear(&capture->left);
	free(capture);
}

/* Every stream in the capture, whatever its context; false ends the walk. */
static bool for_streams(const struct capture *capture,
                        bool (*visit)(struct stream *stream, void *cookie), void *cookie)
{
	for (struct context *context = contexts; context; context = context->next) {
		struct stream *stream;
		DL_FOREACH (context->streams, stream) {
			if (stream->capture == capture && !visit(stream, cookie))
				return false;
		}
	}
	return true;
}

static CUresult invalidate(struct capture *capture, CUresult reason)
{
	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	capture->invalid = true;
	return reason;
}

/* Returns whether this thread may not do what is potentially unsafe because of this capture. */
static bool prohibits(const struct capture *capture)
{
	const struct thread *thread = this_thread();
	if (thread->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
	    capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	return capture->thread == thread->id ||
	       (thread->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	        capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult capture_check_unsafe(void)
{
	CUresult result = CUDA_SUCCESS;
	struct capture *capture;
	DL_FOREACH (captures, capture) {
		if (prohibits(capture)) {
			capture->invalid = true;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return result;
}

static bool is_listed(const char *call, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(call, *list) == 0)
			return true;
	return false;
}

CUresult capture_check_call(const char *call)
{
	/* What takes effect at once and not in a stream, so that no replay would repeat it: the
	 * reason cuThreadExchangeStreamCaptureMode() gives. Copies that wait, and events, are
	 * checked where they are made, as other errors come first there. */
	static const char *const unsafe[] = {
	    "cuMemAlloc_v2",
	    "cuMemAllocPitch_v2",
	    "cuMemAllocManaged",
	    "cuMemFree_v2",
	    "cuMemAllocHost",
	    "cuMemAllocHost_v2",
	    "cuMemHostAlloc",
	    "cuMemFreeHost",
	    "cuMemHostRegister",
	    "cuMemHostRegister_v2",
	    "cuMemHostUnregister",
	    "cuModuleLoad",
	    "cuModuleLoadData",
	    "cuModuleLoadDataEx",
	    "cuModuleLoadFatBinary",
	    "cuModuleUnload",
	    "cuLibraryUnload",
	    "cuMemPoolDestroy",
	    "cuMemPoolTrimTo",
	    "cuIpcOpenMemHandle",
	    "cuIpcOpenMemHandle_v2",
	    "cuIpcCloseMemHandle",
	    NULL,
	};
	return captures && is_listed(call, unsafe) ? capture_check_unsafe() : CUDA_SUCCESS;
}

CUresult capture_check_context(const struct context *context)
{
	CUresult result = CUDA_SUCCESS;
	struct stream *stream;
	DL_FOREACH (context->streams, stream) {
		if (stream->capture) {
			stream->capture->invalid = true;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return result;
}

static bool is_blocking(const struct stream *stream)
{
	return !stream->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

bool capture_blocks_legacy(const struct stream *stream)
{
	const struct stream *other;
	if (!captures || !stream->legacy)
		return false;
	DL_FOREACH (stream->context->streams, other) {
		if (other->capture && is_blocking(other))
			return true;
	}
	return false;
}

bool capture_is_origin(const struct stream *stream)
{
	return stream->capture && stream->capture->origin == stream;
}

CUresult capture_check_queue(struct stream *stream)
{
	if (stream->capture)
		return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	if (!capture_blocks_legacy(stream))
		return CUDA_SUCCESS;
	struct stream *other;
	DL_FOREACH (stream->context->streams, other) {
		if (other->capture && is_blocking(other))
			other->capture->invalid = true;
	}
	return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

static bool leave_capture(struct stream *stream, void *cookie)
{
	(void)cookie;
	stream->capture = NULL;
	node_set_clear(&stream->tail);
	return true;
}

/* Takes all streams out; the graph stays. */
static void close_capture(struct capture *capture)
{
	for_streams(capture, leave_capture, NULL);
	capture->graph->capture = NULL;
	capture->ended = true;
	DL_DELETE(captures, capture);
	release(capture);
}

/* Adds what is not in it yet. */
static bool merge(struct node_set *set, const struct node_set *more)
{
	for (size_t i = 0; i < more->count; i++) {
		struct graph_node *node = (struct graph_node *)more->nodes[i];
		if (node_set_find(set, node) == set->count &&
		    !node_set_add(set, node, &more->edges[i]))
			return false;
	}
	return true;
}

void capture_forget_stream(struct stream *stream)
{
	struct capture *capture = stream->capture;
	if (!capture)
		return;
	/* What the stream leaves behind must be joined in the end all the same. */
	if (stream == capture->origin || stream->context->dying ||
	    !merge(&capture->left, &stream->tail))
		capture->invalid = true;
	leave_capture(stream, NULL);
	if (stream != capture->origin)
		return;
	/* Nobody can end it any more. */
	struct graph *graph = capture->own_graph ? capture->graph : NULL;
	close_capture(capture);
	if (graph)
		graph_free(graph);
}

/* Adds a node after the stream's latest ones; it is the latest then. */
static CUresult add(struct stream *stream, CUgraphNodeParams *params, struct graph_node **out)
{
	struct capture *capture = stream->capture;
	struct node_set *tail = &stream->tail;
	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	CUresult result = graph_add(capture->graph, tail->nodes, tail->edges, tail->count, params,
	                            stream->context, out);
	if (result != CUDA_SUCCESS)
		return result;
	tail->count = 0;
	return node_set_add(tail, *out, NULL) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_add(struct stream *stream, CUgraphNodeParams *params)
{
	struct graph_node *node;
	return add(stream, params, &node);
}

CUresult capture_add_kernel(struct stream *stream, CUgraphNodeParams *params,
                            const CUlaunchConfig *shape, bool cooperative)
{
	struct graph_node *node;
	CUlaunchAttributeValue value = {.cooperative = 1};
	CUresult result = add(stream, params, &node);
	for (unsigned int i = 0; i < shape->numAttrs && result == CUDA_SUCCESS; i++)
		if (shape->attrs[i].id != CU_LAUNCH_ATTRIBUTE_IGNORE &&
		    (unsigned int)shape->attrs[i].id < CU_LAUNCH_ATTRIBUTE_MAX)
			result =
			    node_set_attribute(node, shape->attrs[i].id, &shape->attrs[i].value);
	if (result == CUDA_SUCCESS && cooperative)
		result = node_set_attribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value);
	value = (CUlaunchAttributeValue){.priority = stream->priority};
	if (result == CUDA_SUCCESS && !node->attributes[CU_LAUNCH_ATTRIBUTE_PRIORITY])
		result = node_set_attribute(node, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value);
	return result;
}

CUresult capture_add_exec(struct stream *stream, const struct graph_exec *exec)
{
	struct graph *copy;
	struct graph_node *node;
	if (graph_has_memory_nodes(exec->graph) || graph_has_conditionals(exec->graph))
		return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CUresult result = graph_copy(exec->graph, false, &copy);
	if (result != CUDA_SUCCESS)
		return result;
	CUgraphNodeParams params = {
	    .type = CU_GRAPH_NODE_TYPE_GRAPH,
	    .graph = {.graph = (CUgraph)copy, .ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE}};
	result = add(stream, &params, &node);
	if (result == CUDA_SUCCESS)
		node->params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE;
	else if (!copy->holder)
		graph_free(copy);
	return result;
}

void captured_event_clear(struct captured_event *event)
{
	if (!event->capture)
		return;
	release(event->capture);
	event->capture = NULL;
	node_set_clear(&event->nodes);
}

CUresult capture_record_event(struct stream *stream, struct captured_event *event)
{
	struct capture *capture = stream->capture;
	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	struct node_set nodes = {0};
	if (!node_set_copy(&nodes, &stream->tail)) {
		node_set_clear(&nodes);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	captured_event_clear(event);
	capture->references++;
	event->capture = capture;
	event->nodes = nodes;
	return CUDA_SUCCESS;
}

CUresult capture_wait_event(struct stream *stream, const struct captured_event *event)
{
	struct capture *own = stream->capture, *other = event->capture;
	if (own && own->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (own && (!other || other->ended))
		return invalidate(own, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	if (!other)
		return CUDA_SUCCESS; /* no capture has to do with it */
	if (other->ended)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (other->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (own && own != other) {
		own->invalid = true;
		return invalidate(other, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	if (stream->legacy) {
		CUresult result = capture_check_queue(stream);
		return result == CUDA_SUCCESS
		           ? invalidate(other, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
		           : result;
	}
	stream->capture = other;
	return merge(&stream->tail, &event->nodes) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult capture_check_event(const struct captured_event *event)
{
	if (!event->capture)
		return capture_check_unsafe();
	event->capture->invalid = true;
	return CUDA_ERROR_CAPTURED_EVENT;
}

/* Enters a call about a stream; a wrong handle is INVALID_HANDLE. */
static CUresult enter_stream(const char *call, CUstream handle, struct stream **stream)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	*stream = stream_find(context, handle);
	return *stream ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_HANDLE);
}

/* Begins in a graph of its own (NULL), or in one there is, after some of its nodes. */
static CUresult begin(const char *call, CUstream handle, CUstreamCaptureMode mode,
                      CUgraph into_handle, const CUgraphNode *dependencies,
                      const CUgraphEdgeData *edges, size_t count, bool to_graph)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (stream->legacy)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	if (stream->capture)
		return leave(CUDA_ERROR_ILLEGAL_STATE);
	struct graph *into = to_graph ? graph_find(into_handle) : NULL;
	if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED ||
	    (to_graph && (!into || into->capture)) || (count && !dependencies))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct node_set tail = {0};
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		struct graph_node *node = node_find(dependencies[i]);
		if (!node || node->graph != into)
			result = CUDA_ERROR_INVALID_VALUE;
		else if (!node_set_add(&tail, node, edges ? &edges[i] : NULL))
			result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	struct capture *capture = calloc(1, sizeof(*capture));
	struct graph *graph = to_graph ? into : graph_new(false);
	if (result == CUDA_SUCCESS && (!capture || !graph))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		node_set_clear(&tail);
		free(capture);
		if (graph && !to_graph)
			graph_free(graph);
		return leave(result);
	}
	static unsigned long long last_id;
	*capture = (struct capture){
	    .references = 1,
	    .id = ++last_id,
	    .mode = mode,
	    .thread = this_thread()->id,
	    .origin = stream,
	    .graph = graph,
	    .own_graph = !to_graph,
	};
	DL_APPEND(captures, capture);
	graph->capture = capture;
	stream->capture = capture;
	stream->tail = tail;
	return leave(CUDA_SUCCESS);
}

static CUresult cuStreamBeginCapture_on(const char *call, CUstream stream)
{
	return begin(call, stream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, NULL, 0, false);
}
EXPORT_ON_STREAM(cuStreamBeginCapture, (CUstream stream), stream)

static CUresult cuStreamBeginCapture_v2_on(const char *call, CUstream stream,
                                           CUstreamCaptureMode mode)
{
	return begin(call, stream, mode, NULL, NULL, NULL, 0, false);
}
EXPORT_ON_STREAM(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode), stream, mode)

static CUresult cuStreamBeginCaptureToGraph_on(const char *call, CUstream stream, CUgraph graph,
                                               const CUgraphNode *dependencies,
                                               const CUgraphEdgeData *edges, size_t count,
                                               CUstreamCaptureMode mode)
{
	return begin(call, stream, mode, graph, dependencies, edges, count, true);
}
EXPORT_ON_STREAM(cuStreamBeginCaptureToGraph,
                 (CUstream stream, CUgraph graph, const CUgraphNode *dependencies,
                  const CUgraphEdgeData *edges, size_t count, CUstreamCaptureMode mode),
                 stream, graph, dependencies, edges, count, mode)

/* Marks the nodes that lead to those of the set, themselves included. */
static bool mark_ancestors(struct graph *graph, const struct node_set *set)
{
	struct graph_node **queue = calloc(graph->count + 1, sizeof(struct graph_node *));
	struct graph_node *node;
	size_t queued = 0;
	if (!queue)
		return false;
	DL_FOREACH (graph->nodes, node) {
		node->rank = 0;
	}
	for (size_t i = 0; i < set->count; i++) {
		node = (struct graph_node *)set->nodes[i];
		if (!node->rank++)
			queue[queued++] = node;
	}
	for (size_t done = 0; done < queued; done++) {
		for (size_t i = 0; i < queue[done]->before.count; i++) {
			node = (struct graph_node *)queue[done]->before.nodes[i];
			if (!node->rank++)
				queue[queued++] = node;
		}
	}
	free(queue);
	return true;
}

static bool all_joined(const struct node_set *tail)
{
	for (size_t i = 0; i < tail->count; i++)
		if (((struct graph_node *)tail->nodes[i])->rank == 0)
			return false;
	return true;
}

static bool has_joined(struct stream *stream, void *cookie)
{
	(void)cookie;
	return all_joined(&stream->tail);
}

static CUresult cuStreamEndCapture_on(const char *call, CUstream handle, CUgraph *out)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	struct capture *capture = stream->capture;
	if (!capture)
		return leave(CUDA_ERROR_ILLEGAL_STATE);
	if (!out && capture->own_graph)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (capture->origin != stream)
		return leave(invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    capture->thread != this_thread()->id) {
		capture->invalid = true;
		return leave(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	}
	if (capture->invalid)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!mark_ancestors(capture->graph, &stream->tail))
		result = CUDA_ERROR_OUT_OF_MEMORY;
	else if (!for_streams(capture, has_joined, NULL) || !all_joined(&capture->left))
		result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	struct graph *graph = capture->graph;
	bool own_graph = capture->own_graph;
	close_capture(capture);
	if (result != CUDA_SUCCESS && own_graph)
		graph_free(graph);
	if (out)
		*out = result == CUDA_SUCCESS ? (CUgraph)graph : NULL;
	return leave(result);
}
EXPORT_ON_STREAM(cuStreamEndCapture, (CUstream stream, CUgraph *out), stream, out)

static CUstreamCaptureStatus status_of(const struct stream *stream)
{
	if (!stream->capture)
		return CU_STREAM_CAPTURE_STATUS_NONE;
	return stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
	                                : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* Each version of the query asks for more; what one does not ask for is NULL. */
struct query {
	CUstreamCaptureStatus *status;
	cuuint64_t *id;
	CUgraph *graph;
	const CUgraphNode **nodes;
	const CUgraphEdgeData **edges;
	size_t *count;
};

static CUresult ask(const char *call, CUstream handle, struct query query)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!query.status || (query.edges && !query.nodes))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (capture_blocks_legacy(stream))
		return leave(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	*query.status = status_of(stream);
	if (*query.status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return leave(CUDA_SUCCESS);
	const struct node_set *tail = &stream->tail;
	for (size_t i = 0; query.nodes && !query.edges && i < tail->count; i++)
		if (!edge_is_plain(&tail->edges[i]))
			return leave(CUDA_ERROR_LOSSY_QUERY);
	if (query.id)
		*query.id = stream->capture->id;
	if (query.graph)
		*query.graph = (CUgraph)stream->capture->graph;
	if (query.nodes)
		*query.nodes = tail->nodes;
	if (query.edges)
		*query.edges = tail->edges;
	if (query.count)
		*query.count = tail->count;
	return leave(CUDA_SUCCESS);
}

static CUresult cuStreamIsCapturing_on(const char *call, CUstream stream,
                                       CUstreamCaptureStatus *status)
{
	return ask(call, stream, (struct query){.status = status});
}
EXPORT_ON_STREAM(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status), stream,
                 status)

static CUresult cuStreamGetCaptureInfo_on(const char *call, CUstream stream,
                                          CUstreamCaptureStatus *status, cuuint64_t *id)
{
	return ask(call, stream, (struct query){.status = status, .id = id});
}
EXPORT_ON_STREAM(cuStreamGetCaptureInfo,
                 (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), stream, status,
                 id)

static CUresult cuStreamGetCaptureInfo_v2_on(const char *call, CUstream stream,
                                             CUstreamCaptureStatus *status, cuuint64_t *id,
                                             CUgraph *graph, const CUgraphNode **nodes,
                                             size_t *count)
{
	return ask(call, stream, (struct query){status, id, graph, nodes, NULL, count});
}
EXPORT_ON_STREAM(cuStreamGetCaptureInfo_v2,
                 (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                  const CUgraphNode **nodes, size_t *count),
                 stream, status, id, graph, nodes, count)

static CUresult cuStreamGetCaptureInfo_v3_on(const char *call, CUstream stream,
                                             CUstreamCaptureStatus *status, cuuint64_t *id,
                                             CUgraph *graph, const CUgraphNode **nodes,
                                             const CUgraphEdgeData **edges, size_t *count)
{
	return ask(call, stream, (struct query){status, id, graph, nodes, edges, count});
}
EXPORT_ON_STREAM(cuStreamGetCaptureInfo_v3,
                 (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
                  const CUgraphNode **nodes, const CUgraphEdgeData **edges, size_t *count),
                 stream, status, id, graph, nodes, edges, count)

static CUresult update_dependencies(const char *call, CUstream handle, const CUgraphNode *nodes,
                                    const CUgraphEdgeData *edges, size_t count, unsigned int flags)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!stream->capture)
		return leave(CUDA_ERROR_ILLEGAL_STATE);
	if (stream->capture->invalid)
		return leave(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (count && !nodes))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct node_set tail = {0}, more = {0};
	bool complete =
	    flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES || node_set_copy(&tail, &stream->tail);
	for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++) {
		struct graph_node *node = node_find(nodes[i]);
		if (!node || node->graph != stream->capture->graph)
			result = CUDA_ERROR_INVALID_VALUE;
		else
			complete = complete && node_set_add(&more, node, edges ? &edges[i] : NULL);
	}
	complete = complete && merge(&tail, &more);
	node_set_clear(&more);
	if (result == CUDA_SUCCESS && !complete)
		result = CUDA_ERROR_OUT_OF_MEMORY;
	if (result != CUDA_SUCCESS) {
		node_set_clear(&tail);
		return leave(result);
	}
	node_set_clear(&stream->tail);
	stream->tail = tail;
	return leave(CUDA_SUCCESS);
}

static CUresult cuStreamUpdateCaptureDependencies_on(const char *call, CUstream stream,
                                                     CUgraphNode *nodes, size_t count,
                                                     unsigned int flags)
{
	return update_dependencies(call, stream, nodes, NULL, count, flags);
}
EXPORT_ON_STREAM(cuStreamUpdateCaptureDependencies,
                 (CUstream stream, CUgraphNode *nodes, size_t count, unsigned int flags), stream,
                 nodes, count, flags)

static CUresult cuStreamUpdateCaptureDependencies_v2_on(const char *call, CUstream stream,
                                                        CUgraphNode *nodes,
                                                        const CUgraphEdgeData *edges, size_t count,
                                                        unsigned int flags)
{
	return update_dependencies(call, stream, nodes, edges, count, flags);
}
EXPORT_ON_STREAM(cuStreamUpdateCaptureDependencies_v2,
                 (CUstream stream, CUgraphNode *nodes, const CUgraphEdgeData *edges, size_t count,
                  unsigned int flags),
                 stream, nodes, edges, count, flags)

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct thread *thread = this_thread();
	CUstreamCaptureMode before = thread->capture_mode;
	thread->capture_mode = *mode;
	*mode = before;
	return leave(CUDA_SUCCESS);
}
