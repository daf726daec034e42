/* SPDX-License-Identifier: MIT */
/* Contexts: primary and created ones, and each thread's stack of them. */
#include "tests/softgpu/driver.h"

#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/capture.h"
#include "tests/softgpu/machine.h"
#include "tests/softgpu/memory.h"
#include "tests/softgpu/module.h"

#define LEAST_PRIORITY    0
#define GREATEST_PRIORITY (-5)

/* Contexts stay in this list when they die, so that a stale handle is told from a wild one. */
struct context *contexts;

static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static __thread struct thread *own_thread;

static void close_streams_of(const struct thread *thread)
{
	driver_acquire();
	for (struct context *context = contexts; context; context = context->next) {
		struct stream *stream, *next;
		DL_FOREACH_SAFE(context->streams, stream, next)
		{
			if (stream->owner == thread && !stream->closing)
				stream_close(stream);
		}
	}
	driver_release();
}

static void thread_ended(void *pointer)
{
	struct thread *thread = pointer;
	/* In a forked child the lock may be held by a thread that is not there. */
	if (driver_is_ready())
		close_streams_of(thread);
	own_thread = NULL; /* other destructors may still call the driver */
	free(thread->stack);
	free(thread);
}

static void make_thread_key(void)
{
	pthread_key_create(&thread_key, thread_ended);
}

struct thread *this_thread(void)
{
	if (own_thread)
		return own_thread;
	pthread_once(&thread_once, make_thread_key);
	static unsigned long long last_id;
	own_thread = calloc(1, sizeof(*own_thread));
	if (!own_thread)
		abort(); /* a few bytes: nothing would work without them */
	own_thread->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	pthread_setspecific(thread_key, own_thread);
	return own_thread;
}

struct context *current_context(void)
{
	struct thread *thread = this_thread();
	return thread->depth ? thread->stack[thread->depth - 1] : NULL;
}

static CUresult push(struct context *context)
{
	struct thread *thread = this_thread();
	if (thread->depth == thread->capacity) {
		int capacity = thread->capacity ? 2 * thread->capacity : 8;
		struct context **stack =
		    realloc(thread->stack, (size_t)capacity * sizeof(struct context *));
		if (!stack)
			return CUDA_ERROR_OUT_OF_MEMORY;
		thread->stack = stack;
		thread->capacity = capacity;
	}
	thread->stack[thread->depth++] = context;
	return CUDA_SUCCESS;
}

struct context *context_find(CUcontext handle)
{
	struct context *context = handle_find(handle, HANDLE_CONTEXT);
	return context && context->alive ? context : NULL;
}

static void set_default_limits(struct context *context)
{
	memset(context->limits, 0, sizeof(context->limits));
	context->limits[CU_LIMIT_STACK_SIZE] = 1024;
	context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
	context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
	context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
	context->cache_config = CU_FUNC_CACHE_PREFER_NONE;
	context->shared_config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
}

/* Gives a context its memory and its legacy stream. */
static CUresult bring_alive(struct context *context, unsigned int flags)
{
	static unsigned long long last_id;
	struct device *device = context->device;
	if (!window_view(device))
		return CUDA_ERROR_OPERATING_SYSTEM;
	uint64_t memory = config()->context_memory;
	if (!machine_take(device->machine_index, memory))
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->legacy = stream_create(context, CU_STREAM_DEFAULT, 0);
	if (!context->legacy) {
		machine_give(device->machine_index, memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	context->legacy->legacy = true;
	context->memory = memory;
	context->flags = flags;
	context->api_version = (unsigned int)config()->driver_version;
	context->error = CUDA_SUCCESS;
	context->id = ++last_id;
	set_default_limits(context);
	context->alive = true;
	machine_count_context(device->machine_index, true);
	return CUDA_SUCCESS;
}

static struct context *context_new(struct device *device)
{
	struct context *context = calloc(1, sizeof(*context));
	if (!context)
		return NULL;
	if (!handle_add(&context->handle, HANDLE_CONTEXT)) {
		free(context);
		return NULL;
	}
	context->device = device;
	context->next = contexts;
	contexts = context;
	return context;
}

void context_drain(struct context *context)
{
	/* Streams may come and go while this sleeps: look again from the start. */
	uint64_t waited_for = 0;
	for (;;) {
		struct stream *stream;
		DL_FOREACH (context->streams, stream) {
			if (stream->id > waited_for)
				break;
		}
		if (!stream)
			return;
		waited_for = stream->id;
		stream_wait_for(stream, stream->issued);
	}
}

static bool has_context(const struct device *device)
{
	for (const struct context *context = contexts; context; context = context->next)
		if (context->alive && context->device == device)
			return true;
	return false;
}

/*
 * Ends a context: refuses new work, waits for what there is, then frees whatever it owns. Its
 * handle stays known.
 */
static void kill_context(struct context *context)
{
	context->alive = false;
	context->dying = true;
	context_drain(context);
	modules_forget_context(context);
	events_forget_context(context);
	memory_forget_context(context);
	kernel_heap_close(context);
	struct stream *stream, *next;
	DL_FOREACH_SAFE(context->streams, stream, next)
	{
		if (!stream->closing)
			stream_close(stream);
	}
	context->legacy = NULL;
	context->dying = false;
	if (!has_context(context->device)) {
		pools_empty(context->device);
		graph_memory_empty(context->device);
	}
	machine_give(context->device->machine_index, context->memory);
	machine_count_context(context->device->machine_index, false);
	announce_progress();
}

static CUresult primary_retain(struct device *device)
{
	if (!device->primary) {
		device->primary = context_new(device);
		if (!device->primary)
			return CUDA_ERROR_OUT_OF_MEMORY;
		device->primary->primary = true;
	}
	struct context *primary = device->primary;
	while (primary->dying)
		wait_for_progress();
	if (!primary->alive) {
		CUresult result = bring_alive(primary, device->primary_flags);
		if (result != CUDA_SUCCESS)
			return result;
	}
	primary->retained++;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice ordinal)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct device *device = device_of(ordinal);
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	result = primary_retain(device);
	if (result == CUDA_SUCCESS)
		*out = (CUcontext)device->primary;
	return leave(result);
}

static CUresult primary_release(const char *call, CUdevice ordinal)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct device *device = device_of(ordinal);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	struct context *primary = device->primary;
	if (!primary || primary->retained == 0)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	/* A reset does not release: what was retained before it is still to be released. */
	if (--primary->retained == 0 && primary->alive)
		kill_context(primary);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal)
{
	return primary_release(__func__, ordinal);
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal)
{
	return primary_release(__func__, ordinal);
}

