/* SPDX-License-Identifier: MIT */
/*
 * A request for memory: how long all that it waits for may last together, and within which limit it
 * is served in the end.
 */
#include <check.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "tests/unit/devices.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/memory/arena/arena.h"
#include "core/memory/alloc/managed.h"
#include "core/memory/alloc/own_memory.h"
#include "core/memory/own/own.h"
#include "core/memory/move/plan.h"
#include "core/memory/move/movable.h"
#include "core/memory/move/mover.h"
#include "core/memory/alloc/allocate.h"
#include "core/cuda/idle.h"
#include "core/state/layout.h"
#include "fake_driver.h"
#include "calls.h"
#include "jumping_clock.h"
#include "state_directory.h"

#define MIB ((size_t)1 << 20)

enum { FREED_MS = 100, DRAIN_MS = 2000 };

static struct device_set devices;
static struct device *gpu;
static struct segment *segment;

static void set_limit(uint64_t limit, uint64_t host)
{
	struct config_gpu settings = {.memory = limit,
	                              .host_memory = host,
	                              .share = 100000,
	                              .spill = SPILL_AUTO,
	                              .deferred_free = true,
	                              .demote_deadline = FREED_MS * 1000000ull};

	device_apply(gpu, &settings);
}

/* Virtual memory management and all else that is asked for. */
static CUresult has_all(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	*value = attribute != CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
	return CUDA_SUCCESS;
}

/* Several mappings at once. */
static CUresult unmap(CUdeviceptr address, size_t size)
{
	for (int i = fake.count; i-- > 0;) {
		if (fake.live[i].kind == FAKE_MAPPED && fake.live[i].id - address < size)
			fake.live[i] = fake.live[--fake.count];
	}
	return CUDA_SUCCESS;
}

/*
 * Work that is in flight until it has been asked for so often; what happens when it is asked for
 * the n-th time.
 */
static struct {
	int asked, ends, n;
	void (*at_nth)(void);
} work;

static CUresult make_event(CUevent *event, unsigned int flags)
{
	(void)flags;
	*event = (CUevent)(uintptr_t)1;
	return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
	(void)event;
	return CUDA_SUCCESS;
}

static CUresult record(CUcontext context, CUevent event)
{
	(void)context, (void)event;
	return CUDA_SUCCESS;
}

