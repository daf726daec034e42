/* SPDX-License-Identifier: MIT */
/*
 * Heat: the rules of hot, warm and cold on a clock of the test's own, pointers that a scan finds in
 * random parameters, the spread of sampling, and the memory that graphs are credited with.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/memory/arena/arena.h"
#include "core/modules/placement/touch.h"
#include "core/modules/placement/parameters.h"
#include "core/registry/object.h"
#include "suite.h"

#define NODE ((const void *)0x40)
enum { UNITS = 1024, RUN = 4 /* units each */ };
#define BASE ((CUdeviceptr)0x7f1200000000)

/* --- the clock --- */

static uint64_t clock_ns = 1000000000;
#define MS ((uint64_t)1000000)
static bool precise; /* CLOCK_MONOTONIC too; else that is check's own */

int clock_gettime(clockid_t id, struct timespec *time)
{
	if (id != CLOCK_MONOTONIC_COARSE && (id != CLOCK_MONOTONIC || !precise))
		return (int)syscall(SYS_clock_gettime, id, time);
	time->tv_sec = (time_t)(clock_ns / 1000000000);
	time->tv_nsec = (long)(clock_ns % 1000000000);
	return 0;
}

static void work_for(uint64_t ms)
{
	for (; ms; ms--) {
		clock_ns += MS;
		heat_work();
	}
}

/* --- the arena: runs of four units, the last one free --- */

struct arena_range arena_ranges[DEVICE_MAX];
static struct unit units[UNITS];
static struct arena arena = {.base = BASE, .size = UNITS * ARENA_UNIT, .units = units};

struct arena *arena_at(CUdeviceptr address)
{
	return arena_ranges[1].base && address >= BASE && address < BASE + arena.size ? &arena
	                                                                              : NULL;
}

static CUdeviceptr run_at(unsigned int run)
{
	return BASE + (uint64_t)run * RUN * ARENA_UNIT;
}

static uint32_t touched(unsigned int run)
{
	return units[run * RUN].touched;
}

static enum heat heat_at(unsigned int run)
{
	return heat_of(touched(run), heat_now());
}

static void set_up(void)
{
	static struct placement_calls calls;

	for (unsigned int i = 0; i < UNITS; i++) {
		units[i].kind = i < UNITS - RUN ? UNIT_OF_ALLOCATION : UNIT_FREE;
		units[i].run = i / RUN * RUN;
	}
	arena_ranges[1].arena = &arena;
	arena_ranges[1].end = BASE + arena.size;
	arena_ranges[1].base = BASE;
	used_add_calls(&calls);
	touch_add_calls(&calls);
	parameters_add_calls(&calls);
	atomic_store(&placement_calls, &calls);
	heat_sample(HEAT_CLOSELY);
}

/* --- the driver: one function with the parameters below, kernels by odd handles --- */

static size_t sizes[64], parameter_count;
static unsigned long questions;
static CUresult refusal;

static CUresult info(size_t index, size_t *offset, size_t *size)
{
	questions++;
	if (refusal != CUDA_SUCCESS)
		return refusal;
	if (index >= parameter_count)
		return CUDA_ERROR_INVALID_VALUE;
	*offset = 0;
	*size = sizes[index];
	return CUDA_SUCCESS;
}

static CUresult function_info(CUfunction f, size_t index, size_t *offset, size_t *size)
{
	return (uintptr_t)f & 1 ? CUDA_ERROR_INVALID_HANDLE : info(index, offset, size);
}

static CUresult kernel_info(CUkernel k, size_t index, size_t *offset, size_t *size)
{
	return (uintptr_t)k & 1 ? info(index, offset, size) : CUDA_ERROR_INVALID_HANDLE;
}

struct driver driver = {.cuFuncGetParamInfo = function_info, .cuKernelGetParamInfo = kernel_info};

/*
 * The books know kernels and functions by their handles, but for one of which only the driver
 * knows.
 */
#define UNKNOWN ((CUfunction)0x5001)

struct resource *__wrap_context_find_object(const struct resource_type *type, uint64_t object);
struct resource *__wrap_context_find_object(const struct resource_type *type, uint64_t object)
{
	static struct resource known = {.references = 1};
	bool is_kernel = object & 1;

	if (object == (uintptr_t)UNKNOWN ||
	    type != (is_kernel ? &object_type_kernel : &object_type_function))
		return NULL;
	return resource_hold(&known);
}

