/*
 * What Spillway's own books cost, as "MEASURE NS" lines: a passage of the gate, and closing it; heat, for a launch on
 * average while nothing is spilled and while something is, and for one that is looked at; and with 1 thousand, 64
 * thousand and 1 million of them alive, looking up, making and deleting a resource, and giving back a run of addresses
 * or a block of a slab, any of them, and taking another.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/gate.h"
#include "core/memory/address_space.h"
#include "core/memory/arena.h"
#include "core/memory/heat.h"
#include "core/memory/slab.h"
#include "core/registry/object.h"
#include "core/registry/registry.h"

enum { ROUNDS = 21, PER_ROUND = 20000, STEP = 512, MOST = 1000000, RUN_MOST = 4 };

static struct registry *registry;
static uint64_t live;

static struct address_space space;
static struct run {
	uint32_t first, units;
} runs[MOST];

static struct slabs slabs;
static struct block {
	struct slab *slab;
	uint32_t offset;
} blocks[MOST];

/* --- heat: an arena of one run, and a kernel of eight parameters that lead there --- */

enum { PARAMETERS = 8 };

static struct unit unit = {.kind = UNIT_OF_ALLOCATION};
static struct arena arena = {.base = (CUdeviceptr)1 << 40, .size = ARENA_UNIT, .units = &unit};
struct arena_range arena_ranges[DEVICE_MAX];

struct arena *arena_at(CUdeviceptr address)
{
	return address - arena.base < arena.size ? &arena : NULL;
}

static CUresult parameter_info(CUfunction function, size_t index, size_t *offset, size_t *size)
{
	(void)function;
	*offset = index * sizeof(CUdeviceptr);
	*size = sizeof(CUdeviceptr);
	return index < PARAMETERS ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct driver driver = {.cuFuncGetParamInfo = parameter_info};

static void look_at_launch(uint64_t i)
{
	CUdeviceptr address = arena.base + i % ARENA_UNIT;
	void *parameters[PARAMETERS] = {&address, &address, &address, &address,
	                                &address, &address, &address, &address};

	heat_launched((CUfunction)&unit, parameters, NULL);
}

static void sample_launch(uint64_t i)
{
	if (heat_is_due())
		look_at_launch(i);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* One of those alive, in no order. */
static uint64_t some(uint64_t i)
{
	return (i * 0x9e3779b97f4a7c15u >> 20) % live;
}

/* Addresses as a driver hands them out. */
static uint64_t some_object(uint64_t i)
{
	return some(i) * STEP + STEP;
}

static void pass_gate(uint64_t i)
{
	(void)i;
	gate_enter();
	__asm__ volatile("" ::: "memory");
	gate_leave();
}

/* By a program of one thread, which is outside. */
static void close_gate(uint64_t i)
{
	(void)i;
	if (!gate_hold(1000000000, 1000000000) || !gate_seize())
		abort();
	gate_open();
}

static void look_up(uint64_t i)
{
	struct resource *r =
	    registry_lookup_object(registry, NULL, &object_type_event, some_object(i));

	if (!r)
		abort();
	resource_release(r);
}

static void make_and_delete(uint64_t i)
{
	const void *object = (void *)((live + 1 + i) * STEP);

	if (object_track(registry, NULL, &object_type_event, object) != 0)
		abort();
	registry_delete_object(registry, NULL, &object_type_event, (uintptr_t)object);
}

static void take_run(struct run *run, uint64_t i)
{
	run->units = (uint32_t)(i % RUN_MOST) + 1;
	run->first = address_space_take(&space, run->units, i % RUN_MOST == RUN_MOST - 1 ? 4 : 1);
	if (run->first == ADDRESS_NONE)
		abort();
}

static void give_and_take_run(uint64_t i)
{
	struct run *run = &runs[some(i)];

	address_space_give(&space, run->first, run->units);
	take_run(run, i);
}

static void take_block(struct block *block, uint64_t i)
{
	unsigned int class = (unsigned int)(i % SLAB_CLASSES / 2); /* up to 28 KiB */

	block->slab = slab_with_room(&slabs, class);
	if (!block->slab)
		block->slab = slab_create(&slabs, class);
	if (!block->slab)
		abort();
	block->offset = slab_take(&slabs, block->slab, block);
}

static void give_block(struct block *block)
{
	if (slab_give(&slabs, block->slab, block->offset))
		slab_destroy(&slabs, block->slab);
}

static void give_and_take_block(uint64_t i)
{
	struct block *block = &blocks[some(i)];

	give_block(block);
	take_block(block, i);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median over rounds: one preempted round does not count. */
static void measure(const char *name, void (*operation)(uint64_t i))
{
	double rounds[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		double start = now_ns();

		for (uint64_t i = 0; i < PER_ROUND; i++)
			operation(i);
		rounds[round] = (now_ns() - start) / PER_ROUND;
	}
	qsort(rounds, ROUNDS, sizeof(*rounds), ascending);
	printf("%s %.2f\n", name, rounds[ROUNDS / 2]);
}

int main(void)
{
	static const struct {
		uint64_t alive;
		const char *look_up, *make, *run, *block;
	} sizes[] = {{1000, "lookup_1k", "create_delete_1k", "run_1k", "block_1k"},
	             {64000, "lookup_64k", "create_delete_64k", "run_64k", "block_64k"},
	             {MOST, "lookup_1M", "create_delete_1M", "run_1M", "block_1M"}};

	registry = registry_create("bench", 1, 0);
	if (!registry || address_space_open(&space, MOST * RUN_MOST) != 0)
		return 1;
	gate_start();
	measure("gate_passage", pass_gate);
	measure("gate_closure", close_gate);
	arena_ranges[0] = (struct arena_range){arena.base, arena.base + arena.size, &arena};
	heat_sample(HEAT_THINLY);
	measure("heat_launch", sample_launch);
	heat_sample(HEAT_CLOSELY);
	measure("heat_launch_spilled", sample_launch);
	measure("heat_look", look_at_launch);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		for (; live < sizes[s].alive; live++) {
			if (object_track(registry, NULL, &object_type_event,
			                 (void *)((live + 1) * STEP)) != 0)
				return 1;
			take_run(&runs[live], live);
			take_block(&blocks[live], live);
		}
		measure(sizes[s].look_up, look_up);
		measure(sizes[s].make, make_and_delete);
		measure(sizes[s].run, give_and_take_run);
		measure(sizes[s].block, give_and_take_block);
	}
	while (live)
		give_block(&blocks[--live]);
	address_space_close(&space);
	registry_destroy(registry);
	return 0;
}
