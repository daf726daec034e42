/* SPDX-License-Identifier: MIT */
/*
 * The program's physical memory: handles of ours, the memory that can be moved, and the mover's
 * view of it.
 */
#include <check.h>
#include <stdlib.h>

#include "tests/unit/devices.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/arena/arena.h"
#include "core/memory/arena/elastic.h"
#include "core/memory/arena/heat.h"
#include "core/memory/move/movable.h"
#include "core/memory/alloc/own_memory.h"
#include "core/memory/own/own.h"
#include "core/memory/move/mover.h"
#include "core/memory/alloc/allocate.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"
#include "fake_driver.h"
#include "suite.h"
#include "test_job.h"

#define MIB ((size_t)1 << 20)

enum { RESERVED_MIB = 512 };

static struct device_set devices;
static struct device *gpu;
static CUdeviceptr base; /* of reserved addresses */

static const CUmemAccessDesc read_write = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

/* Virtual memory management and all else that is asked for. */
static CUresult has_all(int *value, CUdevice_attribute attribute, CUdevice device)
{
	(void)device;
	*value = attribute != CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
	return CUDA_SUCCESS;
}

static void start(void)
{
	struct config_gpu settings = {
	    .memory = 256 * MIB, .host_memory = 256 * MIB, .share = 100000, .spill = SPILL_AUTO};

	fake_driver_reset(256 * MIB);
	driver.cuDeviceGetAttribute = has_all;
	ck_assert_int_eq(device_set_fill(&devices, test_job(), "test"), 0);
	gpu = &devices.device[0];
	device_set_start_contexts(&devices);
	device_apply(gpu, &settings);
	vmem_start(&devices, true);
	mover_stop(); /* the mover's part is done here */
	ck_assert_ptr_nonnull(arena_of(gpu));
	ck_assert_int_eq(driver.cuMemAddressReserve(&base, RESERVED_MIB * MIB, 0, 0, 0),
	                 CUDA_SUCCESS);
}

static CUmemGenericAllocationHandle create(size_t size, int types)
{
	CUmemAllocationProp prop = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	    .requestedHandleTypes = (CUmemAllocationHandleType)types,
	};
	CUmemGenericAllocationHandle handle;

	ck_assert_int_eq(
	    own_memory_create(&devices, &handle, size, &prop, 0, false, driver.cuMemCreate),
	    CUDA_SUCCESS);
	return handle;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
	CUresult result;

	ck_assert(own_release(handle, &result));
	return result;
}

static CUmemGenericAllocationHandle driver_handle(CUmemGenericAllocationHandle handle)
{
	ck_assert(own_translate(&handle));
	ck_assert_ptr_nonnull(fake_find(FAKE_PHYSICAL, handle));
	return handle;
}

/* As the driver is told elsewhere. */
static CUdeviceptr map(size_t at_mib, size_t size, CUmemGenericAllocationHandle handle)
{
	own_mapped(base + at_mib * MIB, size, handle);
	own_accessed(base + at_mib * MIB, size, &read_write, 1);
	return base + at_mib * MIB;
}

static uint64_t stays(void)
{
	return atomic_load(&gpu->ledger->pinned);
}

static struct move look(CUdeviceptr address, bool expected)
{
	struct move move = {.kind = &movable_own, .address = address};

	movable_own.acquire(gpu);
	ck_assert_int_eq(movable_own.look(gpu, &move, false), expected);
	movable_own.release(gpu);
	return move;
}

/* Does what the mover does, without the driver's part. */
static void move_to(CUdeviceptr address, enum segment_tier tier)
{
	struct move move = look(address, true);

	ck_assert_int_eq(tier == SEGMENT_ON_DEVICE ? device_charge_taken(gpu, move.size)
	                                           : device_charge_host(gpu, move.size, UINT64_MAX),
	                 0);
	move.to = fake_add(FAKE_PHYSICAL, 0, move.size, tier == SEGMENT_ON_DEVICE);
	movable_own.acquire(gpu);
	movable_own.moved(gpu, &move, tier, false);
	movable_own.release(gpu);
	fake_remove(FAKE_PHYSICAL, move.from);
	device_uncharge(gpu, move.is_from_device ? SEGMENT_ON_DEVICE : SEGMENT_ON_HOST, move.size);
}

