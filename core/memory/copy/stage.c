/* Stages. Rules: runs inside the user's process, within its calls, inside the gate. */
#include "core/memory/copy/stage.h"

#include <stdatomic.h>

#include "core/base/lock.h"
#include "core/base/log.h"
#include "core/cuda/capture.h"
#include "core/cuda/events.h"
#include "core/cuda/mapping.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/reach.h"
#include "core/memory/arena/spare.h"

/* As many streams may copy at once; with more, the driver's own call is made. */
enum { STAGES_MAX = 16 };

struct stage {
	struct device *device; /* NULL: it is not made */
	CUdeviceptr address;
	CUcontext context; /* of the work that used it last; NULL: there is none */
	CUstream stream;
	CUevent used; /* recorded behind that work; NULL: nobody knows when it is done */
	bool is_taken;
};

static LOCK_OF(STAGES) lock = LOCK_FREE;
static struct stage stages[STAGES_MAX];
static _Atomic bool is_any;

bool stage_is_any(void)
{
	return atomic_load_explicit(&is_any, memory_order_relaxed);
}

CUdeviceptr stage_address(const struct stage *stage)
{
	return stage->address;
}

/* Returns whether two streams are one: of each thread its own default stream has the same name. */
static bool is_same(const struct stage *stage, const struct context *context, CUstream stream)
{
	return stage->context == context->handle && stage->stream == stream &&
	       stream != CU_STREAM_PER_THREAD;
}

/*
 * Returns whether the work is done that used it last. Its context may be another thread's to
 * destroy: while it is leaving, and while a capture is active, nobody asks.
 */
static bool has_passed(const struct stage *stage)
{
	bool passed = false;

	if (!stage->used || !capture_sync_enter())
		return false;
	if (context_push(stage->context) == CUDA_SUCCESS) {
		passed = driver.cuEventQuery(stage->used) == CUDA_SUCCESS;
		context_pop(stage->context);
	}
	capture_sync_leave();
	return passed;
}

/* Returns whether no work uses it any more. */
static bool is_idle(const struct stage *stage)
{
	if (stage->is_taken || !stage->device)
		return false;
	return !stage->context || has_passed(stage);
}

static bool is_free_for(const struct stage *stage, const struct context *context, CUstream stream)
{
	if (stage->device != context->device)
		return false;
	return (!stage->is_taken && is_same(stage, context, stream)) || is_idle(stage);
}

static CUresult map(struct stage *stage, const struct chunk *chunk)
{
	CUmemAccessDesc right = reach_right(stage->device->handle);
	CUresult result = driver.cuMemAddressReserve(&stage->address, ARENA_UNIT, 0, 0, 0);

	if (result != CUDA_SUCCESS)
		return result;
	result = mapping_make(stage->address, ARENA_UNIT, chunk->handle);
	if (result == CUDA_SUCCESS) {
		result = mapping_allow(stage->address, ARENA_UNIT, &right, 1);
		if (result == CUDA_SUCCESS)
			return result;
		mapping_remove(stage->address, ARENA_UNIT);
	}
	driver.cuMemAddressFree(stage->address, ARENA_UNIT);
	return result;
}

/* Makes one, whose memory the mapping keeps. */
static bool make(struct stage *stage, struct device *device, bool is_beyond_limit)
{
	struct chunk chunk = {.size = ARENA_UNIT, .side = SEGMENT_ON_DEVICE};

	if (device_charge(device, ARENA_UNIT) != 0 &&
	    (!is_beyond_limit || device_charge_taken(device, ARENA_UNIT) != 0))
		return false;
	if (spare_create(device, &chunk) == CUDA_SUCCESS) {
		stage->device = device;
		if (map(stage, &chunk) != CUDA_SUCCESS)
			stage->device = NULL;
		chunk_release(&chunk);
	}
	if (!stage->device)
		device_uncharge(device, SEGMENT_ON_DEVICE, ARENA_UNIT);
	return stage->device != NULL;
}

static bool give_back(struct stage *stage)
{
	if (mapping_remove(stage->address, ARENA_UNIT) != CUDA_SUCCESS)
		return false;
	driver.cuMemAddressFree(stage->address, ARENA_UNIT);
	device_uncharge(stage->device, SEGMENT_ON_DEVICE, ARENA_UNIT);
	events_give(stage->context, stage->used);
	*stage = (struct stage){.device = NULL};
	return true;
}

bool stage_trim(const struct device *device)
{
	bool came = false;

	lock_acquire(&lock);
	for (int i = 0; i < STAGES_MAX; i++)
		if (stages[i].device == device && is_idle(&stages[i]))
			came |= give_back(&stages[i]);
	lock_release(&lock);
	return came;
}

/* Finds one, or a place for a new one; with the lock held. */
static struct stage *find(const struct context *context, CUstream stream, bool is_beyond_limit)
{
	for (int i = 0; i < STAGES_MAX; i++)
		if (is_free_for(&stages[i], context, stream))
			return &stages[i];
	for (int i = 0; i < STAGES_MAX; i++)
		if (!stages[i].device)
			return make(&stages[i], context->device, is_beyond_limit) ? &stages[i]
			                                                          : NULL;
	return NULL;
}

struct stage *stage_take(const struct context *context, CUstream stream, bool is_beyond_limit)
{
	struct stage *stage;

	lock_acquire(&lock);
	stage = find(context, stream, is_beyond_limit);
	if (stage) {
		if (stage->context != context->handle || !stage->used) {
			events_give(stage->context, stage->used);
			stage->used = events_take(context->handle);
		}
		stage->context = context->handle;
		stage->stream = stream;
		stage->is_taken = true;
		atomic_store_explicit(&is_any, true, memory_order_relaxed);
	}
	lock_release(&lock);
	return stage;
}

void stage_give(struct stage *stage)
{
	lock_acquire(&lock);
	if (!stage->used || driver.cuEventRecord(stage->used, stage->stream) != CUDA_SUCCESS) {
		events_give(stage->context, stage->used);
		stage->used = NULL;
	}
	stage->is_taken = false;
	lock_release(&lock);
}

void stage_forget_stream(CUstream stream)
{
	lock_acquire(&lock);
	for (int i = 0; i < STAGES_MAX; i++)
		if (stages[i].stream == stream)
			stages[i].stream = NULL; /* an explicit name is not NULL */
	lock_release(&lock);
}

void stage_forget_context(CUcontext context)
{
	lock_acquire(&lock);
	for (int i = 0; i < STAGES_MAX; i++) {
		if (stages[i].context != context)
			continue;
		stages[i].context = NULL;
		stages[i].used = NULL;
	}
	lock_release(&lock);
}
