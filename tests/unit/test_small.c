/* SPDX-License-Identifier: MIT */
/*
 * Small allocations without an arena. Eight threads take and give blocks in random order, under a
 * limit that changes, while contexts go. At each call of the driver the job is charged at least as
 * much as the driver holds. No two blocks overlap, and nothing is left in the end.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/unit/devices.h"
#include "core/cuda/context.h"
#include "core/cuda/idle.h"
#include "core/memory/arena/small.h"
#include "fake_driver.h"
#include "calls.h"
#include "suite.h"
#include "test_job.h"

#define MIB    ((size_t)1 << 20)
#define BASE   ((CUdeviceptr)1 << 32)
#define BEYOND ((CUdeviceptr)1 << 56) /* the address map has no such addresses */
#define SHARED ((CUcontext)(uintptr_t)0x1000)

enum { THREADS = 8, SHARING = 5, TURNS = 2500, HOLD = 48, SLOTS = 32, STEP = 512, DEPTH = 8 };

static struct device_set devices;
static struct device *gpu;

/* --- a driver with 32 units of 2 MiB, which gives their addresses away again at once --- */

static pthread_mutex_t driver_lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext slot_of[SLOTS]; /* the context that has it; NULL: free */
static uint64_t held;
static int units_made;
static CUdeviceptr first_address;
static _Thread_local CUcontext stack[DEPTH];
static _Thread_local int depth;
static _Thread_local uint64_t seed;
static _Atomic int uncharged, misused, overlapping, served, refused;

static uint64_t any(uint64_t below)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (seed >> 33) % below;
}

/* With the lock held. */
static void note_held(void)
{
	if (device_charged(gpu, SEGMENT_ON_DEVICE) < held)
		uncharged++;
}

static CUresult allocate_unit(CUdeviceptr *address, size_t size)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	size_t slot = any(SLOTS);

	if (size > SLAB_BYTES)
		return result;
	pthread_mutex_lock(&driver_lock);
	for (int i = 0; i < SLOTS && slot_of[slot]; i++)
		slot = (slot + 1) % SLOTS;
	if (!slot_of[slot]) {
		slot_of[slot] = stack[depth];
		held += SLAB_BYTES;
		units_made++;
		note_held();
		*address = first_address + slot * SLAB_BYTES;
		result = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&driver_lock);
	return result;
}

static CUresult free_unit(CUdeviceptr address)
{
	size_t slot = (address - first_address) / SLAB_BYTES;
	bool is_there;

	pthread_mutex_lock(&driver_lock);
	is_there =
	    address >= first_address && slot < SLOTS && address % SLAB_BYTES == 0 && slot_of[slot];
	if (is_there) {
		note_held();
		slot_of[slot] = NULL;
		held -= SLAB_BYTES;
	}
	pthread_mutex_unlock(&driver_lock);
	misused += !is_there;
	return is_there ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void destroy_units(CUcontext context)
{
	pthread_mutex_lock(&driver_lock);
	note_held();
	for (int i = 0; i < SLOTS; i++) {
		if (slot_of[i] == context) {
			slot_of[i] = NULL;
			held -= SLAB_BYTES;
		}
	}
	pthread_mutex_unlock(&driver_lock);
}

static CUresult get_current(CUcontext *context)
{
	*context = stack[depth];
	return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
	stack[++depth] = context;
	return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *context)
{
	*context = stack[depth--];
	return CUDA_SUCCESS;
}

static CUresult is_idle(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

static CUresult synchronize(void)
{
	return CUDA_SUCCESS;
}

/* --- the job --- */

static void set_limit(uint64_t limit)
{
	const struct config_gpu settings = {
	    .memory = limit, .host_memory = CONFIG_UNLIMITED, .share = 100000, .spill = SPILL_OFF};

	device_apply(gpu, &settings);
}

static void start(CUdeviceptr first)
{
	first_address = first;
	seed = 1;
	stack[depth] = SHARED;
	fake_driver_reset(256 * MIB);
	driver.cuMemAlloc_v2 = allocate_unit;
	driver.cuMemFree_v2 = free_unit;
	driver.cuCtxGetCurrent = get_current;
	driver.cuCtxPushCurrent_v2 = push;
	driver.cuCtxPopCurrent_v2 = pop;
	driver.cuCtxSynchronize = synchronize;
	driver.cuStreamQuery = is_idle;
	driver.cuStreamSynchronize = is_idle;
	ck_assert_int_eq(device_set_fill(&devices, test_job(), "test"), 0);
	gpu = &devices.device[0];
	device_set_start_contexts(&devices);
	vmem_start(&devices, false);
	vmem_count_exactly();
	set_limit(8 * MIB);
}

static void ck_assert_nothing_left(void)
{
	ck_assert_uint_eq(held, 0);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 0);
	ck_assert_uint_eq(device_spare(gpu, SEGMENT_ON_DEVICE), 0);
	ck_assert_uint_eq(gpu->statistics->allocations, 0);
	ck_assert_int_eq(uncharged + misused + overlapping, 0);
}

START_TEST(a_slab_that_cannot_be_entered_is_no_refusal)
{
	CUdeviceptr address[4];

	start(BEYOND);
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(allocate(4096, &address[i]), CUDA_SUCCESS);
		ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), held);
	}
	ck_assert_uint_eq(held, 8 * MIB);
	ck_assert_int_eq(allocate(4096, &address[0]), CUDA_ERROR_OUT_OF_MEMORY);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(release(address[i]), CUDA_SUCCESS);
	ck_assert_nothing_left();
}
END_TEST

