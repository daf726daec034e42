/* SPDX-License-Identifier: MIT */
/*
 * Asynchronous copies of spilled memory, against a model. The test is the driver: three streams
 * that are held, with memory of every kind in each. A call of the driver that would wait for its
 * stream fails the test. The streams go on, in any order among them. Then every byte is as if each
 * copy had been made by itself, in its stream's order.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/address_map.h"
#include "core/cuda/context.h"
#include "core/memory/arena/arena.h"
#include "core/memory/copy/async.h"
#include "suite.h"

enum { STREAMS = 3, UNITS = 4, OPS_MAX = 4096, GRAPH_MAX = 64, WORLDS = 100 };
enum { AREA = UNITS * (int)ARENA_UNIT, EXTENT = 96 << 10, KNOWN = 64 << 10 };

struct driver driver;

/* Of each stream: memory that was spilled in parts, pinned memory, and pageable memory. */
enum kind { MIXED, PINNED, PAGEABLE, KINDS };
static struct area {
	char *bytes, *expected;
} areas[STREAMS][KINDS];
static bool is_spilled[STREAMS][UNITS];

/* Work that is queued: a copy of rows, or a function of the host. */
struct op {
	char *to;
	const char *from;
	size_t to_pitch, from_pitch, width, rows;
	char *taken; /* along by the driver */
	CUhostFn function;
	void *cookie;
};
static struct queue {
	struct op ops[OPS_MAX];
	int count, done;
	bool is_held;
} queues[STREAMS];

static struct graph_seen {
	struct op ops[GRAPH_MAX];
	int count;
	bool is_made, is_launched;
} seen;
static struct {
	uint32_t random;
	int graphs, executables; /* that there are */
	int launches, refused;
	bool refuses; /* to make executable graphs */
} world;

static uint32_t next(uint32_t below)
{
	world.random = world.random * 1664525u + 1013904223u;
	return (world.random >> 8) % below;
}

/* --- where an address is --- */

static bool is_in(CUdeviceptr address, const char *area)
{
	return address - (CUdeviceptr)(uintptr_t)area < AREA;
}

/* Returns what the driver takes an address for; 0: for pageable memory. */
static unsigned int type_at(CUdeviceptr address)
{
	for (int s = 0; s < STREAMS; s++) {
		const char *mixed = areas[s][MIXED].bytes;

		if (is_in(address, areas[s][PINNED].bytes))
			return CU_MEMORYTYPE_HOST;
		if (is_in(address, mixed))
			return is_spilled[s][(address - (uintptr_t)mixed) / ARENA_UNIT]
			           ? CU_MEMORYTYPE_HOST
			           : CU_MEMORYTYPE_DEVICE;
	}
	return 0;
}