static void ck_assert_nothing_left(void)
{
	ck_assert_uint_eq(fake.device_bytes, 0);
	ck_assert_int_eq(fake.misuse, 0);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 0);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 0);
	ck_assert_uint_eq(arena_of(gpu)->on_host, 0);
	ck_assert_uint_eq(stays(), 0);
}

START_TEST(a_handle_of_ours_stands_for_the_drivers)
{
	CUmemGenericAllocationHandle a, b, other = 0x12345678, old;

	start();
	a = create(20 * MIB, 0);
	b = create(2 * MIB, 0);
	ck_assert(own_is_ours(a) && own_is_ours(b) && a != b);
	ck_assert(driver_handle(a) != a && driver_handle(a) != driver_handle(b));
	/* Others pass as they are. */
	ck_assert(!own_is_ours(other) && own_translate(&other));
	ck_assert_uint_eq(other, 0x12345678);
	ck_assert(!own_release(other, &(CUresult){0}));

	old = a;
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert_int_eq(release(a), CUDA_ERROR_INVALID_VALUE);
	ck_assert(!own_translate(&old));
	/* What the driver does not release is still the program's. */
	fake.fail_at = fake.calls + 1;
	fake.failure = CUDA_ERROR_UNKNOWN;
	ck_assert_int_eq(release(b), CUDA_ERROR_UNKNOWN);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 2 * MIB);
	ck_assert_int_eq(release(b), CUDA_SUCCESS);
	ck_assert_nothing_left();
}
END_TEST

START_TEST(it_lives_while_it_has_a_handle_or_a_mapping)
{
	CUmemGenericAllocationHandle a, again, given;
	CUdeviceptr address;

	start();
	a = create(20 * MIB, 0);
	address = map(0, 20 * MIB, a);
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert_int_eq(release(a), CUDA_ERROR_INVALID_VALUE);
	ck_assert(!own_translate(&(CUmemGenericAllocationHandle){a}));
	ck_assert_uint_eq(fake.device_bytes, 20 * MIB);
	/* It comes back under its name; the driver's further reference is given back. */
	given = again = fake_add(FAKE_PHYSICAL, 0, 20 * MIB, false);
	own_retained(&again, address + 5);
	ck_assert_uint_eq(again, a);
	ck_assert_ptr_null(fake_find(FAKE_PHYSICAL, given));
	own_unmapped(address, 20 * MIB, own_mapped_so_far());
	ck_assert_uint_eq(fake.device_bytes, 20 * MIB);
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert_nothing_left();

	/* The other way round. */
	a = create(2 * MIB, 0);
	address = map(40, 2 * MIB, a);
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	own_unmapped(address, 2 * MIB, own_mapped_so_far());
	ck_assert_nothing_left();
}
END_TEST