static CUresult primary_reset(const char *call, CUdevice ordinal)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct device *device = device_of(ordinal);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (device->primary && device->primary->alive)
		kill_context(device->primary);
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice ordinal)
{
	return primary_reset(__func__, ordinal);
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal)
{
	return primary_reset(__func__, ordinal);
}

static bool flags_are_valid(unsigned int flags)
{
	unsigned int schedule = flags & CU_CTX_SCHED_MASK;
	return !(flags & ~(unsigned int)CU_CTX_FLAGS_MASK) && (schedule & (schedule - 1)) == 0;
}

static CUresult primary_set_flags(const char *call, CUdevice ordinal, unsigned int flags)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct device *device = device_of(ordinal);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (!flags_are_valid(flags))
		return leave(CUDA_ERROR_INVALID_VALUE);
	device->primary_flags = flags;
	if (device->primary && device->primary->alive)
		device->primary->flags = flags;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned int flags)
{
	return primary_set_flags(__func__, ordinal, flags);
}

EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags)
{
	return primary_set_flags(__func__, ordinal, flags);
}

EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags, int *active)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct device *device = device_of(ordinal);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (!flags || !active)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*flags = device->primary_flags;
	*active = device->primary && device->primary->alive;
	return leave(CUDA_SUCCESS);
}

static CUresult create(const char *call, CUcontext *out, unsigned int flags, CUdevice ordinal,
                       bool affinity)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct device *device = device_of(ordinal);
	if (!out || !flags_are_valid(flags))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!device)
		return leave(CUDA_ERROR_INVALID_DEVICE);
	if (affinity)
		return leave(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
	struct context *context = context_new(device);
	if (!context)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	result = bring_alive(context, flags);
	if (result == CUDA_SUCCESS)
		result = push(context);
	if (result == CUDA_SUCCESS)
		*out = (CUcontext)context;
	return leave(result);
}

EXPORT CUresult cuCtxCreate(CUcontext *out, unsigned int flags, CUdevice ordinal)
{
	return create(__func__, out, flags, ordinal, false);
}

EXPORT CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice ordinal)
{
	return create(__func__, out, flags, ordinal, false);
}

EXPORT CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *affinity, int affinity_count,
                               unsigned int flags, CUdevice ordinal)
{
	return create(__func__, out, flags, ordinal, affinity && affinity_count > 0);
}

EXPORT CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                               CUdevice ordinal)
{
	return create(__func__, out, flags, ordinal,
	              params && (params->numExecAffinityParams > 0 || params->cigParams));
}

static CUresult destroy(const char *call, CUcontext handle)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct context *context = context_find(handle);
	if (!context || context->primary)
		return leave(handle ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE);
	kill_context(context);
	struct thread *thread = this_thread();
	if (current_context() == context)
		thread->depth--;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxDestroy(CUcontext handle)
{
	return destroy(__func__, handle);
}

EXPORT CUresult cuCtxDestroy_v2(CUcontext handle)
{
	return destroy(__func__, handle);
}