#define FUNCTION ((CUfunction)0x1000)
#define OTHER    ((CUfunction)0x2000)
#define KERNEL   ((CUfunction)0x3001)

/* A launch with one pointer. */
static void launch(CUfunction function, CUdeviceptr address)
{
	void *parameters[] = {&address};

	sizes[0] = sizeof(address);
	parameter_count = 1;
	placement_tell(launched, function, parameters, NULL);
}

/* --- rules --- */

START_TEST(what_was_never_met_is_warm)
{
	work_for(100000);
	ck_assert_int_eq(heat_at(3), HEAT_WARM);
}
END_TEST

START_TEST(kernels_make_hot_and_then_cold)
{
	launch(FUNCTION, run_at(3) + 12345678 % (RUN * ARENA_UNIT));
	ck_assert_int_eq(heat_at(3), HEAT_HOT);
	ck_assert_int_eq(heat_at(2), HEAT_WARM);
	work_for(1900);
	ck_assert_int_eq(heat_at(3), HEAT_HOT);
	work_for(300);
	ck_assert_int_eq(heat_at(3), HEAT_COLD);
	launch(FUNCTION, run_at(3));
	ck_assert_int_eq(heat_at(3), HEAT_HOT);
}
END_TEST

/* A table on the device may lead there. What kernels use is worth more. */
START_TEST(copies_make_mild_but_never_cold)
{
	CUdeviceptr both[] = {run_at(3), run_at(4) + 1};

	placement_tell(copied, both, 2);
	ck_assert_int_eq(heat_at(3), HEAT_MILD);
	ck_assert_int_eq(heat_at(4), HEAT_MILD);
	launch(FUNCTION, run_at(4));
	placement_tell(copied, both, 2);
	ck_assert_int_eq(heat_at(3), HEAT_MILD);
	ck_assert_int_eq(heat_at(4), HEAT_HOT);
	ck_assert_int_gt(heat_at(4), heat_at(3));
	work_for(10000);
	ck_assert_int_eq(heat_at(3), HEAT_WARM);
	ck_assert_int_eq(heat_at(4), HEAT_COLD);
}
END_TEST

START_TEST(descriptors_keep_from_cooling)
{
	placement_tell(hide, run_at(3) + ARENA_UNIT);
	launch(FUNCTION, run_at(3));
	work_for(10000);
	ck_assert_int_eq(heat_at(3), HEAT_WARM);
}
END_TEST

START_TEST(nothing_is_cold_while_launches_are_blind)
{
	launch(FUNCTION, run_at(3));
	work_for(10000);
	ck_assert_int_eq(heat_at(3), HEAT_COLD);
	refusal = CUDA_ERROR_NOT_SUPPORTED;
	launch(OTHER, run_at(3));
	ck_assert_int_eq(heat_at(3), HEAT_WARM);
	work_for(10000);
	ck_assert_int_eq(heat_at(3), HEAT_COLD);
	placement_tell(launched_blindly);
	ck_assert_int_eq(heat_at(3), HEAT_WARM);
}
END_TEST

START_TEST(a_pause_cools_nothing)
{
	uint32_t before;

	launch(FUNCTION, run_at(3));
	before = heat_now();
	for (int i = 0; i < 10; i++) {
		clock_ns += 3600000 * MS;
		ck_assert_int_eq(heat_at(3), HEAT_HOT);
	}
	ck_assert_uint_le(heat_now() - before, HEAT_GAP);
	heat_work();
	clock_ns += 3600000 * MS;
	ck_assert_uint_le(heat_now() - before, 2 * HEAT_GAP);
}
END_TEST

START_TEST(time_never_steps_back_and_is_never_zero)
{
	uint32_t before = 0;
	unsigned int wrong = 0;

	/* Past the wrap after 49 days at work. */
	for (uint64_t i = 0; i < (uint64_t)5 << 30; i += HEAT_GAP) {
		uint32_t now;

		clock_ns += HEAT_GAP * MS;
		now = heat_work();
		wrong += now == 0 || now & HEAT_USE || (int32_t)(now - before) < 0;
		before = now;
	}
	ck_assert_uint_eq(wrong, 0);
	ck_assert_uint_eq(heat_age(before, before - 8), 0); /* touched after the time was taken */
	ck_assert_int_eq(heat_of(before - 3000, before), HEAT_WARM);
	ck_assert_int_eq(heat_of((before - 3000) | HEAT_LAUNCHED, before), HEAT_COLD);
}
END_TEST

