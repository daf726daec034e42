/* SPDX-License-Identifier: MIT */
/* Asynchronous copies. Rules: runs inside the user's process, within its calls. */
#include "core/memory/copy/async.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/address_map.h"
#include "core/base/lock.h"
#include "core/cuda/capture.h"
#include "core/cuda/context.h"
#include "core/cuda/gate.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/host_probe.h"

enum {
	CHUNK_UNITS = 16,       /* at most */
	TAKEN_ALONG = 64 << 10, /* bytes of pageable memory, before the driver waits */
	RUN_MOST = 512 << 20,   /* bytes in a row: a pitch has 31 bits */
	PAGE_NULL = 4096,
};

/*
 * The object at an address, as the books know it: nothing, memory, or memory that can be on the
 * host.
 */
enum found { NOTHING, MEMORY, SPILLED };

static enum found found_at(CUdeviceptr address)
{
	struct address_range range;
	const struct arena *arena;
	const struct unit *unit;

	if (!address_map_find(address, &range) || range.kind == ADDRESS_OF_SLAB)
		return NOTHING; /* the driver knows its own memory */
	if (range.kind != ADDRESS_OF_ARENA)
		return range.kind == ADDRESS_OF_ALLOCATION ? MEMORY : SPILLED;
	/* The fields of a chunk stand in its first unit. Nothing moves: this is inside the gate. */
	arena = range.owner;
	unit = arena_unit(arena, address);
	for (int i = 0; !unit->units && unit > arena->units && i < CHUNK_UNITS; i++)
		unit--;
	if (!unit->units)
		return NOTHING;
	return unit->tier == SEGMENT_ON_HOST ? SPILLED : MEMORY;
}

/* Returns the driver's type of an address; 0: it does not know it, so it is pageable. */
static unsigned int async_type_of(CUdeviceptr address)
{
	unsigned int type = 0;

	return driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) ==
	               CUDA_SUCCESS
	           ? type
	           : 0;
}

static bool is_pageable(CUdeviceptr address)
{
	return async_type_of(address) == 0;
}

static bool is_of_host(CUdeviceptr address)
{
	unsigned int type = async_type_of(address);

	return type == 0 || type == CU_MEMORYTYPE_HOST;
}

/* --- pieces: all of each lies on one tier, at either end --- */

struct piece {
	CUdeviceptr to, from;
	size_t width, rows; /* bytes of each; whole rows where there are several */
	size_t x, y, z;     /* where in the copy */
};

static size_t async_least(size_t a, size_t b)
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

static CUdeviceptr async_address_of(const struct async_end *end, const struct piece *p)
{
	return end->address + p->z * end->slice + p->y * end->pitch + p->x;
}

static void async_measure(const struct async_copy *copy, struct piece *p)
{
	p->to = async_address_of(&copy->to, p);
	p->from = async_address_of(&copy->from, p);
	p->width = async_least(copy->width - p->x,
	                       async_least(left_in_unit(p->to), left_in_unit(p->from)));
	p->rows = 1;
	if (p->width == copy->width && copy->height - p->y > 1)
		p->rows = async_least(copy->height - p->y,
		                      async_least(rows_in_unit(p->to, &copy->to, p->width),
		                                  rows_in_unit(p->from, &copy->from, p->width)));
}

static struct piece first_piece(const struct async_copy *copy)
{
	struct piece first = {.x = 0};