START_TEST(what_is_mapped_with_known_rights_can_be_moved)
{
	CUmemAccessDesc host = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST}};
	CUmemAccessDesc none = read_write;
	CUmemGenericAllocationHandle a;
	CUdeviceptr address, alias;

	start();
	a = create(4 * MIB, 0);
	ck_assert_uint_eq(stays(), 4 * MIB);
	own_mapped(base, 4 * MIB, a);
	address = base;
	ck_assert_uint_eq(stays(), 4 * MIB);
	look(address, false);
	own_accessed(address, 4 * MIB, &read_write, 1);
	ck_assert_uint_eq(stays(), 0);
	look(address, true);
	look(address + 2 * MIB, false); /* nothing begins there */
	/* Nobody may read it, not even for a move. */
	none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	own_accessed(address, 4 * MIB, &none, 1);
	look(address, false);
	own_accessed(address, 4 * MIB, &read_write, 1);
	alias = map(100, 4 * MIB, a);
	ck_assert_uint_eq(stays(), 0);
	look(address, false); /* it moves by its latest mapping */
	look(alias, true);
	own_unmapped(address, 4 * MIB, own_mapped_so_far());
	look(alias, true);
	ck_assert_int_eq(own_pin(a, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), CUDA_SUCCESS);
	look(alias, true); /* it was not made for that */
	ck_assert_int_eq(own_pin(a, 0), CUDA_SUCCESS);
	ck_assert_uint_eq(stays(), 4 * MIB);
	look(alias, false);
	own_unmapped(alias, 4 * MIB, own_mapped_so_far());
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert_nothing_left();

	/* Rights that could not be given anew. */
	for (int i = 0; i < 2; i++) {
		a = create(4 * MIB, 0);
		address = map(0, 4 * MIB, a);
		look(address, true);
		if (i == 0)
			own_accessed(address, 2 * MIB, &read_write, 1);
		else
			own_accessed(address, 4 * MIB, &host, 1);
		look(address, false);
		own_unmapped(address, 4 * MIB, own_mapped_so_far());
		ck_assert_int_eq(release(a), CUDA_SUCCESS);
	}
	ck_assert_nothing_left();
}
END_TEST

START_TEST(the_memory_behind_a_handle_is_exchanged)
{
	CUmemAccessDesc peer = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 3},
	                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
	CUmemGenericAllocationHandle a, b, first;
	CUdeviceptr at_a, at_b;
	CUmemAllocationProp prop;
	struct move move;
	CUresult result;
	int type = 0;

	start();
	a = create(20 * MIB, 0);
	b = create(2 * MIB, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	at_a = map(0, 20 * MIB, a);
	at_b = map(20, 2 * MIB, b);
	own_accessed(at_b, 2 * MIB, &peer, 1);
	first = driver_handle(a);
	move = look(at_a, true);
	ck_assert_uint_eq(move.size, 20 * MIB);
	ck_assert_uint_eq(move.from, first);
	ck_assert(move.is_from_device && !move.has_like);
	ck_assert_uint_eq(move.accesses, 1);
	move = look(at_b, true);
	ck_assert(move.has_like);
	ck_assert_int_eq(move.like.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	ck_assert_uint_eq(move.accesses, 2);
	ck_assert_int_eq(move.access[1].location.id, 3);
	ck_assert_int_eq(move.access[1].flags, CU_MEM_ACCESS_FLAGS_PROT_READ);

	move_to(at_a, SEGMENT_ON_HOST);
	ck_assert(driver_handle(a) != first);
	ck_assert_uint_eq(arena_of(gpu)->on_host, 20 * MIB);
	ck_assert(own_properties(a, &prop));
	ck_assert_int_eq(prop.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
	ck_assert(!own_properties(b, &prop));
	ck_assert(own_attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at_a + 9, &type, &result));
	ck_assert_int_eq(type, CU_MEMORYTYPE_DEVICE);
	ck_assert(!own_attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at_b + 9, &type, &result));
	move_to(at_a, SEGMENT_ON_DEVICE);
	ck_assert_uint_eq(arena_of(gpu)->on_host, 0);
	ck_assert(!own_properties(a, &prop));

	/* What is released, mapped or not, on either tier, is given back once. */
	move_to(at_a, SEGMENT_ON_HOST);
	move_to(at_b, SEGMENT_ON_HOST);
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	own_unmapped(at_a, 22 * MIB, own_mapped_so_far());
	ck_assert_int_eq(release(b), CUDA_SUCCESS);
	ck_assert_nothing_left();
}
END_TEST

/* In place of the driver's: the memory that was mapped last, and how often it is refused now. */
static CUmemGenericAllocationHandle mapped_last;
static int refusals;

static CUresult map_or_refuse(CUdeviceptr address, size_t size, size_t offset,
                              CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	if (refusals && refusals--)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mapped_last = handle;
	return fake_map(address, size, offset, handle, flags);
}

