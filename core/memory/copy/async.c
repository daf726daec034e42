/* Asynchronous copies. Rules: runs inside the user's process, within its calls. */
#include "core/memory/copy/async.h"

#include "core/base/address_map.h"
#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/gate.h"
#include "core/memory/arena/host_trial.h"
#include "core/memory/arena/run.h"
#include "core/memory/copy/stage.h"

/* How long the work before a copy is waited for, and how often it is looked at. */
#define PATIENCE_NS 200000000ull
#define LOOK_NS     200000ull

enum { CHUNK_UNITS = 16 }; /* at most */

/* What is at an address, as the books know: nothing, memory, or memory that can be on the host. */
enum found { NOTHING, MEMORY, SPILLED };

static enum found found_at(CUdeviceptr address)
{
	struct address_range range;
	const struct arena *arena;
	const struct unit *unit;

	if (!address_map_find(address, &range))
		return NOTHING;
	if (range.kind != ADDRESS_OF_ARENA)
		return range.kind == ADDRESS_OF_ALLOCATION ? MEMORY : SPILLED;
	/*
	 * What is said of a chunk stands in its first unit. Nothing moves: this is inside the gate.
	 */
	arena = range.owner;
	unit = arena_unit(arena, address);
	for (int i = 0; !unit->units && unit > arena->units && i < CHUNK_UNITS; i++)
		unit--;
	if (!unit->units)
		return NOTHING;
	return unit->side == SEGMENT_ON_HOST ? SPILLED : MEMORY;
}

/* Returns whether the driver takes an address for the host's. */
static bool is_of_host(CUdeviceptr address)
{
	unsigned int type = 0;

	return driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) !=
	           CUDA_SUCCESS ||
	       type == CU_MEMORYTYPE_HOST;
}

/*
 * Returns how many bytes from here on lie in one unit at both ends: all of them on one side each.
 */
static size_t piece_of(const struct async_copy *copy, size_t at)
{
	size_t to = ARENA_UNIT - (copy->to + at) % ARENA_UNIT;
	size_t from = ARENA_UNIT - (copy->from + at) % ARENA_UNIT;
	size_t piece = copy->size - at;

	piece = to < piece ? to : piece;
	return from < piece ? from : piece;
}

static bool is_between_host(const struct async_copy *copy, size_t at)
{
	return (found_at(copy->to + at) == SPILLED || found_at(copy->from + at) == SPILLED) &&
	       is_of_host(copy->to + at) && is_of_host(copy->from + at);
}

/*
 * Returns whether any piece is between memory of the host. A copy that goes on where no memory is
 * known is the driver's to judge, which refuses all of it.
 */
static bool is_concerned(const struct async_copy *copy)
{
	bool is_any = false;

	for (size_t at = 0; at < copy->size; at += piece_of(copy, at)) {
		if (found_at(copy->to + at) == NOTHING && found_at(copy->from + at) == NOTHING)
			return false;
		is_any = is_any || is_between_host(copy, at);
	}
	return is_any;
}

static CUresult by_stage(const struct async_copy *copy, size_t at, size_t size,
                         const struct stage *stage)
{
	CUdeviceptr between = stage_address(stage);
	CUresult result = driver.cuMemcpyAsync(between, copy->from + at, size, copy->stream);

	return result == CUDA_SUCCESS
	           ? driver.cuMemcpyAsync(copy->to + at, between, size, copy->stream)
	           : result;
}

static CUresult in_pieces(const struct async_copy *copy, const struct stage *stage)
{
	CUresult result = CUDA_SUCCESS;
	size_t size;

	for (size_t at = 0; at < copy->size && result == CUDA_SUCCESS; at += size) {
		size = piece_of(copy, at);
		result =
		    is_between_host(copy, at)
		        ? by_stage(copy, at, size, stage)
		        : driver.cuMemcpyAsync(copy->to + at, copy->from + at, size, copy->stream);
	}
	return result;
}

static bool is_captured(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	       status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

enum outcome {
	IS_MADE,
	IS_THE_DRIVERS, /* nothing of it would wait for the stream's work, or nobody can help */
	LACKS_STAGE,    /* below the limit */
};

/* Does what async_copy() does, inside the gate: what is looked at stays where it is. */
static enum outcome copy_here(const struct async_copy *copy, bool is_beyond_limit, CUresult *result)
{
	struct context context;
	struct stage *stage;

	/* The driver's own call waits for the work before it; where there is none, for nothing. */
	if (!context_current(&context) || !is_concerned(copy) ||
	    driver.cuStreamQuery(copy->stream) != CUDA_ERROR_NOT_READY)
		return IS_THE_DRIVERS;
	stage = stage_take(&context, copy->stream, is_beyond_limit);
	if (!stage)
		return is_beyond_limit ? IS_THE_DRIVERS : LACKS_STAGE;
	*result = in_pieces(copy, stage);
	stage_give(stage);
	return IS_MADE;
}

/*
 * Makes the copy. While the limit leaves no room for a stage the stream is waited for, as the
 * driver would wait; what waits longer may wait for the host, and gets a stage beyond the limit.
 */
static bool copy_in_time(const struct async_copy *copy, CUresult *result)
{
	struct deadline until = DEADLINE_IN(PATIENCE_NS);
	enum outcome outcome;
	bool is_late = false;

	do {
		gate_enter();
		outcome = copy_here(copy, is_late, result);
		gate_leave();
		is_late = outcome == LACKS_STAGE && !deadline_nap(&until, LOOK_NS);
	} while (outcome == LACKS_STAGE);
	return outcome == IS_MADE;
}

bool async_copy(const struct async_copy *copy, CUresult *result)
{
	if (capture_is_active()) {
		if (is_captured(copy->stream))
			async_keep_ends(copy->to, copy->from, copy->size);
		return false;
	}
	return copy_in_time(copy, result);
}

static void keep(CUdeviceptr address, size_t size)
{
	struct arena *arena = arena_at(address);
	CUdeviceptr end = address + size;
	uint32_t first;

	if (!arena || host_trial_of(arena->device)->node == CUDA_SUCCESS)
		return;
	lock_acquire(&arena->lock);
	while (address < end && address - arena->base < arena->size &&
	       (first = run_first(arena, address)) != ADDRESS_NONE) {
		run_pin(arena, address);
		address = run_address(arena, first + run_units(arena, first));
	}
	lock_release(&arena->lock);
}

void async_keep_ends(CUdeviceptr to, CUdeviceptr from, size_t size)
{
	const struct async_copy copy = {.to = to, .from = from, .size = size};

	if (!async_is_concerned())
		return;
	gate_enter();
	if (is_concerned(&copy)) {
		keep(to, size);
		keep(from, size);
	}
	gate_leave();
}
