/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 that has every entry point of the table and hands out handles. Each creating call
 * succeeds with another handle, through the parameter that the test names (giver.h). A NULL
 * parameter is skipped. The shim's own queries are answered. It knows contexts, the current one of
 * each thread, and user objects' references.
 */
#include "tests/unit/giver.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t word;

enum { CONTEXTS = 128, DEPTH = 16, PRIMARY = 0x9000 };

__attribute__((visibility("default"))) struct giver giver = {
    .next = 0x10000000, .pool = GIVER_POOL, .used = (uint64_t)1 << 30};

static CUresult give(word out, uint64_t value, size_t size)
{
	if (out)
		memcpy((void *)out, &value, size);
	return CUDA_SUCCESS;
}

static uint64_t new_handle(void)
{
	uint64_t again = atomic_load(&giver.again);

	atomic_fetch_add(&giver.used, atomic_load(&giver.takes));
	return again ? again : atomic_fetch_add(&giver.next, 0x100);
}

/* --- contexts --- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	word handle;
	unsigned int uses;
} contexts[CONTEXTS];
static __thread word stack[DEPTH];
static __thread int depth;

/* Adds to its uses, of an unknown one from 0; how many there are then. */
static unsigned int use(word handle, int change)
{
	unsigned int uses = 0;
	int at = -1, free_place = -1;

	pthread_mutex_lock(&lock);
	for (int i = 0; i < CONTEXTS; i++) {
		if (!contexts[i].uses)
			free_place = i;
		else if (contexts[i].handle == handle)
			at = i;
	}
	if (at < 0 && change > 0) {
		at = free_place;
		contexts[at].handle = handle;
	}
	if (at >= 0)
		uses = contexts[at].uses += (unsigned int)change;
	pthread_mutex_unlock(&lock);
	return uses;
}

static word current(void)
{
	return depth ? stack[depth - 1] : 0;
}