	async_measure(copy, &first);
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
	async_measure(copy, p);
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

/* Returns whether the driver's own call waits: for the work before it, where there is any. */
static bool async_do_would_wait(const struct async_copy *copy)
{
	return is_concerned(copy) && driver.cuStreamQuery(copy->stream) == CUDA_ERROR_NOT_READY;
}

/* --- waits that exist with memory on the device, too --- */

static size_t async_size_of(const struct async_copy *copy)
{
	return copy->width * copy->height * copy->depth;
}

/*
 * Returns whether the source has to be read within the call: the driver takes so much of pageable
 * memory along, and the program may change it at once. Source: "API synchronization behavior".
 */
static bool is_taken_along(const struct async_copy *copy)
{
	return !copy->is_in_order && is_pageable(copy->from.address);
}

/*
 * Returns whether the copy waits for the stream's work wherever its memory is: it writes pageable
 * memory, or reads more of it than the driver takes along. An address that nothing can have is the
 * driver's to refuse.
 */
static bool waits_anyway(const struct async_copy *copy)
{
	if (copy->is_in_order)
		return false;
	return is_pageable(copy->to.address) ||
	       (is_taken_along(copy) &&
	        (async_size_of(copy) > TAKEN_ALONG || copy->from.address < PAGE_NULL));
}

/* --- a graph of the pieces between memory of the host --- */

struct graph {
	CUgraph graph;
	CUgraphNode last; /* NULL: there is none yet */
	CUcontext context;
	struct piece run; /* pieces that follow one another, not in the graph yet */
	bool is_joined;   /* the run by its successor */
	char *taken;      /* the bytes of the source that were taken along; NULL: none */
	size_t used;      /* of them */
};

/* Adds a node behind the last one. */
#define ADD_NODE(g, add, ...)                                                               \
	({                                                                                  \
		CUgraphNode before = (g)->last;                                             \
		driver.add(&(g)->last, (g)->graph, before ? &before : NULL, before ? 1 : 0, \
		           __VA_ARGS__);                                                    \
	})

/* Takes the source of a piece along. Returns where it is now. */
static const char *take_along(struct graph *g, const struct async_end *from, const struct piece *p)
{
	char *to = g->taken + g->used;

	for (size_t row = 0; row < p->rows; row++)
		memcpy(to + row * p->width, (const char *)p->from + row * from->pitch, p->width);
	g->used += p->rows * p->width;
	return to;
}

/* Adds the run. */
static CUresult add_run(struct graph *g, const struct async_copy *copy)
{
	const struct piece *p = &g->run;
	bool is_plain = p->rows == 1;
	CUDA_MEMCPY3D node = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
	                      .srcDevice = p->from,
	                      .srcPitch = is_plain ? p->width : copy->from.pitch,
	                      .srcHeight = p->rows,
	                      .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
	                      .dstDevice = p->to,
	                      .dstPitch = is_plain ? p->width : copy->to.pitch,
	                      .dstHeight = p->rows,
	                      .WidthInBytes = p->width,
	                      .Height = p->rows,
	                      .Depth = 1};

	if (!p->rows)
		return CUDA_SUCCESS;
	if (g->taken) {
		node.srcMemoryType = CU_MEMORYTYPE_HOST;
		node.srcHost = take_along(g, &copy->from, p);
		node.srcPitch = p->width;
	}
	return ADD_NODE(g, cuGraphAddMemcpyNode, &node, g->context);
}

/* Returns whether a piece is a node: the driver's own call would wait. */
static bool is_node(const struct async_copy *copy, const struct piece *p)
{
	return is_between_host(p) ||
	       (copy->is_in_order && (is_pageable(p->to) || is_pageable(p->from)));
}

/*
 * Makes a piece part of the run, or the beginning of the next one. No node goes over a border
 * between memory of the host and of the device, which some drivers refuse.
 */
static CUresult async_add_piece(struct graph *g, const struct async_copy *copy,
                                const struct piece *p)
{
	struct piece *run = &g->run;
	bool is_joined = is_between_host(p);
	CUresult result;

	if (g->is_joined && is_joined && run->rows == 1 && p->rows == 1 &&
	    run->to + run->width == p->to && run->from + run->width == p->from &&
	    run->width < RUN_MOST) {
		run->width += p->width;
		return CUDA_SUCCESS;
	}
	result = add_run(g, copy);
	*run = *p;
	g->is_joined = is_joined;
	return result;
}

/* Fills the graph; its last node frees the memory taken along. */
static CUresult async_fill(struct graph *g, const struct async_copy *copy)
{
	const CUDA_HOST_NODE_PARAMS end = {.fn = free, .userData = g->taken};
	struct piece p = first_piece(copy);
	CUresult result = CUDA_SUCCESS;

	do {
		if (is_node(copy, &p))
			result = async_add_piece(g, copy, &p);
	} while (result == CUDA_SUCCESS && next_piece(copy, &p));
	if (result == CUDA_SUCCESS)
		result = add_run(g, copy);
	if (result == CUDA_SUCCESS && g->taken)
		result = ADD_NODE(g, cuGraphAddHostNode, &end);
	return result;
}