/* A step of four seconds: all of it stays hot, though most was met longer ago than 2 s. */
START_TEST(the_window_follows_slow_steps)
{
	enum { RUNS = 100, STEP_MS = 4000 };
	unsigned int hot = 0;

	for (int step = 0; step < 20; step++) {
		for (unsigned int run = 0; run < RUNS; run++) {
			launch(FUNCTION, run_at(run));
			work_for(STEP_MS / RUNS);
		}
	}
	for (unsigned int run = 0; run < RUNS; run++)
		hot += heat_at(run) == HEAT_HOT;
	ck_assert_uint_eq(hot, RUNS);
	/* Of what is used no more it is still noticed, */
	work_for(66000);
	ck_assert_int_eq(heat_at(0), HEAT_COLD);
	/* and quick steps shrink it again. */
	for (int step = 0; step < 100; step++) {
		for (unsigned int run = 0; run < RUNS; run++)
			launch(FUNCTION, run_at(run));
		work_for(40);
	}
	work_for(2500);
	ck_assert_int_eq(heat_at(0), HEAT_COLD);
}
END_TEST

/*
 * Another part of the memory every 100 steps: what the last 100 used is hot, the others are cold.
 */
START_TEST(a_working_set_that_shifts)
{
	enum { SETS = 10, RUNS = 10, STEP_MS = 50 };

	for (unsigned int phase = 0; phase < 3 * SETS; phase++) {
		for (int step = 0; step < 100; step++) {
			for (unsigned int run = 0; run < RUNS; run++)
				launch(FUNCTION, run_at(phase % SETS * RUNS + run));
			work_for(STEP_MS);
		}
		for (unsigned int run = 0; phase >= SETS && run < SETS * RUNS; run++) {
			bool is_in_use = run / RUNS == phase % SETS;
			bool was_just = run / RUNS == (phase + SETS - 1) % SETS;

			if (!was_just)
				ck_assert_int_eq(heat_at(run), is_in_use ? HEAT_HOT : HEAT_COLD);
		}
	}
}
END_TEST

/* --- scanning --- */

