/* SPDX-License-Identifier: MIT */
/*
 * The cost of Spillway's own books, as "MEASURE NS" lines. It measures a passage of the gate, and
 * closing it; an empty group of actions, and one of two that do nothing; heat, for a launch on
 * average while nothing is spilled and while something is, and for one that is looked at; the end
 * of a step, where nothing was made within it and where something was; noting an event where no
 * ring is, in a ring, and in one that another thread writes to all the time; and with 1 thousand,
 * 64 thousand and 1 million of them alive, looking up (alone, and among many), making and deleting
 * a resource, and giving back a run of addresses or a block of a slab, any of them, and taking
 * another; steps of the program. Last, "resource_bytes BYTES": the bytes of one of a million
 * resources, the heap's part included.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/deadline.h"
#include "core/cuda/gate.h"
#include "core/memory/arena/address_space.h"
#include "core/memory/arena/arena.h"
#include "core/modules/placement/touch.h"
#include "core/memory/arena/slab.h"
#include "core/modules/steps/step.h"
#include "core/registry/actions.h"
#include "core/registry/object.h"
#include "core/registry/registry.h"
#include "core/registry/step_container.h"
#include "core/rings/ring.h"
#include "core/state/segment.h"

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

static struct placement_calls calls;
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

	placement_tell(launched, (CUfunction)&unit, parameters, NULL);
}

static void sample_launch(uint64_t i)
{
	if (heat_is_due())
		look_at_launch(i);
}

/* --- steps of so many launches, of half as many functions --- */

enum { LEARNING = 2000000 };

static struct step_detector *detector;
static struct step ended_step;
static uint64_t launches_of_step, launch_number;

static void detect(uint64_t i)
{
	uint64_t number = launch_number++ % launches_of_step;

	(void)i;
	step_launch(detector, number / 2 * 256, number, launch_number * 5000, &ended_step);
}

static void detect_nothing(uint64_t i)
{
	(void)i;
	launch_number++;
	step_launch(detector,
	            (launch_number * launch_number * 0x9e3779b97f4a7c15u >> 40) % 100 * 256, 0,
	            launch_number * 5000, &ended_step);
}

static void measure(const char *name, void (*operation)(uint64_t i));

/* After it was learnt what a step is, or that there is none. */
static void measure_steps(const char *name, uint64_t launches)
{
	void (*operation)(uint64_t i) = launches ? detect : detect_nothing;

	detector = step_create();
	if (!detector)
		abort();
	launches_of_step = launches;
	ended_step = (struct step){0};
	for (uint64_t i = 0; i < LEARNING; i++)
		operation(i);
	if (!ended_step.number != !launches)
		abort();
	measure(name, operation);
	free(detector);
}

/* Returns this thread's own time, so that other programs count less. */
static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
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

static void note_event(uint64_t i)
{
	event_note(.kind = EVENT_burst, .begin_ns = i + 1, .duration_ns = 7, .a = i);
}

static _Atomic bool other_ends;

static void *note_events(void *unused)
{
	for (uint64_t i = 0; !other_ends; i++)
		note_event(i);
	return unused;
}

static void run_group(uint64_t i)
{
	actions_run(ACTION_PRE_LAUNCH, &i);
}

static int do_nothing(void *cookie, void *subject)
{
	(void)cookie;
	(void)subject;
	return CUDA_SUCCESS;
}

static void look_up(uint64_t i)
{
	struct resource *r =
	    registry_lookup_object(registry, NULL, &object_type_event, some_object(i));

	if (!r)
		abort();
	resource_release(r);
}

/* Looks up one of those, among all, that are used again and again. */
static void look_up_recent(uint64_t i)
{
	look_up(i % 1000);
}

static void make_and_delete(uint64_t i)
{
	const void *object = (void *)((live + 1 + i) * STEP);

	if (object_track(registry, NULL, &object_type_event, object) != 0)
		abort();
	registry_delete_object(registry, NULL, &object_type_event, (uintptr_t)object);
}

/* A step in which nothing was made, and one in which something was. */
static void end_empty_step(uint64_t i)
{
	struct step_container step;

	step_container_begin(&step, registry, i);
	step_container_end(&step);
}

static void record_destroy(struct resource *record)
{
	free(record);
}

static const struct resource_type record_type = {.name = "step_statistics",
                                                 .destroy = record_destroy};

static struct resource *make_record(void *unused)
{
	struct resource *record = malloc(sizeof(*record));

	(void)unused;
	if (record)
		resource_init(record, &record_type);
	return record;
}