static bool map_others(const struct move *move, CUmemGenericAllocationHandle memory)
{
	bool is_mapped;

	movable_own.acquire(gpu);
	is_mapped = move->map_others(move, memory);
	movable_own.release(gpu);
	return is_mapped;
}

/* The driver is asked twice (chunk.h). Where it refuses, the old memory is mapped again. */
START_TEST(it_is_exchanged_wherever_it_is_mapped)
{
	CUmemGenericAllocationHandle a, old;
	CUdeviceptr at[2];
	struct move move;

	start();
	a = create(4 * MIB, 0);
	old = driver_handle(a);
	for (size_t i = 0; i < 2; i++) {
		fake_reserve(&at[i], 4 * MIB, 0, 0, 0);
		fake_map(at[i], 4 * MIB, 0, old, 0);
		own_mapped(at[i], 4 * MIB, a);
		own_accessed(at[i], 4 * MIB, &read_write, 1);
	}
	driver.cuMemMap = map_or_refuse;
	move = look(at[1], true);
	move.to = fake_add(FAKE_PHYSICAL, 0, 4 * MIB, false);
	ck_assert(map_others(&move, move.to));
	ck_assert_uint_eq(mapped_last, move.to);
	refusals = 2;
	ck_assert(!map_others(&move, move.to));
	ck_assert_ptr_null(fake_find(FAKE_MAPPED, at[0]));
	fake.misuse = 0;
	map_others(&move, move.from);
	ck_assert_uint_eq(mapped_last, old);
	ck_assert_ptr_nonnull(fake_find(FAKE_MAPPED, at[0]));
}
END_TEST

START_TEST(memory_with_very_many_mappings_stays)
{
	CUmemGenericAllocationHandle a;

	start();
	a = create(2 * MIB, 0);
	for (size_t i = 0; i < 16; i++)
		look(map(2 * i, 2 * MIB, a), true);
	look(map(40, 2 * MIB, a), false);
	ck_assert_uint_eq(stays(), 2 * MIB);
	own_unmapped(base, 2 * MIB, own_mapped_so_far());
	look(base + 40 * MIB, true);
	ck_assert_uint_eq(stays(), 0);
}
END_TEST

/* In place of core/modules/placement: what was mapped last, and what is hot. */
static CUdeviceptr tracked, used;

static bool track(CUdeviceptr address, size_t size)
{
	tracked = address;
	if (used - address < size)
		used = 0;
	return true;
}

static uint32_t touched(CUdeviceptr address, size_t size, uint32_t now)
{
	return used - address < size ? now : 0;
}

static uint32_t no_time(void)
{
	return 4;
}

static uint64_t rank(const struct device *device, CUdeviceptr address, uint32_t at, uint32_t now)
{
	(void)device;
	(void)address;
	return at == now ? (uint64_t)HEAT_HOT << 32 : MOVABLE_RANK;
}

START_TEST(the_coldest_leaves_first)
{
	static const struct placement_calls calls = {
	    .track = track, .touched = touched, .now = no_time, .rank = rank};
	CUmemGenericAllocationHandle handle[3];
	CUdeviceptr at[3];
	struct choice choice;

	start();
	atomic_store(&placement_calls, &calls);
	for (size_t i = 0; i < 3; i++) {
		handle[i] = create(20 * MIB, 0);
		at[i] = map(i * 20, 20 * MIB, handle[i]);
	}
	/* In its middle, as a kernel does that uses something there. */
	used = at[0] + 11 * MIB;
	ck_assert_uint_eq(tracked, at[2]);
	movable_begin(&choice, false);
	movable_own.choose(gpu, SEGMENT_ON_DEVICE, &choice);
	movable_end(&choice);
	ck_assert_uint_eq(choice.count, 3);
	ck_assert_uint_eq(choice.of[0].address, at[1]);
	ck_assert_uint_eq(choice.of[1].address, at[2]);
	ck_assert_uint_eq(choice.of[2].address, at[0]);
	ck_assert_uint_eq(movable_heat(choice.of[2].rank), HEAT_HOT);
	/* What is mapped anew there has not been used. */
	own_unmapped(at[0], 20 * MIB, own_mapped_so_far());
	at[0] = map(0, 20 * MIB, handle[0]);
	ck_assert_uint_eq(used, 0);
	own_unmapped(at[0], 60 * MIB, own_mapped_so_far());
	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(release(handle[i]), CUDA_SUCCESS);
	ck_assert_nothing_left();
}
END_TEST