static CUresult query(CUevent event)
{
	(void)event;
	if (++work.asked == work.n)
		work.at_nth();
	return work.asked > work.ends ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

static CUresult stream_is_idle(CUstream stream)
{
	(void)stream;
	return CUDA_SUCCESS;
}

/* Allocations may lie on both tiers: a copy over such a border is no fault. */
static CUresult make_stream(CUstream *stream, unsigned int flags)
{
	(void)flags;
	*stream = (CUstream)(uintptr_t)1;
	return CUDA_SUCCESS;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream)
{
	(void)to, (void)from, (void)size, (void)stream;
	return CUDA_SUCCESS;
}

static const struct movable_kind *const kinds[] = {&movable_chunks, &movable_own, NULL};

static void start(uint64_t limit, uint64_t host)
{
	fake_driver_reset(1024 * MIB);
	driver.cuDeviceGetAttribute = has_all;
	driver.cuMemUnmap = unmap;
	driver.cuEventCreate = make_event;
	driver.cuEventDestroy_v2 = destroy_event;
	driver.cuEventQuery = query;
	driver.cuCtxRecordEvent = record;
	driver.cuStreamQuery = stream_is_idle;
	driver.cuStreamCreate = make_stream;
	driver.cuStreamSynchronize = stream_is_idle;
	driver.cuStreamDestroy_v2 = stream_is_idle;
	driver.cuMemcpyAsync = copy;
	memset(&work, 0, sizeof(work));
	segment_drain_ns = 1000000000000; /* what is dead stays so; the machine may be slow */
	ck_assert_int_eq(segment_join("job", NULL, NULL, &segment, NULL, 0), 0);
	ck_assert_int_eq(device_set_fill(&devices, segment, "job"), 0);
	gpu = &devices.device[0];
	device_set_start_contexts(&devices);
	set_limit(limit, host);
	vmem_start(&devices, true);
	plan_kinds(kinds);
	mover_stop(); /* nothing is moved here but by hand */
	ck_assert_ptr_nonnull(arena_of(gpu));
	jumping_start();
}

struct holding {
	uint64_t device, host;
};

static void hold(void *cookie)
{
	const struct holding *holding = cookie;
	struct segment *own;

	if (segment_join("job", NULL, NULL, &own, NULL, 0) != 0 ||
	    segment_reserve(own, gpu->index, SEGMENT_ON_DEVICE, holding->device, UINT64_MAX) ||
	    segment_reserve(own, gpu->index, SEGMENT_ON_HOST, holding->host, UINT64_MAX))
		_exit(1);
}

/* A process of the job that held so much was killed. */
static void die_with(uint64_t device, uint64_t host)
{
	struct holding holding = {device, host};

	child_kill(child_start(hold, &holding));
	segment_poll(segment);
	ck_assert_uint_eq(segment_draining(segment, gpu->index, SEGMENT_ON_DEVICE), device);
}

/* Each chunk waited for what drains, and each of them twice. */
START_TEST(what_drains_is_waited_for_once_a_request)
{
	CUdeviceptr address;

	start(128 * MIB, CONFIG_UNLIMITED);
	die_with(104 * MIB, 0);
	ck_assert_int_eq(allocate(64 * MIB, &address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake.device_bytes, 24 * MIB);
	ck_assert_int_eq(jumping.naps, jumps_in_ms(DRAIN_MS + FREED_MS));
	/* Another request has its own. */
	ck_assert_int_eq(allocate(64 * MIB, &address), CUDA_SUCCESS);
	ck_assert_int_eq(jumping.naps, 2 * jumps_in_ms(DRAIN_MS + FREED_MS));
}
END_TEST

/* Refused in the end, it was tried twice, on both tiers. */
START_TEST(who_is_refused_has_waited_once)
{
	CUdeviceptr address;

	start(128 * MIB, 64 * MIB);
	die_with(104 * MIB, 60 * MIB);
	ck_assert_int_eq(allocate(64 * MIB, &address), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(fake.device_bytes, 0);
	ck_assert_int_eq(jumping.naps, jumps_in_ms(DRAIN_MS + FREED_MS));
}
END_TEST

START_TEST(blocks_and_the_programs_own_memory_wait_once)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	start(128 * MIB, CONFIG_UNLIMITED);
	die_with(128 * MIB, 0);
	ck_assert_int_eq(allocate(512, &address), CUDA_SUCCESS);
	ck_assert_int_eq(jumping.naps, jumps_in_ms(DRAIN_MS + FREED_MS));
	ck_assert_int_eq(
	    own_memory_create(&devices, &handle, 8 * MIB, &prop, 0, false, driver.cuMemCreate),
	    CUDA_SUCCESS);
	ck_assert_int_eq(jumping.naps, 2 * jumps_in_ms(DRAIN_MS + FREED_MS));
	ck_assert_uint_eq(fake.device_bytes, 0);
}
END_TEST

/* What the living hold is not waited for. */
START_TEST(where_the_living_are_in_the_way_nobody_waits)
{
	CUdeviceptr address;

	start(128 * MIB, CONFIG_UNLIMITED);
	ck_assert_int_eq(allocate(128 * MIB, &address), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(64 * MIB, &address), CUDA_SUCCESS);
	ck_assert_int_eq(jumping.naps, 0);
}
END_TEST

static void is_drained(void)
{
	if (jumping.naps == 3)
		slot_of(segment->file, 1)->drained_ns = 0;
}

START_TEST(what_has_drained_is_used)
{
	CUdeviceptr address;

	start(128 * MIB, CONFIG_UNLIMITED);
	die_with(104 * MIB, 0);
	jumping.at_nap = is_drained;
	ck_assert_int_eq(allocate(64 * MIB, &address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake.device_bytes, 64 * MIB);
	ck_assert_int_eq(jumping.naps, 3);
}
END_TEST

/* What was freed is waited for as long as was said, however long naps last. */
START_TEST(what_was_freed_is_waited_for_as_long_as_was_said)
{
	CUdeviceptr address;

	start(64 * MIB, CONFIG_UNLIMITED);
	ck_assert_int_eq(allocate(40 * MIB, &address), CUDA_SUCCESS);
	work.ends = 1000000;
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(40 * MIB, &address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake.device_bytes, 64 * MIB);
	ck_assert_int_eq(jumping.naps, jumps_in_ms(FREED_MS));
}
END_TEST

/* --- the limit --- */

#define LOWER (30 * MIB)

static void lower(void)
{
	set_limit(LOWER, CONFIG_UNLIMITED);
}

/* Nothing is ever above a limit that was said to be held. */
static void ck_assert_held_is_held(void)
{
	uint64_t used = device_charged(gpu, SEGMENT_ON_DEVICE);

	ck_assert_uint_eq(device_verdict(gpu).limit, LOWER);
	ck_assert_uint_ge(device_verdict(gpu).limit_held, used);
	ck_assert(used <= LOWER || device_verdict(gpu).held != HELD_NONE);
	ck_assert_uint_le(fake.device_bytes, used);
}

/*
 * The limit is lowered while the second half waits for room; when that comes the lower one is held.
 */
START_TEST(a_limit_lowered_while_room_is_made_counts)
{
	CUdeviceptr address;

	start(64 * MIB, CONFIG_UNLIMITED);
	ck_assert_int_eq(allocate(40 * MIB, &address), CUDA_SUCCESS);
	work.ends = 3;
	work.n = 2; /* an allocation looks before it begins */
	work.at_nth = lower;
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(40 * MIB, &address), CUDA_SUCCESS);
	ck_assert_held_is_held();
	ck_assert_uint_eq(device_verdict(gpu).held, HELD_NONE);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 16 * MIB);
}
END_TEST

START_TEST(a_limit_lowered_while_room_is_made_counts_for_the_programs_own_memory)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	start(64 * MIB, CONFIG_UNLIMITED);
	ck_assert_int_eq(allocate(40 * MIB, &address), CUDA_SUCCESS);
	work.ends = 3;
	work.n = 1;
	work.at_nth = lower;
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
	ck_assert_int_eq(
	    own_memory_create(&devices, &handle, 40 * MIB, &prop, 0, false, driver.cuMemCreate),
	    CUDA_SUCCESS);
	ck_assert_held_is_held();
	ck_assert_uint_eq(device_verdict(gpu).held, HELD_NONE);
	ck_assert_uint_eq(fake.device_bytes, 0);
}
END_TEST

