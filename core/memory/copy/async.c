/* Asynchronous copies. Rules: runs inside the user's process, within its calls. */
#include "core/memory/copy/async.h"

#include "core/base/address_map.h"
#include "core/base/deadline.h"
#include "core/base/lock.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/gate.h"
#include "core/memory/arena/host_probe.h"
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

/* --- pieces: all of each lies on one side, at either end --- */

struct piece {
	CUdeviceptr to, from;
	size_t width, rows; /* bytes of each; whole rows where there are several */
	size_t x, y, z;     /* where in the copy */
};

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static size_t left_in_unit(CUdeviceptr address)
{
	return ARENA_UNIT - address % ARENA_UNIT;
}

/* Returns how many whole rows of so many bytes, from an address on, end in its unit. */
static size_t rows_in_unit(CUdeviceptr address, const struct async_end *end, size_t width)
{
	return 1 + (left_in_unit(address) - width) / end->pitch;
}

static CUdeviceptr address_of(const struct async_end *end, const struct piece *p)
{
	return end->address + p->z * end->slice + p->y * end->pitch + p->x;
}

static void measure(const struct async_copy *copy, struct piece *p)
{
	p->to = address_of(&copy->to, p);
	p->from = address_of(&copy->from, p);
	p->width = least(copy->width - p->x, least(left_in_unit(p->to), left_in_unit(p->from)));
	p->rows = 1;
	if (p->width == copy->width && copy->height - p->y > 1)
		p->rows =
		    least(copy->height - p->y, least(rows_in_unit(p->to, &copy->to, p->width),
		                                     rows_in_unit(p->from, &copy->from, p->width)));
}

static struct piece first_piece(const struct async_copy *copy)
{
	struct piece first = {.x = 0};

	measure(copy, &first);
	return first;
}

/* Returns whether there is another one. */
static bool next_piece(const struct async_copy *copy, struct piece *p)
{
	p->x += p->width;
	if (p->x == copy->width) {
		p->x = 0;
		p->y += p->rows;
	}
	if (p->y == copy->height) {
		p->y = 0;
		p->z++;
	}
	if (p->z == copy->depth)
		return false;
	measure(copy, p);
	return true;
}

static bool is_between_host(const struct piece *p)
{
	return (found_at(p->to) == SPILLED || found_at(p->from) == SPILLED) && is_of_host(p->to) &&
	       is_of_host(p->from);
}

/*
 * Returns whether any piece is between memory of the host. A copy that goes on where no memory is
 * known is the driver's to judge, which refuses all of it.
 */
static bool is_concerned(const struct async_copy *copy)
{
	struct piece p = first_piece(copy);
	bool is_any = false;

	do {
		if (found_at(p.to) == NOTHING && found_at(p.from) == NOTHING)
			return false;
		is_any = is_any || is_between_host(&p);
	} while (next_piece(copy, &p));
	return is_any;
}

/* --- copying --- */

static CUresult copy_piece(const struct async_end *to, const struct async_end *from,
                           const struct piece *p, CUstream stream)
{
	const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
	                            .srcDevice = from->address,
	                            .srcPitch = from->pitch,
	                            .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
	                            .dstDevice = to->address,
	                            .dstPitch = to->pitch,
	                            .WidthInBytes = p->width,
	                            .Height = p->rows};

	return p->rows == 1 ? driver.cuMemcpyAsync(to->address, from->address, p->width, stream)
	                    : driver.cuMemcpy2DAsync_v2(&rows, stream);
}

static CUresult in_pieces(const struct async_copy *copy, const struct stage *stage)
{
	struct piece p = first_piece(copy);
	CUresult result;

	do {
		const struct async_end to = {p.to, .pitch = copy->to.pitch};
		const struct async_end from = {p.from, .pitch = copy->from.pitch};
		const struct async_end between = {stage_address(stage), .pitch = p.width};

		if (!is_between_host(&p)) {
			result = copy_piece(&to, &from, &p, copy->stream);
		} else {
			result = copy_piece(&between, &from, &p, copy->stream);
			if (result == CUDA_SUCCESS)
				result = copy_piece(&to, &between, &p, copy->stream);
		}
	} while (result == CUDA_SUCCESS && next_piece(copy, &p));
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
	return !async_keep_captured(copy) && copy_in_time(copy, result);
}

bool async_would_wait(const struct async_copy *copy)
{
	bool would;

	gate_enter();
	would = is_concerned(copy) && driver.cuStreamQuery(copy->stream) == CUDA_ERROR_NOT_READY;
	gate_leave();
	return would;
}

static void keep(const struct async_copy *copy, const struct async_end *end)
{
	struct arena *arena = arena_at(end->address);
	CUdeviceptr address = end->address;
	CUdeviceptr past = address + (copy->depth - 1) * end->slice +
	                   (copy->height - 1) * end->pitch + copy->width;
	uint32_t first;

	if (!arena || host_probe_of(arena->device)->node == CUDA_SUCCESS)
		return;
	lock_acquire(&arena->lock);
	while (address < past && address - arena->base < arena->size &&
	       (first = run_first(arena, address)) != ADDRESS_NONE) {
		run_pin(arena, address);
		address = run_address(arena, first + run_units(arena, first));
	}
	lock_release(&arena->lock);
}

void async_keep_ends(const struct async_copy *copy)
{
	if (!async_is_concerned())
		return;
	gate_enter();
	if (is_concerned(copy)) {
		keep(copy, &copy->to);
		keep(copy, &copy->from);
	}
	gate_leave();
}

bool async_keep_captured(const struct async_copy *copy)
{
	if (!capture_is_active())
		return false;
	if (is_captured(copy->stream))
		async_keep_ends(copy);
	return true;
}