/* Makes the executable graph. Returns NULL where that cannot be had; then nothing is left of it. */
static CUgraphExec make_graph(const struct async_copy *copy, CUcontext context, char **taken)
{
	struct graph g = {.context = context};
	CUgraphExec exec = NULL;

	/* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): glibc allocates 0 bytes */
	if (is_taken_along(copy) && !(g.taken = malloc(async_size_of(copy))))
		return NULL;
	if (driver.cuGraphCreate(&g.graph, 0) == CUDA_SUCCESS) {
		if (async_fill(&g, copy) != CUDA_SUCCESS ||
		    driver.cuGraphInstantiateWithFlags(&exec, g.graph, 0) != CUDA_SUCCESS)
			exec = NULL;
		driver.cuGraphDestroy(g.graph);
	}
	if (!exec)
		free(g.taken);
	*taken = g.taken;
	return exec;
}

/* --- copying --- */

static CUresult copy_piece(const struct async_copy *copy, const struct piece *p)
{
	const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
	                            .srcDevice = p->from,
	                            .srcPitch = copy->from.pitch,
	                            .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
	                            .dstDevice = p->to,
	                            .dstPitch = copy->to.pitch,
	                            .WidthInBytes = p->width,
	                            .Height = p->rows};

	return p->rows == 1 ? driver.cuMemcpyAsync(p->to, p->from, p->width, copy->stream)
	                    : driver.cuMemcpy2DAsync_v2(&rows, copy->stream);
}

/* Copies the pieces that are not in the graph. */
static CUresult copy_others(const struct async_copy *copy)
{
	struct piece p = first_piece(copy);
	CUresult result = CUDA_SUCCESS;

	do {
		if (!is_node(copy, &p))
			result = copy_piece(copy, &p);
	} while (result == CUDA_SUCCESS && next_piece(copy, &p));
	return result;
}

static bool is_captured(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	return driver.cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
	       status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/*
 * Queues the copy. The graph is made before anything is queued, so that without one all of it is
 * the driver's. It is destroyed behind its launch: "If the executable graph is in-flight, it will
 * not be terminated, but rather freed asynchronously on completion" (cuGraphExecDestroy).
 */
static bool queue(const struct async_copy *copy, CUcontext context, CUresult *result)
{
	char *taken;
	CUgraphExec exec = make_graph(copy, context, &taken);

	if (!exec)
		return false;
	*result = copy_others(copy);
	if (*result == CUDA_SUCCESS)
		*result = driver.cuGraphLaunch(exec, copy->stream);
	if (*result != CUDA_SUCCESS)
		free(taken);
	driver.cuGraphExecDestroy(exec);
	return true;
}

/* Does async_copy(), inside the gate: memory that is looked at stays where it is. */
static bool copy_here(const struct async_copy *copy, CUresult *result)
{
	struct context context;

	return context_current(&context) && async_do_would_wait(copy) && !waits_anyway(copy) &&
	       queue(copy, context.handle, result);
}

static void async_keep(const struct async_copy *copy, const struct async_end *end)
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
		async_keep(copy, &copy->to);
		async_keep(copy, &copy->from);
	}
	gate_leave();
}

/*
 * Keeps both ends where the copy's stream is being captured. Returns whether any stream is.
 */
static bool async_keep_captured(const struct async_copy *copy)
{
	if (!capture_is_active())
		return false;
	if (is_captured(copy->stream))
		async_keep_ends(copy);
	return true;
}

bool async_copy(const struct async_copy *copy, CUresult *result)
{
	bool is_made;

	if (async_keep_captured(copy))
		return false;
	gate_enter();
	is_made = copy_here(copy, result);
	gate_leave();
	return is_made;
}

bool async_would_wait(const struct async_copy *copy)
{
	bool would;

	if (async_keep_captured(copy))
		return false;
	gate_enter();
	would = async_do_would_wait(copy);
	gate_leave();
	return would;
}