static void end_step(uint64_t i)
{
	struct step_container step;
	struct resource *record;

	step_container_begin(&step, registry, i);
	record = step_container_lookup_or_create(&step, &record_type, "record", make_record, NULL);
	if (!record)
		abort();
	resource_release(record);
	step_container_end(&step);
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

static void measure_events(void)
{
	struct segment *segment;
	struct ring *ring;
	char message[512];
	pthread_t other;

	measure("event_no_ring", note_event);
	if (segment_join("bench-books", NULL, NULL, &segment, message, sizeof(message)) != 0 ||
	    ring_create(segment, &ring, message, sizeof(message)) != 0) {
		fprintf(stderr, "%s\n", message);
		exit(1);
	}
	atomic_store(&event_ring, ring);
	measure("event", note_event);
	if (pthread_create(&other, NULL, note_events, NULL) != 0)
		abort();
	measure("event_two_threads", note_event);
	other_ends = true;
	pthread_join(other, NULL);
	atomic_store(&event_ring, NULL);
	segment_leave(segment);
	(void)segment_remove("bench-books");
}

/* Returns the bytes of the heap: large tables are mapped, and are in hblkhd. */
static size_t heap_bytes(void)
{
	struct mallinfo2 heap = mallinfo2();

	return heap.uordblks + heap.hblkhd;
}

static void measure_bytes(void)
{
	struct registry *measured = registry_create("bench", 1, 0);
	size_t before = heap_bytes();

	for (uint64_t i = 1; i <= MOST; i++)
		if (object_track(measured, NULL, &object_type_event, (void *)(i * STEP)) != 0)
			abort();
	printf("resource_bytes %.1f\n", (double)(heap_bytes() - before) / MOST);
	registry_destroy(measured);
}

/*
 * Holds the gate as a copy window that finds work under way does: so long as was said, and for how
 * long it really is.
 */
static void measure_held(void)
{
	enum { HELD_ROUNDS = 21 };
	const uint64_t said_ns = 5000000, look_ns = 100000, expiry_ns = 20000000;
	double rounds[HELD_ROUNDS];

	for (int i = 0; i < HELD_ROUNDS; i++) {
		uint64_t began = clock_now();
		struct deadline until = DEADLINE_IN(said_ns);

		if (!gate_hold(look_ns, expiry_ns))
			exit(1);
		while (deadline_nap(&until, look_ns))
			;
		gate_open();
		rounds[i] = (double)(clock_now() - began);
	}
	qsort(rounds, HELD_ROUNDS, sizeof(*rounds), ascending);
	printf("gate_said_5ms %.2f\n", (double)said_ns);
	printf("gate_held_5ms %.2f\n", rounds[HELD_ROUNDS / 2]);
}

int main(void)
{
	static const struct {
		uint64_t alive;
		const char *look_up, *look_up_recent, *make, *run, *block;
	} sizes[] = {
	    {1000, "lookup_1k", "lookup_recent_1k", "create_delete_1k", "run_1k", "block_1k"},
	    {64000, "lookup_64k", "lookup_recent_64k", "create_delete_64k", "run_64k", "block_64k"},
	    {MOST, "lookup_1M", "lookup_recent_1M", "create_delete_1M", "run_1M", "block_1M"}};

	registry = registry_create("bench", 1, 0);
	if (!registry || address_space_open(&space, MOST * RUN_MOST) != 0)
		return 1;
	gate_start();
	measure("gate_passage", pass_gate);
	measure("gate_copy_window", close_gate);
	measure_held();
	measure("actions_none", run_group);
	if (action_add(ACTION_PRE_LAUNCH,
	               &(struct action){ACTION_STATISTICS, "a", do_nothing, NULL}) ||
	    action_add(ACTION_PRE_LAUNCH,
	               &(struct action){ACTION_RESOURCES, "b", do_nothing, NULL}))
		return 1;
	measure("actions_two", run_group);
	arena_ranges[0] = (struct arena_range){arena.base, arena.base + arena.size, &arena};
	used_add_calls(&calls);
	atomic_store(&placement_calls, &calls);
	heat_sample(HEAT_THINLY);
	measure("heat_launch", sample_launch);
	heat_sample(HEAT_CLOSELY);
	measure("heat_launch_spilled", sample_launch);
	measure("heat_look", look_at_launch);
	measure("step_end_empty", end_empty_step);
	measure("step_end", end_step);
	measure_steps("step_launch_1", 1);
	measure_steps("step_launch_14", 14);
	measure_steps("step_launch_300", 300);
	measure_steps("step_launch_none", 0);
	measure_events();
	for (size_t s = 0; s < sizeof(sizes) / sizeof(*sizes); s++) {
		for (; live < sizes[s].alive; live++) {
			if (object_track(registry, NULL, &object_type_event,
			                 (void *)((live + 1) * STEP)) != 0)
				return 1;
			take_run(&runs[live], live);
			take_block(&blocks[live], live);
		}
		measure(sizes[s].look_up, look_up);
		measure(sizes[s].look_up_recent, look_up_recent);
		measure(sizes[s].make, make_and_delete);
		measure(sizes[s].run, give_and_take_run);
		measure(sizes[s].block, give_and_take_block);
	}
	measure_bytes();
	while (live)
		give_block(&blocks[--live]);
	registry_destroy(registry);
	return 0;
}