/* --- what the mover brings back --- */

static int creations_left;
static bool is_evicted;

static CUresult create_and_lower(CUmemGenericAllocationHandle *handle, size_t size,
                                 const CUmemAllocationProp *prop, unsigned long long flags)
{
	if (prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE && --creations_left == 0) {
		struct config_gpu settings = terms_of(gpu).settings;

		settings.memory = LOWER;
		settings.evict = is_evicted;
		device_apply(gpu, &settings);
		if (!is_evicted)
			ck_assert_uint_eq(device_verdict(gpu).held, HELD_NONE);
	}
	return fake_create(handle, size, prop, flags);
}

/* A raise, and the next limit before all that is to come back has come. */
START_TEST(a_limit_lowered_while_memory_comes_back_counts)
{
	static struct plan plan;
	struct choice choice;
	struct terms terms;
	CUdeviceptr address;

	is_evicted = _i;
	start(0, CONFIG_UNLIMITED);
	ck_assert_int_eq(allocate(64 * MIB, &address), CUDA_SUCCESS);
	set_limit(64 * MIB, CONFIG_UNLIMITED);
	terms = terms_of(gpu);
	plan = (struct plan){.terms = &terms, .to = SEGMENT_ON_DEVICE};
	plan_choose(gpu, SEGMENT_ON_HOST, 0, &choice);
	creations_left = 2;
	driver.cuMemCreate = create_and_lower;
	plan_fill(&plan, gpu, &choice, 64 * MIB);
	while (plan_make(&plan, gpu))
		;
	ck_assert_held_is_held();
	/* Evicted, it brings nothing more; else what the limit has room for. */
	ck_assert_uint_eq(fake.device_bytes, (is_evicted ? 16 : 24) * MIB);
	plan_cut(&plan, gpu, 0);
}
END_TEST