static CUresult attribute(void *value, CUpointer_attribute what, CUdeviceptr address)
{
	ck_assert_int_eq(what, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
	*(unsigned int *)value = type_at(address);
	return type_at(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool __wrap_context_current(struct context *context);
bool __wrap_context_current(struct context *context)
{
	*context = (struct context){.handle = (CUcontext)0x100};
	return true;
}

/* --- the driver's streams --- */

static struct queue *queue_of(CUstream stream)
{
	return &queues[(uintptr_t)stream - 1];
}

static void carry_out(const struct op *op)
{
	if (op->function) {
		op->function(op->cookie);
		return;
	}
	for (size_t row = 0; row < op->rows; row++)
		memmove(op->to + row * op->to_pitch, op->from + row * op->from_pitch, op->width);
	free(op->taken);
}

static void enqueue(struct queue *queue, const struct op *op)
{
	ck_assert_int_lt(queue->count, OPS_MAX);
	queue->ops[queue->count++] = *op;
	if (!queue->is_held)
		carry_out(&queue->ops[queue->done++]);
}

static CUresult query(CUstream stream)
{
	return queue_of(stream)->is_held ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/* A copy that the driver makes: between memory of the host, or with much pageable, it waits. */
static CUresult copy_rows(const struct op *given, CUstream stream)
{
	unsigned int to = type_at((uintptr_t)given->to), from = type_at((uintptr_t)given->from);
	struct op op = *given;

	ck_assert(to != 0 && (to == CU_MEMORYTYPE_DEVICE || from == CU_MEMORYTYPE_DEVICE));
	if (!from) {
		ck_assert_uint_le(op.width * op.rows, KNOWN);
		op.taken = malloc(op.width * op.rows);
		for (size_t row = 0; row < op.rows; row++)
			memcpy(op.taken + row * op.width, op.from + row * op.from_pitch, op.width);
		op.from = op.taken;
		op.from_pitch = op.width;
	}
	enqueue(queue_of(stream), &op);
	return CUDA_SUCCESS;
}

static CUresult copy_bytes(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	const struct op op = {
	    .to = (char *)to, .from = (const char *)from, .width = size, .rows = 1};

	return copy_rows(&op, stream);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream)
{
	const struct op op = {.to = (char *)copy->dstDevice,
	                      .from = (const char *)copy->srcDevice,
	                      .to_pitch = copy->dstPitch,
	                      .from_pitch = copy->srcPitch,
	                      .width = copy->WidthInBytes,
	                      .rows = copy->Height};

	return copy_rows(&op, stream);
}

/* --- the driver's graphs: one at a time --- */

static CUresult graph_create(CUgraph *graph, unsigned int flags)
{
	(void)flags;
	ck_assert_int_eq(world.graphs++, 0);
	seen = (struct graph_seen){.is_made = true};
	*graph = (CUgraph)&seen;
	return CUDA_SUCCESS;
}

static CUresult graph_destroy(CUgraph graph)
{
	(void)graph;
	world.graphs--;
	return CUDA_SUCCESS;
}

/* Nodes are in a chain, so that the driver needs one stream for them. */
static CUresult add(CUgraphNode *out, const CUgraphNode *before, size_t count, const struct op *op)
{
	ck_assert_uint_eq(count, seen.count ? 1 : 0);
	ck_assert(!count || before[0] == (CUgraphNode)(uintptr_t)seen.count);
	ck_assert_int_lt(seen.count, GRAPH_MAX);
	seen.ops[seen.count++] = *op;
	*out = (CUgraphNode)(uintptr_t)seen.count;
	return CUDA_SUCCESS;
}

static CUresult add_copy(CUgraphNode *out, CUgraph graph, const CUgraphNode *before, size_t count,
                         const CUDA_MEMCPY3D *node, CUcontext context)
{
	bool is_of_host = node->srcMemoryType == CU_MEMORYTYPE_HOST;
	const struct op op = {.to = (char *)node->dstDevice,
	                      .from = is_of_host ? node->srcHost : (const void *)node->srcDevice,
	                      .to_pitch = node->dstPitch,
	                      .from_pitch = node->srcPitch,
	                      .width = node->WidthInBytes,
	                      .rows = node->Height};

	(void)graph;
	ck_assert_ptr_eq(context, (CUcontext)0x100);
	ck_assert_uint_eq(node->Depth, 1);
	ck_assert_uint_ge(node->dstPitch, node->WidthInBytes);
	ck_assert_uint_ge(node->srcPitch, node->WidthInBytes);
	return add(out, before, count, &op);
}

static CUresult add_function(CUgraphNode *out, CUgraph graph, const CUgraphNode *before,
                             size_t count, const CUDA_HOST_NODE_PARAMS *params)
{
	const struct op op = {.function = params->fn, .cookie = params->userData};

	(void)graph;
	return add(out, before, count, &op);
}

static CUresult instantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	(void)graph, (void)flags;
	if (world.refuses)
		return CUDA_ERROR_OUT_OF_MEMORY;
	world.executables++;
	*exec = (CUgraphExec)&seen;
	return CUDA_SUCCESS;
}

static CUresult launch(CUgraphExec exec, CUstream stream)
{
	(void)exec;
	world.launches++;
	for (int i = 0; i < seen.count; i++)
		enqueue(queue_of(stream), &seen.ops[i]);
	return CUDA_SUCCESS;
}

static CUresult exec_destroy(CUgraphExec exec)
{
	(void)exec;
	world.executables--;
	return CUDA_SUCCESS;
}

/* --- the model --- */

static void make_area(struct area *area, int stream, enum kind kind)
{
	struct address_range range = {.size = AREA, .kind = ADDRESS_OF_OWN, .owner = area};
	char *bytes = mmap(NULL, AREA + ARENA_UNIT, PROT_READ | PROT_WRITE,
	                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	ck_assert_ptr_ne(bytes, MAP_FAILED);
	bytes += ARENA_UNIT - (uintptr_t)bytes % ARENA_UNIT;
	area->bytes = bytes;
	area->expected = calloc(1, AREA);
	range.first = (uintptr_t)bytes;
	if (kind == MIXED)
		ck_assert_int_eq(address_map_add(&range), 0);
	for (int border = ARENA_UNIT; border < AREA; border += ARENA_UNIT)
		for (int at = border - EXTENT; at < border + EXTENT; at++)
			bytes[at] = area->expected[at] = (char)(at * 7 + stream + 3 * kind);
}

static void set_up(void)
{
	driver.cuPointerGetAttribute = attribute;
	driver.cuStreamQuery = query;
	driver.cuMemcpyAsync = copy_bytes;
	driver.cuMemcpy2DAsync_v2 = copy_2d;
	driver.cuGraphCreate = graph_create;
	driver.cuGraphDestroy = graph_destroy;
	driver.cuGraphAddMemcpyNode = add_copy;
	driver.cuGraphAddHostNode = add_function;
	driver.cuGraphInstantiateWithFlags = instantiate;
	driver.cuGraphLaunch = launch;
	driver.cuGraphExecDestroy = exec_destroy;
	for (int s = 0; s < STREAMS; s++) {
		for (int kind = 0; kind < KINDS; kind++)
			make_area(&areas[s][kind], s, kind);
		queues[s].is_held = true;
	}
}

/* Returns where an end of a copy is: so many bytes around a border of units. */
static size_t pick_place(size_t extent)
{
	size_t border = (1 + next(UNITS - 1)) * ARENA_UNIT;

	return border - next((uint32_t)(extent < EXTENT ? extent : EXTENT));
}

static size_t extent_of(const struct async_copy *copy, const struct async_end *end)
{
	return (copy->height - 1) * end->pitch + copy->width;
}

/* Makes up a copy in a stream: one that reads and writes other memory than its own. */
static void pick(struct async_copy *copy, int stream, enum kind *to, enum kind *from)
{
	bool is_rows = next(2);
	const struct area *own = areas[stream];

	*to = next(KINDS);
	*from = *to == MIXED ? PINNED + next(2) : MIXED;
	*copy = (struct async_copy){.width = 1 + next(is_rows ? 3000 : 90000),
	                            .height = is_rows ? 1 + next(20) : 1,
	                            .depth = 1,
	                            .stream = (CUstream)(uintptr_t)(stream + 1),
	                            .is_in_order = stream == 0};
	copy->to.pitch = copy->width + next(500);
	copy->from.pitch = copy->width + next(500);
	copy->to.address = (uintptr_t)own[*to].bytes + pick_place(extent_of(copy, &copy->to));
	copy->from.address = (uintptr_t)own[*from].bytes + pick_place(extent_of(copy, &copy->from));
}

/* Makes the copy in what is expected. */
static void expect(const struct async_copy *copy, int stream, enum kind to, enum kind from)
{
	const struct area *own = areas[stream];

	for (size_t row = 0; row < copy->height; row++)
		memmove(own[to].expected + (copy->to.address - (uintptr_t)own[to].bytes) +
		            row * copy->to.pitch,
		        own[from].expected + (copy->from.address - (uintptr_t)own[from].bytes) +
		            row * copy->from.pitch,
		        copy->width);
}

static bool has_spilled(const struct async_copy *copy, int stream, enum kind to)
{
	const struct async_end *end = to == MIXED ? &copy->to : &copy->from;
	size_t first = end->address - (uintptr_t)areas[stream][MIXED].bytes;

	for (size_t row = 0; row < copy->height; row++)
		for (size_t x = 0; x < copy->width; x += x + 1 < copy->width ? copy->width - 1 : 1)
			if (is_spilled[stream][(first + row * end->pitch + x) / ARENA_UNIT])
				return true;
	return false;
}

/* Makes one copy, which is ours if it would wait and need not. */
static void step(void)
{
	int stream = (int)next(STREAMS);
	struct queue *queue = &queues[stream];
	struct async_copy copy;
	enum kind to, from;
	CUresult result = CUDA_ERROR_UNKNOWN;
	bool is_ours, waits;
	int queued = queue->count;
	size_t size;

	pick(&copy, stream, &to, &from);
	size = copy.width * copy.height;
	waits = !copy.is_in_order && (to == PAGEABLE || (from == PAGEABLE && size > KNOWN));
	world.refuses = next(10) == 0;
	is_ours = async_copy(&copy, &result);
	ck_assert_int_eq(world.graphs + world.executables, 0);
	ck_assert_int_eq(is_ours, queue->is_held && !waits && !world.refuses &&
	                              has_spilled(&copy, stream, to));
	if (is_ours) {
		ck_assert_int_eq(result, CUDA_SUCCESS);
		expect(&copy, stream, to, from);
		/* The program changes at once what was taken along. */
		if (from == PAGEABLE && !copy.is_in_order) {
			size_t at = copy.from.address - (uintptr_t)areas[stream][from].bytes;

			areas[stream][from].bytes[at] ^= 1;
			areas[stream][from].expected[at] ^= 1;
		}
	} else {
		world.refused += world.refuses;
		ck_assert_int_eq(queue->count, queued); /* nothing of it is queued */
	}
}

static void release_some(bool all)
{
	for (bool left = true; left;) {
		left = false;
		for (int s = 0; s < STREAMS; s++) {
			struct queue *queue = &queues[s];

			if (queue->done < queue->count && (all || next(2)))
				carry_out(&queue->ops[queue->done++]);
			left = left || (all && queue->done < queue->count);
		}
	}
}

/* Copies lie around borders of units. */
static void expect_area(const struct area *area)
{
	for (size_t border = ARENA_UNIT; border < AREA; border += ARENA_UNIT)
		ck_assert_mem_eq(area->bytes + border - EXTENT, area->expected + border - EXTENT,
		                 2 * EXTENT);
}

START_TEST(copies_are_queued_and_never_wait)
{
	world.random = (uint32_t)_i * 2654435761u + 1;
	for (int s = 0; s < STREAMS; s++)
		for (int unit = 0; unit < UNITS; unit++)
			is_spilled[s][unit] = next(3);
	for (int i = 0; i < 60; i++) {
		queues[next(STREAMS)].is_held = next(8) != 0;
		for (int s = 0; s < STREAMS; s++) /* a stream that is not held has nothing to do */
			while (!queues[s].is_held && queues[s].done < queues[s].count)
				carry_out(&queues[s].ops[queues[s].done++]);
		step();
		release_some(false);
	}
	release_some(true);
	ck_assert_int_gt(world.launches, 0);
	for (int s = 0; s < STREAMS; s++)
		for (int kind = 0; kind < KINDS; kind++)
			expect_area(&areas[s][kind]);
}
END_TEST

/* Large copies are one node for each run of spilled memory, however many units it has. */
START_TEST(a_run_is_one_node)
{
	const struct area *own = areas[0];
	const struct async_copy copy = {.to = {.address = (uintptr_t)own[MIXED].bytes + 512},
	                                .from = {.address = (uintptr_t)own[PINNED].bytes},
	                                .width = 3 * ARENA_UNIT + 100,
	                                .height = 1,
	                                .depth = 1,
	                                .stream = (CUstream)1};
	CUresult result;

	is_spilled[0][0] = is_spilled[0][2] = is_spilled[0][3] = true;
	ck_assert(async_copy(&copy, &result));
	ck_assert_int_eq(seen.count, 2);
	ck_assert_uint_eq(seen.ops[0].width, ARENA_UNIT - 512);
	ck_assert_uint_eq(seen.ops[1].width, ARENA_UNIT + 612);
	release_some(true);
	ck_assert_mem_eq(own[MIXED].bytes + 512, own[PINNED].bytes, copy.width);
}
END_TEST

/* No address of the program is read that cannot be one: the driver refuses it. */
START_TEST(nothing_is_read_at_null)
{
	const struct async_copy copy = {.to = {.address = (uintptr_t)areas[0][MIXED].bytes},
	                                .width = 16,
	                                .height = 1,
	                                .depth = 1,
	                                .stream = (CUstream)1};
	CUresult result;

	is_spilled[0][0] = true;
	ck_assert(!async_copy(&copy, &result));
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("async");

	tcase_add_checked_fixture(tests, set_up, NULL);
	suite_add_worlds(tests, copies_are_queued_and_never_wait, WORLDS);
	tcase_add_test(tests, a_run_is_one_node);
	tcase_add_test(tests, nothing_is_read_at_null);
	return suite_run("async", tests);
}