static CUresult push(word context)
{
	if (depth == DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stack[depth++] = context;
	return CUDA_SUCCESS;
}

static CUresult pop(word out)
{
	if (!depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	return give(out, stack[--depth], sizeof(CUcontext));
}

static CUresult make_context(word out)
{
	word made = out ? new_handle() : 0;

	if (!out)
		return CUDA_SUCCESS;
	use(made, 1);
	push(made);
	return give(out, made, sizeof(CUcontext));
}

/* It is no more current in this thread. */
static CUresult end_context(word context, int uses)
{
	int left = 0;

	if (use(context, -uses) > 0)
		return CUDA_SUCCESS;
	for (int i = 0; i < depth; i++) {
		if (stack[i] != context)
			stack[left++] = stack[i];
	}
	depth = left;
	return CUDA_SUCCESS;
}

/* The context of a green one. */
static word of_green(word green)
{
	word context = green | 0x80;

	if (!use(context, 0))
		use(context, 1);
	return context;
}

/* --- user objects --- */

struct user_object {
	CUhostFn destroy;
	void *data;
	_Atomic int64_t references;
};

static CUresult hold(word object, int64_t change)
{
	struct user_object *u = (struct user_object *)object;

	if (atomic_fetch_add(&u->references, change) + change == 0) {
		u->destroy(u->data);
		free(u);
	}
	return CUDA_SUCCESS;
}

static CUresult make_user_object(const word *w)
{
	struct user_object *u = w[0] ? malloc(sizeof(*u)) : NULL;

	if (!u)
		return CUDA_SUCCESS;
	u->destroy = (CUhostFn)w[2];
	u->data = (void *)w[1];
	atomic_init(&u->references, (unsigned int)w[3]);
	return give(w[0], (uintptr_t)u, sizeof(CUuserObject));
}

/* --- all of them --- */

static CUresult answer(enum entry entry, const word *w)
{
	switch (entry) {
	case ENTRY_cuDriverGetVersion:
		return give(w[0], 13000, sizeof(int));
	case ENTRY_cuDeviceGetCount:
		return give(w[0], 1, sizeof(int));
	case ENTRY_cuDeviceGet:
	case ENTRY_cuDeviceGetAttribute:
		return give(w[0], 0, sizeof(int));
	case ENTRY_cuStreamIsCapturing:
		return give(w[1], (unsigned int)atomic_load(&giver.is_capturing), sizeof(int));
	case ENTRY_cuDeviceGetName:
	case ENTRY_cuDeviceGetPCIBusId:
		return give(w[0], '0', 2);
	case ENTRY_cuDeviceGetUuid:
	case ENTRY_cuDeviceGetUuid_v2:
		return give(w[0], 1, sizeof(uint64_t));
	case ENTRY_cuDeviceTotalMem_v2:
		return give(w[0], (uint64_t)1 << 36, sizeof(size_t));
	case ENTRY_cuMemGetInfo_v2:
		give(w[1], (uint64_t)1 << 36, sizeof(size_t));
		return give(w[0], ((uint64_t)1 << 36) - atomic_load(&giver.used), sizeof(size_t));
	case ENTRY_cuMemGetAddressRange_v2:
		give(w[0], w[2], sizeof(CUdeviceptr));
		return give(w[1], 64, sizeof(size_t));
	case ENTRY_cuMemPoolGetAttribute:
		return give(w[2], 0, sizeof(uint64_t));
	case ENTRY_cuDeviceGetGraphMemAttribute:
		return give(w[2], 0, sizeof(uint64_t));
	case ENTRY_cuDeviceGetMemPool:
	case ENTRY_cuDeviceGetDefaultMemPool:
		return give(w[0], atomic_load(&giver.pool), sizeof(CUmemoryPool));
	case ENTRY_cuCheckpointProcessGetState:
		return give(w[1], (unsigned int)atomic_load(&giver.state), sizeof(CUprocessState));

	case ENTRY_cuCtxCreate:
	case ENTRY_cuCtxCreate_v2:
	case ENTRY_cuCtxCreate_v3:
	case ENTRY_cuCtxCreate_v4:
	case ENTRY_cuGLCtxCreate:
	case ENTRY_cuGLCtxCreate_v2:
	case ENTRY_cuVDPAUCtxCreate:
	case ENTRY_cuVDPAUCtxCreate_v2:
		return make_context(w[0]);
	case ENTRY_cuCtxDestroy:
	case ENTRY_cuCtxDestroy_v2:
		return end_context(w[0], (int)use(w[0], 0));
	case ENTRY_cuCtxAttach:
		use(current(), 1);
		return give(w[0], current(), sizeof(CUcontext));
	case ENTRY_cuCtxDetach:
		return end_context(w[0], 1);
	case ENTRY_cuDevicePrimaryCtxRetain:
		use(PRIMARY, 1);
		return give(w[0], PRIMARY, sizeof(CUcontext));
	case ENTRY_cuDevicePrimaryCtxRelease:
	case ENTRY_cuDevicePrimaryCtxRelease_v2:
		if (!use(PRIMARY, 0))
			return CUDA_ERROR_INVALID_CONTEXT;
		use(PRIMARY, -1);
		return CUDA_SUCCESS;
	case ENTRY_cuDevicePrimaryCtxReset:
	case ENTRY_cuDevicePrimaryCtxReset_v2:
		use(PRIMARY, -(int)use(PRIMARY, 0));
		return CUDA_SUCCESS;
	case ENTRY_cuDevicePrimaryCtxGetState:
		give(w[1], 0, sizeof(int));
		return give(w[2], use(PRIMARY, 0) != 0, sizeof(int));
	case ENTRY_cuCtxFromGreenCtx:
		return give(w[0], of_green(w[1]), sizeof(CUcontext));
	case ENTRY_cuGreenCtxDestroy:
		return end_context(w[0] | 0x80, (int)use(w[0] | 0x80, 0));
	case ENTRY_cuCtxGetCurrent:
		return give(w[0], current(), sizeof(CUcontext));
	case ENTRY_cuStreamGetCtx:
		return give(w[1], giver.of_streams ? giver.of_streams : current(),
		            sizeof(CUcontext));
	case ENTRY_cuCtxGetDevice: /* of the primary context also when it is not active */
		if (current() != PRIMARY && !use(current(), 0))
			return CUDA_ERROR_INVALID_CONTEXT;
		return give(w[0], 0, sizeof(CUdevice));
	case ENTRY_cuCtxPushCurrent:
	case ENTRY_cuCtxPushCurrent_v2:
		return push(w[0]);
	case ENTRY_cuCtxPopCurrent:
	case ENTRY_cuCtxPopCurrent_v2:
		return pop(w[0]);
	case ENTRY_cuCtxSetCurrent:
		depth -= depth > 0;
		return w[0] ? push(w[0]) : CUDA_SUCCESS;

	case ENTRY_cuUserObjectCreate:
		return make_user_object(w);
	case ENTRY_cuUserObjectRetain:
		return hold(w[0], (unsigned int)w[1]);
	case ENTRY_cuUserObjectRelease:
		return hold(w[0], -(int64_t)(unsigned int)w[1]);
	case ENTRY_cuGraphRetainUserObject:
		return hold(w[1], w[3] & CU_GRAPH_USER_OBJECT_MOVE ? 0 : (unsigned int)w[2]);
	case ENTRY_cuGraphReleaseUserObject:
		return hold(w[1], -(int64_t)(unsigned int)w[2]);
	default:
		break;
	}
	if (!giver.row[entry].out || !w[giver.row[entry].out - 1])
		return CUDA_SUCCESS;
	return give(w[giver.row[entry].out - 1], new_handle(),
	            giver.row[entry].size ? (size_t)giver.row[entry].size : sizeof(uint64_t));
}

static CUresult called(enum entry entry, const word *words)
{
	CUresult result = (CUresult)atomic_load(&giver.row[entry].answer);
	void (*during)(void) = NULL;

	if (result == CUDA_SUCCESS) {
		atomic_fetch_add(&giver.row[entry].calls, 1);
		result = answer(entry, words);
	}
	if (atomic_load(&giver.during_row) == (int)entry)
		during = atomic_exchange(&giver.during, NULL);
	if (during)
		during();
	return result;
}

#include "tests/unit/every_entry.h"