/* --- what a thread holds while it waits --- */

/*
 * It makes room and so comes to the gate: with a lock that others want it would end here
 * (core/base/lock.h).
 */
START_TEST(who_makes_a_slab_holds_no_lock)
{
	CUdeviceptr address;

	start(4 * MIB, CONFIG_UNLIMITED);
	ck_assert_int_eq(allocate(4 * MIB, &address), CUDA_SUCCESS);
	work.ends = 3;
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(512, &address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake.device_bytes, 2 * MIB);
}
END_TEST

START_TEST(who_brings_managed_memory_holds_no_lock)
{
	CUdeviceptr address, managed;

	start(8 * MIB, CONFIG_UNLIMITED);
	ck_assert_int_eq(allocate(8 * MIB, &address), CUDA_SUCCESS);
	ck_assert_int_eq(driver.cuMemAllocManaged(&managed, 8 * MIB, 0), CUDA_SUCCESS);
	managed_made(managed, 8 * MIB);
	ck_assert_uint_eq(managed_may_come(managed, 8 * MIB), 0);
	work.ends = work.asked + 3;
	ck_assert_int_eq(release(address), CUDA_SUCCESS);
	ck_assert_uint_eq(managed_may_come(managed, 8 * MIB), 8 * MIB);
}
END_TEST

static sem_t is_making, may_make;
static _Atomic bool is_first_maker;

/* The first who makes memory takes its time. */
static CUresult create_slowly(CUmemGenericAllocationHandle *handle, size_t size,
                              const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult result = fake_create(handle, size, prop, flags);

	if (atomic_exchange(&is_first_maker, false)) {
		sem_post(&is_making);
		while (sem_wait(&may_make) != 0)
			;
	}
	return result;
}

static pthread_t maker;
static CUdeviceptr made;

static void *make_block(void *cookie)
{
	(void)cookie;
	ck_assert_int_eq(allocate(512, &made), CUDA_SUCCESS);
	return NULL;
}

static void start_maker(void)
{
	start(64 * MIB, CONFIG_UNLIMITED);
	sem_init(&is_making, 0, 0);
	sem_init(&may_make, 0, 0);
	is_first_maker = true;
	driver.cuMemCreate = create_slowly;
	pthread_create(&maker, NULL, make_block, NULL);
	while (sem_wait(&is_making) != 0)
		;
}

static void end_maker(void)
{
	sem_post(&may_make);
	pthread_join(maker, NULL);
}

static void end_maker_at_third_nap(void)
{
	if (jumping.naps == 3)
		end_maker();
}

START_TEST(a_slab_that_another_makes_is_waited_for)
{
	CUdeviceptr address;

	start_maker();
	jumping.at_nap = end_maker_at_third_nap;
	ck_assert_int_eq(allocate(512, &address), CUDA_SUCCESS);
	ck_assert_int_eq(jumping.naps, 3);
	ck_assert_uint_eq(fake.device_bytes, 2 * MIB);
	ck_assert_uint_eq(address / (2 * MIB), made / (2 * MIB));
	/* Who wants another class of blocks does not wait. */
	ck_assert_int_eq(allocate(100000, &address), CUDA_SUCCESS);
	ck_assert_int_eq(jumping.naps, 3);
}
END_TEST