static CUresult push_current(const char *call, CUcontext handle)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct context *context = context_find(handle);
	return leave(context ? push(context) : CUDA_ERROR_INVALID_CONTEXT);
}

EXPORT CUresult cuCtxPushCurrent(CUcontext handle)
{
	return push_current(__func__, handle);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle)
{
	return push_current(__func__, handle);
}

static CUresult pop_current(const char *call, CUcontext *out)
{
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	struct context *context = current_context();
	if (!context)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	this_thread()->depth--;
	if (out)
		*out = (CUcontext)context;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxPopCurrent(CUcontext *out)
{
	return pop_current(__func__, out);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
	return pop_current(__func__, out);
}

EXPORT CUresult cuCtxSetCurrent(CUcontext handle)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	struct thread *thread = this_thread();
	struct context *context = handle ? context_find(handle) : NULL;
	if (handle && !context)
		return leave(CUDA_ERROR_INVALID_CONTEXT);
	if (thread->depth)
		thread->depth--;
	return leave(context ? push(context) : CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *out)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!out)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*out = (CUcontext)current_context();
	return leave(CUDA_SUCCESS);
}

/* Enters a call about a context that may be named; NULL names the current one. */
static CUresult enter_named(const char *call, CUcontext handle, struct context **context)
{
	if (!handle)
		return enter_context(call, context);
	CUresult result = enter_driver(call);
	if (result != CUDA_SUCCESS)
		return result;
	*context = context_find(handle);
	return *context ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_CONTEXT);
}

EXPORT CUresult cuCtxGetDevice_v2(CUdevice *ordinal, CUcontext handle)
{
	struct context *context;
	CUresult result = enter_named(__func__, handle, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!ordinal)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*ordinal = context->device->index;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetDevice(CUdevice *ordinal)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!ordinal)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*ordinal = context->device->index;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long *id)
{
	struct context *context;
	CUresult result = enter_named(__func__, handle, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!id)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*id = context->id;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetDevResource(CUcontext handle, CUdevResource *resource,
                                    CUdevResourceType type)
{
	struct context *context;
	CUresult result = enter_named(__func__, handle, &context);
	if (result != CUDA_SUCCESS)
		return result;
	return leave(resource ? device_resource(resource, type) : CUDA_ERROR_INVALID_VALUE);
}

EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int *version)
{
	struct context *context;
	CUresult result = enter_named(__func__, handle, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!version)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*version = context->api_version;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetFlags(unsigned int *flags)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!flags)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*flags = context->flags;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSetFlags(unsigned int flags)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!flags_are_valid(flags))
		return leave(CUDA_ERROR_INVALID_VALUE);
	context->flags = flags;
	if (context->primary)
		context->device->primary_flags = flags;
	return leave(CUDA_SUCCESS);
}

static CUresult synchronize(struct context *context)
{
	CUresult result = capture_check_context(context);
	if (result != CUDA_SUCCESS)
		return leave(result);
	context_drain(context);
	pools_trim(context);
	return leave(context->error);
}

EXPORT CUresult cuCtxSynchronize(void)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	return result == CUDA_SUCCESS ? synchronize(context) : result;
}

EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle)
{
	struct context *context;
	CUresult result = enter_named(__func__, handle, &context);
	return result == CUDA_SUCCESS ? synchronize(context) : result;
}

EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!value)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if ((unsigned int)limit >= CU_LIMIT_SHMEM_SIZE)
		return leave(CUDA_ERROR_UNSUPPORTED_LIMIT);
	*value = context->limits[limit];
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if ((unsigned int)limit >= CU_LIMIT_SHMEM_SIZE)
		return leave(CUDA_ERROR_UNSUPPORTED_LIMIT);
	if (limit == CU_LIMIT_MALLOC_HEAP_SIZE && context->heap)
		return leave(CUDA_ERROR_INVALID_VALUE);
	context->limits[limit] = value;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache *cache_config)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!cache_config)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*cache_config = context->cache_config;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache cache_config)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (cache_config > CU_FUNC_CACHE_PREFER_EQUAL)
		return leave(CUDA_ERROR_INVALID_VALUE);
	context->cache_config = cache_config;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetSharedMemConfig(CUsharedconfig *shared_config)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (!shared_config)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*shared_config = context->shared_config;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxSetSharedMemConfig(CUsharedconfig shared_config)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	/* As since Volta: accepted, without effect. */
	return leave(shared_config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
	                 ? CUDA_ERROR_INVALID_VALUE
	                 : CUDA_SUCCESS);
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	if (result != CUDA_SUCCESS)
		return result;
	if (least)
		*least = LEAST_PRIORITY;
	if (greatest)
		*greatest = GREATEST_PRIORITY;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuCtxResetPersistingL2Cache(void)
{
	struct context *context;
	CUresult result = enter_context(__func__, &context);
	return result == CUDA_SUCCESS ? leave(CUDA_SUCCESS) : result;
}
