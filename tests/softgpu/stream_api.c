/* SPDX-License-Identifier: MIT */
/* The cuStream* calls. */
#include "tests/softgpu/driver.h"

#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/capture.h"
#include "tests/softgpu/memory.h"
#include "tests/softgpu/work.h"

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

static CUresult create(const char *call, CUstream *out, unsigned int flags, int priority)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING))
		return leave(CUDA_ERROR_INVALID_VALUE);
	/* Priorities out of range are clamped. */
	priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
	struct stream *stream = stream_create(context, flags, priority);
	if (!stream)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	*out = (CUstream)stream;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned int flags)
{
	return create(__func__, out, flags, 0);
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
	return create(__func__, out, flags, priority);
}

static CUresult destroy(const char *call, CUstream handle)
{
	struct context *context;
	CUresult result = enter_context(call, &context);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *stream = handle_find(handle, HANDLE_STREAM);
	if (!stream || stream->legacy || stream->owner)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	/*
	 * cuda-core destroys streams that joined a capture before that ends. Of the one where it
	 * began the headers say nothing: it has to be ended first.
	 */
	result = capture_is_origin(stream) ? capture_check_queue(stream) : CUDA_SUCCESS;
	if (result != CUDA_SUCCESS)
		return leave(result);
	stream_close(stream);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuStreamDestroy(CUstream handle)
{
	return destroy(__func__, handle);
}

EXPORT CUresult cuStreamDestroy_v2(CUstream handle)
{
	return destroy(__func__, handle);
}

static CUresult cuStreamQuery_on(const char *call, CUstream handle)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	result = capture_check_queue(stream);
	if (result != CUDA_SUCCESS)
		return leave(result);
	bool idle = stream_idle(stream);
	if (stream->legacy) {
		struct stream *other;
		DL_FOREACH (stream->context->streams, other) {
			if (!(other->flags & CU_STREAM_NON_BLOCKING) && !stream_idle(other))
				idle = false;
		}
	}
	if (stream->context->error != CUDA_SUCCESS)
		return leave(stream->context->error);
	return leave(idle ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY);
}
EXPORT_ON_STREAM(cuStreamQuery, (CUstream stream), stream)

static CUresult cuStreamSynchronize_on(const char *call, CUstream handle)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	struct context *context = stream->context;
	result = stream_wait(stream);
	pools_trim(context);
	return leave(result);
}
EXPORT_ON_STREAM(cuStreamSynchronize, (CUstream stream), stream)

static CUresult cuStreamGetFlags_on(const char *call, CUstream handle, unsigned int *flags)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*flags = stream->flags;
	return leave(CUDA_SUCCESS);
}
EXPORT_ON_STREAM(cuStreamGetFlags, (CUstream stream, unsigned int *flags), stream, flags)

static CUresult cuStreamGetPriority_on(const char *call, CUstream handle, int *priority)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!priority)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*priority = stream->priority;
	return leave(CUDA_SUCCESS);
}
EXPORT_ON_STREAM(cuStreamGetPriority, (CUstream stream, int *priority), stream, priority)

static CUresult cuStreamGetId_on(const char *call, CUstream handle, unsigned long long *id)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!id)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*id = stream->id;
	return leave(CUDA_SUCCESS);
}
EXPORT_ON_STREAM(cuStreamGetId, (CUstream stream, unsigned long long *id), stream, id)

static CUresult cuStreamGetCtx_on(const char *call, CUstream handle, CUcontext *out)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUcontext)stream->context;
	return leave(CUDA_SUCCESS);
}
EXPORT_ON_STREAM(cuStreamGetCtx, (CUstream stream, CUcontext *out), stream, out)

static CUresult cuStreamGetCtx_v2_on(const char *call, CUstream handle, CUcontext *out,
                                     CUgreenCtx *green)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out || !green)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUcontext)stream->context;
	*green = NULL;
	return leave(CUDA_SUCCESS);
}
EXPORT_ON_STREAM(cuStreamGetCtx_v2, (CUstream stream, CUcontext *out, CUgreenCtx *green), stream,
                 out, green)

static CUresult cuStreamGetDevice_on(const char *call, CUstream handle, CUdevice *ordinal)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!ordinal)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*ordinal = stream->context->device->index;
	return leave(CUDA_SUCCESS);
}
EXPORT_ON_STREAM(cuStreamGetDevice, (CUstream stream, CUdevice *ordinal), stream, ordinal)

