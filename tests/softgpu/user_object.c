/* SPDX-License-Identifier: MIT */
/*
 * User objects: counted references. The last one calls the application's function, on a thread of
 * its own and without any lock, because no call may wait for it.
 */
#include <stdlib.h>

#include "tests/softgpu/graph.h"

struct user_object {
	struct handle handle;
	uint64_t references;
	CUhostFn destroy;
	void *data;
};

static void *destroy_object(void *argument)
{
	struct user_object *object = argument;
	this_thread()->in_host_function = true; /* it may not call the driver */
	object->destroy(object->data);
	free(object);
	return NULL;
}

static void drop(struct user_object *object, unsigned int count)
{
	object->references -= count;
	if (object->references)
		return;
	handle_remove(&object->handle);
	pthread_t thread;
	if (pthread_create(&thread, NULL, destroy_object, object) == 0)
		pthread_detach(thread);
	else
		say("no thread to destroy a user object: it is lost");
}

bool user_references_copy(struct user_reference **to, const struct user_reference *from)
{
	for (; from; from = from->next) {
		struct user_reference *copy = malloc(sizeof(*copy));
		if (!copy)
			return false;
		*copy = *from;
		copy->object->references += copy->count;
		LL_PREPEND(*to, copy);
	}
	return true;
}

void user_references_drop(struct user_reference **references)
{
	struct user_reference *reference, *next;
	LL_FOREACH_SAFE(*references, reference, next)
	{
		drop(reference->object, reference->count);
		free(reference);
	}
	*references = NULL;
}

static bool count_is_valid(unsigned int count)
{
	return count != 0 && count <= INT32_MAX;
}

EXPORT CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy,
                                   unsigned int count, unsigned int flags)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || !destroy || !count_is_valid(count) ||
	    flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct user_object *object = calloc(1, sizeof(*object));
	if (!object || !handle_add(&object->handle, HANDLE_USER_OBJECT)) {
		free(object);
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	}
	object->references = count;
	object->destroy = destroy;
	object->data = data;
	*out = (CUuserObject)object;
	return leave(CUDA_SUCCESS);
}

/* Enters a call about an object and a number of references. */
static CUresult enter_object(const char *call, CUuserObject handle, unsigned int count,
                             struct user_object **object)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	*object = handle_find(handle, HANDLE_USER_OBJECT);
	return *object && count_is_valid(count) ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count)
{
	struct user_object *object;
	CUresult result = enter_object(__func__, handle, count, &object);
	if (result != CUDA_SUCCESS)
		return result;
	object->references += count;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count)
{
	struct user_object *object;
	CUresult result = enter_object(__func__, handle, count, &object);
	if (result != CUDA_SUCCESS)
		return result;
	if (count > object->references)
		return leave(CUDA_ERROR_INVALID_VALUE);
	drop(object, count);
	return leave(CUDA_SUCCESS);
}

static struct user_reference *find_reference(const struct graph *graph,
                                             const struct user_object *object)
{
	struct user_reference *reference;
	LL_FOREACH (graph->references, reference) {
		if (reference->object == object)
			break;
	}
	return reference;
}

EXPORT CUresult cuGraphRetainUserObject(CUgraph graph_handle, CUuserObject handle,
                                        unsigned int count, unsigned int flags)
{
	struct user_object *object;
	CUresult result = enter_object(__func__, handle, count, &object);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph *graph = graph_find(graph_handle);
	bool move = flags & CU_GRAPH_USER_OBJECT_MOVE;
	if (!graph || (flags & ~(unsigned int)CU_GRAPH_USER_OBJECT_MOVE) ||
	    (move && count > object->references))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct user_reference *reference = find_reference(graph, object);
	if (!reference) {
		reference = calloc(1, sizeof(*reference));
		if (!reference)
			return leave(CUDA_ERROR_OUT_OF_MEMORY);
		reference->object = object;
		LL_PREPEND(graph->references, reference);
	}
	reference->count += count;
	object->references += move ? 0 : count;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphReleaseUserObject(CUgraph graph_handle, CUuserObject handle,
                                         unsigned int count)
{
	struct user_object *object;
	CUresult result = enter_object(__func__, handle, count, &object);
	if (result != CUDA_SUCCESS)
		return result;
	struct graph *graph = graph_find(graph_handle);
	struct user_reference *reference = graph ? find_reference(graph, object) : NULL;
	if (!reference || count > reference->count)
		return leave(CUDA_ERROR_INVALID_VALUE);
	reference->count -= count;
	if (reference->count == 0) {
		LL_DELETE(graph->references, reference);
		free(reference);
	}
	drop(object, count);
	return leave(CUDA_SUCCESS);
}