START_TEST(random_parameters)
{
	unsigned int seed = 4711, wrong = 0;

	for (int round = 0; round < 20000; round++) {
		static unsigned char memory[64][128];
		bool wanted[UNITS / RUN] = {false};
		void *parameters[64];

		for (unsigned int i = 0; i < UNITS; i++)
			units[i].touched = 0;
		parameter_count = (size_t)(rand_r(&seed) % 64);
		for (size_t i = 0; i < parameter_count; i++) {
			/* Values may stand anywhere. */
			unsigned char *value = memory[i] + rand_r(&seed) % 8;

			sizes[i] = (size_t)(1 + rand_r(&seed) % 100);
			parameters[i] = value;
			for (size_t k = 0; k < sizes[i]; k++)
				value[k] = (unsigned char)rand_r(&seed);
			for (size_t k = 0; k + 8 <= sizes[i]; k += 8) {
				unsigned int run = (unsigned int)rand_r(&seed) % (UNITS / RUN);
				CUdeviceptr address =
				    run_at(run) + (unsigned int)rand_r(&seed) % (RUN * ARENA_UNIT);

				if (rand_r(&seed) % 4)
					continue;
				memcpy(value + k, &address, sizeof(address));
				wanted[run] |= run != UNITS / RUN - 1; /* it is free */
			}
		}
		placement_tell(forget_functions);
		clock_ns += 100 * MS;
		placement_tell(launched, rand_r(&seed) % 2 ? FUNCTION : KERNEL, parameters, NULL);
		for (unsigned int run = 0; run < UNITS / RUN; run++)
			wrong += (touched(run) != 0) != wanted[run];
	}
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(the_edges_of_the_arena)
{
	const CUdeviceptr values[] = {BASE - 1, BASE + arena.size, 0, UINT64_MAX,
	                              BASE + arena.size - 1};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		launch(FUNCTION, values[i]);
	for (unsigned int run = 0; run < UNITS / RUN; run++)
		ck_assert_uint_eq(touched(run), 0);
	launch(FUNCTION, BASE);
	launch(FUNCTION, run_at(2) - 1);
	ck_assert_uint_ne(touched(0), 0);
	ck_assert_uint_ne(touched(1), 0);
	ck_assert_uint_eq(touched(2), 0);
}
END_TEST

START_TEST(odd_forms_do_no_harm)
{
	CUdeviceptr buffer[3] = {1, run_at(5), run_at(6)};
	size_t size = 16;
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
	                 CU_LAUNCH_PARAM_END};
	void *nothing[] = {CU_LAUNCH_PARAM_END};
	void *no_buffer[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
	void *unknown[] = {(void *)77, buffer, CU_LAUNCH_PARAM_END};
	void *null[] = {NULL};

	placement_tell(launched, FUNCTION, NULL, NULL);
	placement_tell(launched, NULL, NULL, NULL);
	placement_tell(launched, FUNCTION, NULL, nothing);
	placement_tell(launched, FUNCTION, NULL, no_buffer);
	placement_tell(launched, FUNCTION, NULL, unknown);
	sizes[0] = 8;
	parameter_count = 1;
	placement_tell(launched, FUNCTION, null, NULL);
	placement_tell(copied, NULL, 0);
	placement_tell(launched, FUNCTION, NULL, extra);
	ck_assert_uint_ne(touched(5), 0);
	ck_assert_uint_eq(touched(6), 0); /* behind the size */
	arena_ranges[1].base = arena_ranges[1].end = 0;
	units[5 * RUN].touched = 0;
	placement_tell(launched, FUNCTION, NULL, extra);
	ck_assert_uint_eq(touched(5), 0);
}
END_TEST

START_TEST(the_driver_is_asked_once)
{
	unsigned long once;

	launch(FUNCTION, run_at(1));
	once = questions;
	for (int i = 0; i < 1000; i++)
		launch(FUNCTION, run_at(1));
	ck_assert_uint_eq(questions, once);
	for (uintptr_t f = 1; f <= 1000; f++)
		launch((CUfunction)(f << 4), run_at(1));
	once = questions;
	for (uintptr_t f = 1; f <= 1000; f++)
		launch((CUfunction)(f << 4), run_at(1));
	ck_assert_uint_eq(questions, once);
	/*
	 * A driver may not survive a kernel's handle as a function's: what nobody knows is not
	 * asked.
	 */
	once = questions;
	launch(UNKNOWN, run_at(5));
	ck_assert_uint_eq(questions, once);
	ck_assert_int_eq(heat_at(5), HEAT_WARM);
	/* Another function by the same handle. */
	placement_tell(forget_functions);
	launch(FUNCTION, run_at(1));
	ck_assert_uint_gt(questions, once);
}
END_TEST

/* --- runs that are a program's own pool --- */

enum { PART = ARENA_PART_UNITS, PARTS = 20 };

/* All units are one run, of twenty parts and a half. */
static void one_large_run(void)
{
	for (unsigned int i = 0; i < UNITS; i++) {
		units[i] = (struct unit){.kind = UNIT_FREE};
		if (i < PARTS * PART + PART / 2)
			units[i].kind = UNIT_OF_ALLOCATION;
	}
}

static CUdeviceptr part_at(unsigned int part)
{
	return BASE + part * HEAT_PART;
}

static enum heat heat_of_part(unsigned int part)
{
	return heat_of(units[placement_ask(0, unit, &arena, part * PART + 1)].touched, heat_now());
}

static void use_for_long(CUdeviceptr address)
{
	for (int i = 0; i < 400; i++) {
		work_for(100);
		launch(FUNCTION, address);
	}
}

/* One tensor, used by one address: all of it is used, however large it is. */
START_TEST(one_address_is_of_all_of_a_run)
{
	one_large_run();
	use_for_long(part_at(3) + 4096);
	for (unsigned int part = 0; part <= PARTS; part++)
		ck_assert_int_eq(heat_of_part(part), HEAT_HOT);
	ck_assert_uint_eq(placement_ask(0, unit, &arena, 5 * PART), 0);
}
END_TEST

/* Two addresses: what one leads to ends where the other begins, and behind the last with a part. */
START_TEST(a_pool_is_known_by_its_parts)
{
	one_large_run();
	launch(FUNCTION, part_at(2));
	launch(FUNCTION, part_at(12) + ARENA_UNIT);
	launch(FUNCTION, part_at(6));
	use_for_long(part_at(6) + 256);
	for (unsigned int part = 0; part < 6; part++) /* nobody met the others */
		ck_assert_int_eq(heat_of_part(part), part == 2 ? HEAT_COLD : HEAT_WARM);
	for (unsigned int part = 6; part < 12; part++)
		ck_assert_int_eq(heat_of_part(part), HEAT_HOT);
	ck_assert_int_eq(heat_of_part(12), HEAT_COLD);
	use_for_long(part_at(12));
	ck_assert_int_eq(heat_of_part(6), HEAT_COLD);
	ck_assert_int_eq(heat_of_part(12), HEAT_HOT);
	ck_assert_int_eq(heat_of_part(13), HEAT_HOT);
	ck_assert_int_eq(heat_of_part(14), HEAT_WARM);
}
END_TEST

/* What a graph was captured with before it showed to be a pool is touched when that is launched. */
START_TEST(graphs_of_a_pool)
{
	const void *graph = &arena;
	CUdeviceptr used[8];
	uint64_t addresses[2] = {part_at(4), part_at(9)};
	void *parameters[] = {&addresses[0], &addresses[1]};

	one_large_run();
	sizes[0] = sizes[1] = sizeof(addresses[0]);
	parameter_count = 2;
	placement_tell(graph_kernel, graph, NODE, FUNCTION, parameters, NULL, false);
	launch(OTHER, part_at(0));
	for (int i = 0; i < 400; i++) {
		work_for(100);
		placement_tell(graph_launched, graph);
	}
	for (unsigned int part = 4; part < 9; part++)
		ck_assert_int_eq(heat_of_part(part), HEAT_HOT);
	ck_assert_int_eq(heat_of_part(9), HEAT_HOT);
	ck_assert_int_ne(heat_of_part(0), HEAT_HOT);
	ck_assert_int_gt(heat_uses_of(graph, NULL, NULL, NULL, used, 8), 1);
	ck_assert_uint_eq(used[0], part_at(4));
	placement_tell(graph_forget, graph);
}
END_TEST

/* The run that was there before says nothing of the next, nor does what is small become a pool. */
START_TEST(a_small_run_is_known_as_a_whole)
{
	launch(FUNCTION, run_at(7));
	launch(FUNCTION, run_at(7) + (RUN - 1) * ARENA_UNIT);
	ck_assert_uint_eq(placement_ask(0, unit, &arena, 7 * RUN + 3), 7 * RUN);
	ck_assert_uint_eq(units[7 * RUN].parts, 0);
}
END_TEST

/* --- sampling --- */

START_TEST(where_nothing_is_sampled_nothing_is_due)
{
	heat_sample(HEAT_OFF);
	for (int i = 0; i < 10000; i++)
		ck_assert(!heat_is_due());
}
END_TEST

/* A step of `length` quick launches, over and over: how often each is looked at. */
static void check_spread(enum heat_sampling sampling, unsigned int length)
{
	enum { STEPS = 64000 };
	unsigned int seen[64] = {0}, wanted = STEPS / sampling;

	heat_sample(sampling);
	for (unsigned int i = 0; i < STEPS * length; i++) {
		clock_ns += 20;
		if (!heat_is_due())
			continue;
		seen[i % length]++;
		placement_tell(copied, NULL, 0);
	}
	for (unsigned int i = 0; i < length; i++) {
		ck_assert_uint_gt(seen[i], wanted * 3 / 4);
		ck_assert_uint_lt(seen[i], wanted * 5 / 4);
	}
}

START_TEST(each_launch_of_a_step_is_met_alike)
{
	precise = true;
	check_spread(HEAT_CLOSELY, 16);
	check_spread(HEAT_CLOSELY, 7);
	check_spread(HEAT_THINLY, 64);
	check_spread(HEAT_THINLY, 48);
	precise = false;
}
END_TEST

START_TEST(who_launches_seldom_is_always_looked_at)
{
	unsigned int seen = 0;

	precise = true;
	heat_sample(HEAT_THINLY);
	for (int i = 0; i < 1000; i++) {
		clock_ns += 10 * MS;
		if (heat_is_due()) {
			placement_tell(copied, NULL, 0);
			seen++;
		}
	}
	ck_assert_uint_gt(seen, 900);
	/* Bursts after long work: some of each, not all. */
	seen = 0;
	for (int step = 0; step < 100; step++) {
		clock_ns += 1000 * MS;
		for (int i = 0; i < 100; i++) {
			if (heat_is_due()) {
				placement_tell(copied, NULL, 0);
				seen++;
			}
		}
	}
	ck_assert_uint_gt(seen, 3000);
	ck_assert_uint_lt(seen, 9000);
	/* In the long run looks take a share of the time, whatever it is between launches. */
	for (uint64_t between = 1000; between <= 10000000; between *= 10) {
		uint64_t wanted = between < 100000 / HEAT_THINLY ? 1000000 / HEAT_THINLY
		                  : between < 100000             ? 1000000 / (100000 / between)
		                                                 : 1000000;

		seen = 0;
		for (int i = 0; i < 1000000; i++) {
			clock_ns += between;
			if (heat_is_due()) {
				placement_tell(copied, NULL, 0);
				seen++;
			}
		}
		ck_assert_uint_gt(seen, wanted / 2);
		ck_assert_uint_lt(seen, wanted * 2);
	}
	precise = false;
}
END_TEST

START_TEST(while_a_capture_is_active_all_is_looked_at)
{
	placement_tell(copied, NULL, 0);
	capture_began(CU_STREAM_LEGACY);
	for (int i = 0; i < 1000; i++)
		ck_assert(heat_is_due());
	capture_is_over(CU_STREAM_LEGACY);
}
END_TEST

/* --- graphs --- */

#define GRAPH  ((const void *)0x10)
#define CLONE  ((const void *)0x20)
#define EXEC   ((const void *)0x30)
#define STREAM ((CUstream)0x40)

static void cool_down(void)
{
	work_for(10000);
	for (unsigned int run = 0; run < UNITS / RUN; run++)
		ck_assert_int_ne(heat_at(run), HEAT_HOT);
}

static unsigned int hot_runs(void)
{
	unsigned int hot = 0;

	for (unsigned int run = 0; run < UNITS / RUN; run++)
		hot += heat_at(run) >= HEAT_MILD;
	return hot;
}

START_TEST(a_launch_of_a_captured_graph_touches_what_was_captured)
{
	CUdeviceptr copied = run_at(9);

	launch(FUNCTION, run_at(1));
	capture_began(STREAM);
	launch(FUNCTION, run_at(7));
	launch(FUNCTION, run_at(7) + ARENA_UNIT);
	launch(FUNCTION, run_at(8));
	placement_tell(copied, &copied, 1);
	capture_is_over(STREAM);
	placement_tell(graph_capture_ended, GRAPH);
	placement_tell(graph_add, EXEC, GRAPH);
	placement_tell(graph_forget, GRAPH);
	cool_down();
	placement_tell(graph_launched, EXEC);
	ck_assert_int_eq(heat_at(7), HEAT_HOT);
	ck_assert_int_eq(heat_at(8), HEAT_HOT);
	ck_assert_int_eq(heat_at(9), HEAT_MILD); /* it is copied */
	ck_assert_uint_eq(hot_runs(), 3);
	/* The next capture begins with nothing. */
	capture_began(STREAM);
	capture_is_over(STREAM);
	placement_tell(graph_capture_ended, CLONE);
	cool_down();
	placement_tell(graph_launched, CLONE);
	placement_tell(graph_launched, GRAPH);
	ck_assert_uint_eq(hot_runs(), 0);
	placement_tell(graph_forget, EXEC);
	placement_tell(graph_launched, EXEC);
	ck_assert_uint_eq(hot_runs(), 0);
}
END_TEST

START_TEST(nodes_clones_and_updates)
{
	CUdeviceptr address = run_at(20), used[8];
	void *parameters[] = {&address};

	sizes[0] = sizeof(address);
	parameter_count = 1;
	placement_tell(graph_kernel, GRAPH, NODE, FUNCTION, parameters, NULL, false);
	placement_tell(graph_address, GRAPH, run_at(21) + 5);
	placement_tell(graph_address, GRAPH, 5);
	placement_tell(graph_add, CLONE, GRAPH);
	placement_tell(graph_add, EXEC, CLONE);
	address = run_at(22);
	placement_tell(graph_kernel, EXEC, NODE, FUNCTION, parameters, NULL, true);
	placement_tell(graph_add, EXEC, (const void *)0x999);
	placement_tell(graph_add, EXEC, EXEC);
	/* The changed kernel is the one that was there, with other memory; not in the graph. */
	ck_assert_int_ge(heat_uses_of(EXEC, NULL, NULL, NULL, used, 8), 3);
	ck_assert_uint_eq(heat_given(used, 8), 2);
	ck_assert_uint_eq(used[0], run_at(22));
	ck_assert_uint_eq(used[1], 0);
	ck_assert_int_ge(heat_uses_of(GRAPH, NULL, NULL, NULL, used, 8), 2);
	ck_assert_uint_eq(heat_given(used, 8), 2);
	ck_assert_uint_eq(used[0], run_at(20));
	ck_assert_uint_eq(used[1], 0);
	ck_assert_uint_eq(heat_given(used, 1), 0);
	cool_down();
	placement_tell(graph_launched, EXEC);
	ck_assert_uint_eq(hot_runs(), 3);
	address = run_at(23);
	placement_tell(graph_forget, GRAPH);
	placement_tell(graph_kernel, GRAPH, NODE, FUNCTION, parameters, NULL, false);
	placement_tell(graph_replace, EXEC, GRAPH);
	cool_down();
	placement_tell(graph_launched, EXEC);
	ck_assert_uint_eq(hot_runs(), 1);
	ck_assert_int_eq(heat_at(23), HEAT_HOT);
	/* A node of whichever graph. */
	address = run_at(24);
	placement_tell(graph_kernel, HEAT_ANY_GRAPH, NODE, FUNCTION, parameters, NULL, true);
	cool_down();
	placement_tell(graph_launched, EXEC);
	ck_assert_uint_eq(hot_runs(), 2);
	placement_tell(graph_forget, EXEC);
	placement_tell(graph_forget, GRAPH);
	placement_tell(graph_forget, CLONE);
}
END_TEST

/* With a kernel in it that nobody can read. */
START_TEST(a_graph_may_be_blind)
{
	launch(FUNCTION, run_at(3));
	refusal = CUDA_ERROR_NOT_SUPPORTED;
	capture_began(STREAM);
	launch(OTHER, run_at(4));
	capture_is_over(STREAM);
	placement_tell(graph_capture_ended, GRAPH);
	placement_tell(graph_add, EXEC, GRAPH);
	cool_down();
	ck_assert_int_eq(heat_at(3), HEAT_COLD);
	placement_tell(graph_launched, EXEC);
	ck_assert_int_eq(heat_at(3), HEAT_WARM);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("heat");

	tcase_set_timeout(tests, 120);
	tcase_add_checked_fixture(tests, set_up, NULL);
	tcase_add_test(tests, what_was_never_met_is_warm);
	tcase_add_test(tests, kernels_make_hot_and_then_cold);
	tcase_add_test(tests, copies_make_mild_but_never_cold);
	tcase_add_test(tests, descriptors_keep_from_cooling);
	tcase_add_test(tests, nothing_is_cold_while_launches_are_blind);
	tcase_add_test(tests, a_pause_cools_nothing);
	tcase_add_test(tests, time_never_steps_back_and_is_never_zero);
	tcase_add_test(tests, the_window_follows_slow_steps);
	tcase_add_test(tests, a_working_set_that_shifts);
	tcase_add_test(tests, random_parameters);
	tcase_add_test(tests, the_edges_of_the_arena);
	tcase_add_test(tests, odd_forms_do_no_harm);
	tcase_add_test(tests, the_driver_is_asked_once);
	tcase_add_test(tests, one_address_is_of_all_of_a_run);
	tcase_add_test(tests, a_pool_is_known_by_its_parts);
	tcase_add_test(tests, graphs_of_a_pool);
	tcase_add_test(tests, a_small_run_is_known_as_a_whole);
	tcase_add_test(tests, where_nothing_is_sampled_nothing_is_due);
	tcase_add_test(tests, each_launch_of_a_step_is_met_alike);
	tcase_add_test(tests, who_launches_seldom_is_always_looked_at);
	tcase_add_test(tests, while_a_capture_is_active_all_is_looked_at);
	tcase_add_test(tests, a_launch_of_a_captured_graph_touches_what_was_captured);
	tcase_add_test(tests, nodes_clones_and_updates);
	tcase_add_test(tests, a_graph_may_be_blind);
	return suite_run("heat", tests);
}