/* Those that streams have; the others are for launches and graph nodes. */
static bool is_stream_attribute(CUstreamAttrID attribute)
{
	switch ((int)attribute) {
	case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
	case CU_LAUNCH_ATTRIBUTE_PRIORITY:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
		return true;
	default:
		return false;
	}
}

static CUresult cuStreamGetAttribute_on(const char *call, CUstream handle, CUstreamAttrID attribute,
                                        CUstreamAttrValue *value)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!value || !is_stream_attribute(attribute))
		return leave(CUDA_ERROR_INVALID_VALUE);
	*value = stream->attributes[attribute];
	if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		value->priority = stream->priority;
	return leave(CUDA_SUCCESS);
}
EXPORT_ON_STREAM(cuStreamGetAttribute,
                 (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value), stream,
                 attribute, value)

static CUresult cuStreamSetAttribute_on(const char *call, CUstream handle, CUstreamAttrID attribute,
                                        const CUstreamAttrValue *value)
{
	struct stream *stream;
	CUresult result = enter_stream(call, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!value || !is_stream_attribute(attribute))
		return leave(CUDA_ERROR_INVALID_VALUE);
	stream->attributes[attribute] = *value;
	if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY)
		stream->priority = value->priority;
	return leave(CUDA_SUCCESS);
}
EXPORT_ON_STREAM(cuStreamSetAttribute,
                 (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value),
                 stream, attribute, value)

static CUresult cuStreamCopyAttributes_on(const char *call, CUstream to_handle,
                                          CUstream from_handle)
{
	struct stream *to;
	CUresult result = enter_stream(call, to_handle, &to);
	if (result != CUDA_SUCCESS)
		return result;
	struct stream *from = stream_find(current_context(), from_handle);
	if (!from)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	memcpy(to->attributes, from->attributes, sizeof(to->attributes));
	return leave(CUDA_SUCCESS);
}
EXPORT_ON_STREAM(cuStreamCopyAttributes, (CUstream stream, CUstream from), stream, from)

/* A host function of the application, called by the stream's thread. */
struct host_call {
	struct work work;
	CUhostFn function;
	CUstreamCallback callback; /* one of the two */
	CUstream stream;
	void *data;
};

static CUresult call_host(struct work *work, CUresult broken)
{
	struct host_call *call = (struct host_call *)work;
	struct thread *thread = this_thread();
	thread->in_host_function = true;
	if (call->callback)
		call->callback(call->stream, broken, call->data);
	else
		call->function(call->data);
	thread->in_host_function = false;
	return CUDA_SUCCESS;
}

static struct work *make_host_call(struct host_call what)
{
	struct host_call *call = malloc(sizeof(*call));
	if (!call)
		return NULL;
	*call = what;
	call->work.run = call_host;
	/* Callbacks are told of an error; host functions are not run after one. */
	call->work.even_if_broken = call->callback != NULL;
	return &call->work;
}

struct work *host_work(CUhostFn function, void *data)
{
	return make_host_call((struct host_call){.function = function, .data = data});
}

static CUresult cuLaunchHostFunc_on(const char *name, CUstream handle, CUhostFn function,
                                    void *data)
{
	struct stream *stream;
	CUresult result = enter_stream(name, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!function)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (stream->capture) {
		CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_HOST,
		                            .host = {.fn = function, .userData = data}};
		return leave(capture_add(stream, &params));
	}
	struct work *work = host_work(function, data);
	return leave(work ? stream_submit(stream, work) : CUDA_ERROR_OUT_OF_MEMORY);
}
EXPORT_ON_STREAM(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *data), stream,
                 function, data)

static CUresult cuStreamAddCallback_on(const char *name, CUstream handle, CUstreamCallback callback,
                                       void *data, unsigned int flags)
{
	struct stream *stream;
	CUresult result = enter_stream(name, handle, &stream);
	if (result != CUDA_SUCCESS)
		return result;
	if (!callback || flags != 0)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct work *work = make_host_call(
	    (struct host_call){.callback = callback, .stream = handle, .data = data});
	return leave(work ? stream_submit(stream, work) : CUDA_ERROR_OUT_OF_MEMORY);
}
EXPORT_ON_STREAM(cuStreamAddCallback,
                 (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags),
                 stream, callback, data, flags)