static CUresult is_broken(CUstream stream)
{
	(void)stream;
	return CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* Where a context may be broken the driver is asked by a byte, for which it takes 2 MiB. */
START_TEST(a_question_to_the_driver_is_charged_first)
{
	CUdeviceptr address;

	start(BASE);
	driver.cuStreamQuery = is_broken;
	idle_note(CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(allocate(4096, &address), CUDA_SUCCESS);
	ck_assert_int_eq(units_made, 2);
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
	ck_assert_uint_eq(small_trim(gpu), 2 * MIB);
	/* Without room for 2 MiB the driver is asked for more than the limit has. */
	set_limit(1 * MIB);
	ck_assert_int_eq(allocate(4096, &address), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(units_made, 2);
	ck_assert_nothing_left();
}
END_TEST

/* --- threads --- */

static _Atomic unsigned char taken[SLOTS * SLAB_BYTES / STEP];

struct block {
	CUdeviceptr address;
	size_t size;
};

static void mark(const struct block *block, unsigned char is_taken)
{
	size_t first = (block->address - BASE) / STEP;
	size_t last = (block->address + block->size - 1 - BASE) / STEP;

	for (size_t i = first; i <= last; i++)
		overlapping += atomic_exchange(&taken[i], is_taken) == is_taken;
}

static void give(struct block *block)
{
	mark(block, 0);
	misused += release(block->address) != CUDA_SUCCESS;
	block->size = 0;
}

static void take(struct block *block)
{
	size_t size = any(8) ? 1 + any((size_t)1 << (9 + any(12))) : 1 + any(2 * MIB);

	if (allocate(size, &block->address) != CUDA_SUCCESS) {
		refused++;
		return;
	}
	served++;
	block->size = size;
	mark(block, 1);
}

/* The program destroys its context, with all that is allocated in it, and makes another one. */
static void lose_context(struct block *blocks)
{
	CUcontext own = stack[depth];
	struct context leaving;

	for (int i = 0; i < HOLD; i++) {
		if (blocks[i].size)
			mark(&blocks[i], 0);
		blocks[i].size = 0;
	}
	if (!context_leave(own, &leaving))
		return;
	destroy_units(own);
	if (context_gone(&leaving)) {
		vmem_forget_context(&leaving);
		context_forget(own);
	}
}

static void *run(void *cookie)
{
	uintptr_t number = (uintptr_t)cookie;
	struct block blocks[HOLD] = {0};

	seed = 100 + number;
	stack[0] = number < SHARING ? SHARED : (CUcontext)(0x2000 + number);
	for (int turn = 0; turn < TURNS; turn++) {
		struct block *block = &blocks[any(HOLD)];

		if (block->size)
			give(block);
		else
			take(block);
		if (number == 0 && turn % 16 == 0)
			set_limit(any(24) * 2 * MIB);
		if (number == 1 && any(16) == 0)
			small_trim(gpu);
		if (number >= SHARING && any(100) == 0)
			lose_context(blocks);
	}
	for (int i = 0; i < HOLD; i++) {
		if (blocks[i].size)
			give(&blocks[i]);
	}
	if (number >= SHARING)
		lose_context(blocks);
	return NULL;
}

START_TEST(what_the_driver_holds_is_charged_at_every_moment)
{
	pthread_t threads[THREADS];

	start(BASE);
	for (uintptr_t i = 0; i < THREADS; i++)
		ck_assert_int_eq(pthread_create(&threads[i], NULL, run, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	small_trim(gpu);
	ck_assert_nothing_left();
	for (size_t i = 0; i < sizeof(taken); i++)
		ck_assert_int_eq(taken[i], 0);
	ck_assert_int_gt(served, TURNS);
	ck_assert_int_gt(refused, 0);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("small");

	tcase_set_timeout(tests, 120);
	tcase_add_test(tests, a_slab_that_cannot_be_entered_is_no_refusal);
	tcase_add_test(tests, a_question_to_the_driver_is_charged_first);
	tcase_add_test(tests, what_the_driver_holds_is_charged_at_every_moment);
	return suite_run("small", tests);
}