/* The registry has the arena as a resource, which counts its chunks, not units. */
START_TEST(the_arena_is_in_the_registry)
{
	struct resource *view;
	struct arena *arena;
	char text[80], expected[80];

	start();
	arena = arena_of(gpu);
	view = registry_lookup(gpu->registry, NULL, &arena_view_type, "arena");
	ck_assert_ptr_nonnull(view);
	ck_assert_uint_eq(view->references, 2);
	view->type->describe(view, text, sizeof text);
	ck_assert_msg(strncmp(text, "0 chunks in ", 12) == 0, "%s", text);
	for (int i = 8; i < 12; i++)
		arena->units[i].kind = UNIT_OF_ALLOCATION;
	arena->units[8].units = 4;
	arena->units[31].kind = UNIT_OF_SLAB;
	arena->units[31].units = 1;
	arena->top = 32;
	view->type->describe(view, text, sizeof text);
	snprintf(expected, sizeof expected, "2 chunks in %llu bytes of addresses",
	         (unsigned long long)arena->size);
	ck_assert_str_eq(text, expected);
	resource_release(view);
}
END_TEST

static CUresult free_by_driver(void *cookie, CUdeviceptr address)
{
	(void)cookie;
	return driver.cuMemFree_v2(address);
}

/* Whoever the registry forgets has nothing in the arena, either: neither a run nor a block. */
START_TEST(without_the_registry_nobody_owns_the_arena)
{
	static const size_t sizes[] = {20 * MIB, 512};
	const struct vmem_free how = {.native = free_by_driver};
	struct deadline until = DEADLINE_IN(0);
	struct making making = {.size = sizes[_i], .until = &until};
	struct allocation *a, *known;
	struct context context;
	struct terms terms;
	CUdeviceptr address;

	start();
	ck_assert(context_current(&context));
	terms = terms_of(context.device);
	a = making.owner = allocation_create_elastic(&context, making.size, 0);
	elastic_begin(&making, arena_of(context.device), &terms);
	ck_assert_int_eq(elastic_take(&making, &address), CUDA_SUCCESS);
	a->address = a->backing.address = address;
	ck_assert_int_eq(allocation_enter(a), 0);
	known = vmem_at(address + 100);
	ck_assert_ptr_eq(known, a);
	resource_release(&known->resource);
	registry_clear(gpu->registry);
	ck_assert_ptr_null(vmem_at(address));
	ck_assert_ptr_null(vmem_at(address + 100));
	ck_assert_int_eq(vmem_free(address, &how), CUDA_ERROR_INVALID_VALUE);
	/* The memory is still there, and charged. */
	ck_assert_uint_ge(device_charged(gpu, SEGMENT_ON_DEVICE), sizes[_i]);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("own");

	tcase_add_test(tests, a_handle_of_ours_stands_for_the_drivers);
	tcase_add_test(tests, it_lives_while_it_has_a_handle_or_a_mapping);
	tcase_add_test(tests, what_is_mapped_with_known_rights_can_be_moved);
	tcase_add_test(tests, the_memory_behind_a_handle_is_exchanged);
	tcase_add_test(tests, it_is_exchanged_wherever_it_is_mapped);
	tcase_add_test(tests, memory_with_very_many_mappings_stays);
	tcase_add_test(tests, the_coldest_leaves_first);
	tcase_add_loop_test(tests, without_the_registry_nobody_owns_the_arena, 0, 2);
	tcase_add_test(tests, the_arena_is_in_the_registry);
	return suite_run("physical", tests);
}