/* Whoever made it was stopped, or waits longer than this request may. */
START_TEST(who_has_waited_long_enough_makes_a_slab_of_his_own)
{
	CUdeviceptr address;

	start_maker();
	ck_assert_int_eq(allocate(512, &address), CUDA_SUCCESS);
	ck_assert_int_eq(jumping.naps, jumps_in_ms(DRAIN_MS + FREED_MS));
	ck_assert_uint_eq(fake.device_bytes, 4 * MIB);
	end_maker();
	ck_assert_uint_ne(address / (2 * MIB), made / (2 * MIB));
	/* Both serve. */
	ck_assert_int_eq(allocate(512, &address), CUDA_SUCCESS);
	ck_assert_uint_eq(fake.device_bytes, 4 * MIB);
}
END_TEST

static int questions;

static CUresult count_question(CUstream stream)
{
	(void)stream;
	questions++;
	return CUDA_SUCCESS;
}

static CUresult say_broken(CUstream stream)
{
	(void)stream;
	questions++;
	return CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult allocate_broken(CUdeviceptr *address, size_t size)
{
	(void)address, (void)size;
	return CUDA_ERROR_ILLEGAL_ADDRESS;
}

/*
 * An arena's memory needs no context: whether that is broken the driver is asked, and not each
 * time.
 */
START_TEST(the_driver_is_asked_seldom_and_where_a_wait_has_failed)
{
	CUresult (*allocate_well)(CUdeviceptr *, size_t);
	CUdeviceptr p;

	start(64 * MIB, 64 * MIB);
	driver.cuStreamQuery = count_question;
	questions = 0;
	for (int i = 0; i < 1000; i++) {
		ck_assert_int_eq(allocate(4096, &p), CUDA_SUCCESS);
		ck_assert_int_eq(release(p), CUDA_SUCCESS);
	}
	ck_assert_int_lt(questions, 500); /* once in a tick, of which no machine has so many here */

	driver.cuStreamQuery = say_broken;
	allocate_well = driver.cuMemAlloc_v2;
	driver.cuMemAlloc_v2 = allocate_broken;
	idle_note(CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(allocate(4096, &p), CUDA_ERROR_ILLEGAL_ADDRESS);
	ck_assert_int_eq(allocate(4096, &p), CUDA_ERROR_ILLEGAL_ADDRESS);
	/* It was a stream's that is gone, say: all is well. */
	driver.cuStreamQuery = count_question;
	driver.cuMemAlloc_v2 = allocate_well;
	ck_assert_int_eq(allocate(4096, &p), CUDA_SUCCESS);
	ck_assert(!idle_has_failed);
	ck_assert_int_eq(release(p), CUDA_SUCCESS);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("request");
	TCase *tests = tcase_create("request");

	tcase_set_timeout(tests, 60);
	tcase_add_checked_fixture(tests, state_directory_make, state_directory_remove);
	tcase_add_test(tests, what_drains_is_waited_for_once_a_request);
	tcase_add_test(tests, who_is_refused_has_waited_once);
	tcase_add_test(tests, blocks_and_the_programs_own_memory_wait_once);
	tcase_add_test(tests, where_the_living_are_in_the_way_nobody_waits);
	tcase_add_test(tests, what_has_drained_is_used);
	tcase_add_test(tests, what_was_freed_is_waited_for_as_long_as_was_said);
	tcase_add_test(tests, a_limit_lowered_while_room_is_made_counts);
	tcase_add_test(tests,
	               a_limit_lowered_while_room_is_made_counts_for_the_programs_own_memory);
	tcase_add_loop_test(tests, a_limit_lowered_while_memory_comes_back_counts, 0, 2);
	tcase_add_test(tests, who_makes_a_slab_holds_no_lock);
	tcase_add_test(tests, who_brings_managed_memory_holds_no_lock);
	tcase_add_test(tests, a_slab_that_another_makes_is_waited_for);
	tcase_add_test(tests, who_has_waited_long_enough_makes_a_slab_of_his_own);
	tcase_add_test(tests, the_driver_is_asked_seldom_and_where_a_wait_has_failed);
	suite_add_tcase(suite, tests);
	return run_suite(suite);
}
