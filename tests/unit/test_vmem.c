/* SPDX-License-Identifier: MIT */
/* The allocator, its providers and the application's physical memory, over a driver that can fail.
 */
#include <check.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/devices.h"
#include "core/budget/device.h"
#include "core/cuda/context.h"
#include "core/memory/arena/spare.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"
#include "core/memory/alloc/own_memory.h"
#include "core/memory/own/own.h"
#include "core/memory/alloc/pointer.h"
#include "core/budget/reported.h"
#include "core/memory/uses/counted.h"
#include "core/memory/alloc/allocation.h"
#include "core/memory/alloc/freed.h"
#include "fake_driver.h"
#include "calls.h"
#include "suite.h"
#include "test_job.h"

#define MIB ((size_t)1 << 20)

static struct device_set devices;
static struct device *gpu;

static void set_limits(uint64_t limit, uint64_t host)
{
	struct config_gpu settings = {
	    .memory = limit, .host_memory = host, .share = 100000, .spill = SPILL_AUTO};

	device_apply(gpu, &settings);
}

static void finish(void)
{
	context_forget(fake.current);
	device_set_clear(&devices);
}

static void start(void)
{
	finish();
	fake_driver_reset(256 * MIB);
	ck_assert_int_eq(device_set_fill(&devices, test_job(), "test"), 0);
	gpu = &devices.device[0];
	device_set_start_contexts(&devices);
	vmem_start(&devices, false);
	set_limits(64 * MIB, 64 * MIB);
}

static void ck_assert_nothing_left(void)
{
	ck_assert_int_eq(fake.count, 0);
	ck_assert_int_eq(fake.misuse, 0);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 0);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 0);
	ck_assert_uint_eq(gpu->statistics->allocations, 0);
}

static CUresult on_the_device(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle)
{
	(void)handle;
	*prop = (CUmemAllocationProp){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	return CUDA_SUCCESS;
}

/*
 * Memory of no job is charged when it is mapped: exported again before that, it is not taken for
 * what weighs nothing.
 */
START_TEST(what_nobody_knows_the_size_of_is_exported_without_a_mark)
{
	CUmemGenericAllocationHandle handle = 0x1000;
	int unmarked = memfd_create("unmarked", MFD_CLOEXEC);
	int before = memfd_create("before", MFD_CLOEXEC),
	    after = memfd_create("after", MFD_CLOEXEC);
	uint64_t charged;

	start();
	driver.cuMemGetAllocationPropertiesFromHandle = on_the_device;
	ck_assert_int_eq(own_memory_import(&devices, &handle, (void *)(intptr_t)unmarked,
	                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	                 CUDA_SUCCESS);
	own_exported(&devices, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, &before);
	ck_assert_uint_eq(segment_read_tag(before).key, 0);
	ck_assert_int_eq(own_memory_may_map(handle, 4 * MIB, &charged), CUDA_SUCCESS);
	own_exported(&devices, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, &after);
	ck_assert_uint_eq(segment_read_tag(after).bytes, 4 * MIB);
	close(after);
	own_left(own_leave(handle), true);
	close(before);
	close(unmarked);
	ck_assert_nothing_left();
}
END_TEST

/* Two threads open memory of another process at once: it is closed when both have closed it. */
START_TEST(what_two_threads_open_at_once_is_one_mapping)
{
	const struct counted_import import = {.bytes = 4 * MIB, .charged = 4 * MIB};
	struct context context;
	struct leaving leaving;

	start();
	ck_assert(context_current(&context));
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(device_charge(gpu, import.charged), 0);
		counted_enter_import(&context, 0x1000, &import);
		ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), import.charged);
	}
	for (int i = 0; i < 2; i++) {
		ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), import.charged);
		leaving = context_leave_object(&counted_type_ipc_mapping, 0x1000);
		counted_left(&leaving, true);
	}
	ck_assert_nothing_left();
}
END_TEST

START_TEST(beyond_the_limit_memory_is_on_the_host)
{
	CUdeviceptr on_device, on_host, refused = 42;
	unsigned int type = 0;
	CUdeviceptr base;
	size_t size;
	CUresult result;

	start();
	ck_assert_int_eq(allocate(64 * MIB, &on_device), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(33 * MIB, &on_host), CUDA_SUCCESS);
	ck_assert_uint_eq(fake.device_bytes, 64 * MIB);
	ck_assert_uint_eq(gpu->statistics->spills, 1);
	ck_assert_uint_eq(gpu->statistics->spilled_bytes, 33 * MIB);
	ck_assert_uint_eq(gpu->statistics->spill_reason, SPILL_LIMIT);
	/* 33 of 64 MiB are taken on the host: 32 more do not fit. */
	ck_assert_int_eq(allocate(32 * MIB, &refused), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_uint_eq(refused, 42);
	ck_assert_uint_eq(gpu->statistics->refusals, 1);

	/* It looks like device memory, to its last byte and no further. */
	ck_assert(pointer_attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, on_host + 33 * MIB - 1, &type,
	                            &result));
	ck_assert_int_eq(result, CUDA_SUCCESS);
	ck_assert_uint_eq(type, CU_MEMORYTYPE_DEVICE);
	ck_assert(!pointer_attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, on_host + 33 * MIB, &type,
	                             &result));
	ck_assert(pointer_range(on_host + 5, &base, &size));
	ck_assert_uint_eq(base, on_host);
	ck_assert_uint_eq(size, 33 * MIB);
	ck_assert(!pointer_range(on_device, &base, &size));

	ck_assert_int_eq(release(on_host), CUDA_SUCCESS);
	ck_assert_int_eq(release(on_device), CUDA_SUCCESS);
	ck_assert_nothing_left();
	/* The second free is the driver's to refuse. */
	ck_assert_int_eq(release(on_host), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(a_full_device_spills_without_a_limit)
{
	CUdeviceptr a, b;

	start();
	set_limits(CONFIG_UNLIMITED, 512 * MIB);
	ck_assert_int_eq(allocate(200 * MIB, &a), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(100 * MIB, &b), CUDA_SUCCESS);
	ck_assert_uint_eq(gpu->statistics->spill_reason, SPILL_DEVICE_FULL);
	ck_assert_int_eq(release(a), CUDA_SUCCESS);
	ck_assert_int_eq(release(b), CUDA_SUCCESS);
	ck_assert_nothing_left();
}
END_TEST

START_TEST(every_provider_serves_where_the_better_ones_are_missing)
{
	CUdeviceptr p;

	for (int is_managed_missing = 0; is_managed_missing < 2; is_managed_missing++) {
		const struct counters *s;

		start();
		set_limits(0, CONFIG_UNLIMITED);
		fake.no_managed = is_managed_missing;
		ck_assert_int_eq(allocate(3 * MIB, &p), CUDA_SUCCESS);
		ck_assert_int_eq(fake_find(FAKE_MANAGED, p) != NULL, !is_managed_missing);
		ck_assert_int_eq(fake_find(FAKE_PINNED, p) != NULL, is_managed_missing);
		s = gpu->statistics;
		ck_assert_uint_eq(s->provider,
		                  is_managed_missing ? PROVIDER_PINNED : PROVIDER_MANAGED);
		ck_assert_int_eq(s->managed_error != 0, is_managed_missing);
		ck_assert_uint_eq(s->pinned_error, 0);
		ck_assert_int_eq(release(p), CUDA_SUCCESS);
		ck_assert_nothing_left();
	}
}
END_TEST

START_TEST(chunks_of_the_host_are_made_as_the_driver_can)
{
	static const enum provider_code codes[] = {PROVIDER_NUMA, PROVIDER_HOST};

	for (int missing = 0; missing < 3; missing++) {
		struct chunk chunk = {.size = 4 * MIB, .tier = SEGMENT_ON_HOST};
		const struct counters *s;
		struct chunk_source source;

		start();
		fake.no_host_numa = missing >= 1;
		fake.no_host_vmm = missing >= 2;
		source = spare_source(gpu);
		ck_assert_int_eq(chunk_make(&source, &chunk) == CUDA_SUCCESS, missing < 2);
		s = gpu->statistics;
		if (missing < 2) {
			ck_assert_uint_eq(s->provider, codes[missing]);
			chunk_release(&chunk);
		}
		ck_assert_int_eq(s->numa_error != 0, missing >= 1);
		ck_assert_int_eq(s->host_error != 0, missing == 2);
		ck_assert_nothing_left();
	}
}
END_TEST

START_TEST(spill_off_and_spill_after_answer_out_of_memory)
{
	struct config_gpu settings = {
	    .memory = MIB, .host_memory = CONFIG_UNLIMITED, .spill = SPILL_OFF};
	CUdeviceptr p;

	start();
	device_apply(gpu, &settings);
	ck_assert_int_eq(allocate(2 * MIB, &p), CUDA_ERROR_OUT_OF_MEMORY);
	settings.spill = SPILL_AUTO;
	settings.spill_after = 3; /* one was answered above */
	device_apply(gpu, &settings);
	ck_assert_int_eq(allocate(2 * MIB, &p), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(2 * MIB, &p), CUDA_ERROR_OUT_OF_MEMORY);
	ck_assert_int_eq(allocate(2 * MIB, &p), CUDA_SUCCESS);
	ck_assert_int_eq(release(p), CUDA_SUCCESS);
	ck_assert_nothing_left();
}
END_TEST

START_TEST(a_destroyed_context_takes_its_memory_along)
{
	struct context context;
	CUdeviceptr p;

	start();
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(allocate(20 * MIB, &p), CUDA_SUCCESS);
	ck_assert_uint_eq(gpu->statistics->spills, 2);
	ck_assert(context_find(fake.current, &context));
	ck_assert(context_gone(&context));
	ck_assert(!context_gone(&context)); /* one thread gives up what is kept of it */
	vmem_forget_context(&context);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 0);
	fake.count = 0; /* the driver frees its own */
	context_forget(fake.current);
	ck_assert_nothing_left();
}
END_TEST

START_TEST(reported_memory_is_the_limit)
{
	struct config_gpu settings = {.memory = 64 * MIB, .memory_max = 128 * MIB};
	struct reported grown = {.total = 256 * MIB, .free = 100 * MIB};
	struct reported told = {.total = 256 * MIB, .free = 200 * MIB};
	CUdeviceptr p;

	/* What it was told of stays the total while the job holds more. */
	ck_assert(reported_memory(&settings, 100 * MIB, 0, &grown));
	ck_assert_uint_eq(grown.total, 64 * MIB);
	ck_assert_uint_eq(grown.used, 64 * MIB);
	ck_assert_uint_eq(grown.free, 0);
	/* Evicted, it is told what it was told before, without a limit too. */
	settings.evict = true;
	ck_assert(reported_memory(&settings, 2 * MIB, 14 * MIB, &grown));
	ck_assert_uint_eq(grown.total, 64 * MIB);
	ck_assert_uint_eq(grown.free, 48 * MIB);
	settings = (struct config_gpu){.memory = CONFIG_UNLIMITED, .evict = true};
	grown = (struct reported){.total = 256 * MIB, .free = 254 * MIB};
	ck_assert(reported_memory(&settings, 2 * MIB, 14 * MIB, &grown));
	ck_assert_uint_eq(grown.total, 256 * MIB);
	ck_assert_uint_eq(grown.free, 240 * MIB);

	start();
	ck_assert(report_memory(gpu, &told));
	ck_assert_uint_eq(told.total, 64 * MIB);
	told = (struct reported){.total = 256 * MIB, .free = 200 * MIB};
	ck_assert_int_eq(allocate(16 * MIB, &p), CUDA_SUCCESS);
	ck_assert(report_memory(gpu, &told));
	ck_assert_uint_eq(told.total, 64 * MIB);
	ck_assert_uint_eq(told.free, 48 * MIB);
	set_limits(8 * MIB, 0); /* lowered below what is held: free is 0, never negative */
	told.total = 256 * MIB;
	ck_assert(report_memory(gpu, &told));
	ck_assert_uint_eq(told.total, 8 * MIB);
	ck_assert_uint_eq(told.free, 0);
	set_limits(CONFIG_UNLIMITED, 0);
	told = (struct reported){.free = 7, .total = 9};
	ck_assert(!report_memory(gpu, &told));
	ck_assert_uint_eq(told.total, 9);
	release(p);
	ck_assert_nothing_left();
}
END_TEST

/* Random requests and frees under a limit that moves, against what the driver counts. */
START_TEST(random_sequences_never_exceed_the_limit)
{
	enum { LIVE = 64 };
	CUdeviceptr live[LIVE];
	unsigned int seed = (unsigned int)_i * 7919u + 1;
	int count = 0;

	start();
	for (int step = 0; step < 3000; step++) {
		uint64_t limit = 64 * MIB;
		int what = rand_r(&seed) % 10;

		if (what == 0) {
			limit = (uint64_t)(rand_r(&seed) % 100) * MIB;
			set_limits(limit, 64 * MIB);
		} else if (what < 6 && count < LIVE) {
			uint64_t before = fake.device_bytes;
			size_t size = (size_t)(rand_r(&seed) % (8 << 20)) + 1;

			if (allocate(size, &live[count]) == CUDA_SUCCESS) {
				struct config_gpu now = terms_of(gpu).settings;

				count++;
				if (fake.device_bytes > before)
					ck_assert_uint_le(fake.device_bytes, now.memory);
			}
		} else if (count) {
			int i = rand_r(&seed) % count;

			ck_assert_int_eq(release(live[i]), CUDA_SUCCESS);
			live[i] = live[--count];
		}
		ck_assert_uint_le(fake.device_bytes, device_charged(gpu, SEGMENT_ON_DEVICE));
		ck_assert_uint_le(device_charged(gpu, SEGMENT_ON_HOST), 64 * MIB);
		ck_assert_uint_eq(gpu->statistics->allocations, (uint64_t)count);
	}
	while (count)
		ck_assert_int_eq(release(live[--count]), CUDA_SUCCESS);
	ck_assert_nothing_left();
}
END_TEST

/* Each driver call made to fail at each of its uses: no leak, an error the API may return. */
START_TEST(any_driver_call_may_fail)
{
	static const CUresult failures[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED,
	                                    CUDA_ERROR_ILLEGAL_ADDRESS};
	long calls = 1;

	for (size_t f = 0; f < 3; f++) {
		for (long n = 1; n <= calls; n++) {
			CUdeviceptr p[4];
			bool made[4];

			start();
			fake.failure = failures[f];
			fake.fail_at = n;
			for (int i = 0; i < 4; i++)
				made[i] = allocate(24 * MIB, &p[i]) == CUDA_SUCCESS;
			for (int i = 0; i < 4; i++) {
				if (!made[i])
					continue;
				/* A free that failed can be tried again, as the driver's can. */
				if (release(p[i]) != CUDA_SUCCESS && fake_find(FAKE_DEVICE, p[i]))
					ck_assert_int_eq(release(p[i]), CUDA_SUCCESS);
			}
			ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 0);
			ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 0);
			ck_assert_uint_eq(fake.device_bytes, 0);
			ck_assert_int_eq(gpu->statistics->allocations, 0);
			if (fake.calls > calls)
				calls = fake.calls;
		}
	}
	ck_assert_int_gt(calls, 10);
}
END_TEST

START_TEST(physical_memory_is_charged_while_a_handle_or_mapping_lives)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemGenericAllocationHandle a, b, c;

	start();
	set_limits(64 * MIB, 128 * MIB);
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	ck_assert_int_eq(
	    own_memory_create(&devices, &a, 40 * MIB, &prop, 0, false, driver.cuMemCreate),
	    CUDA_SUCCESS);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 40 * MIB);
	/* Over the limit it goes to the host ... */
	ck_assert_int_eq(
	    own_memory_create(&devices, &b, 40 * MIB, &prop, 0, false, driver.cuMemCreate),
	    CUDA_SUCCESS);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 40 * MIB);
	/* ... and so does what may be exported, for which there is no room on the device then. */
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	ck_assert_int_eq(
	    own_memory_create(&devices, &c, 40 * MIB, &prop, 0, false, driver.cuMemCreate),
	    CUDA_SUCCESS);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 80 * MIB);
	ck_assert_int_eq(own_memory_may_export(c, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
	                 CUDA_ERROR_OUT_OF_MEMORY);
	own_left(own_leave(c), true);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 40 * MIB);
	/* Another node may reach this without a call that could be seen. */
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
	ck_assert_int_eq(
	    own_memory_create(&devices, &c, 40 * MIB, &prop, 0, false, driver.cuMemCreate),
	    CUDA_ERROR_OUT_OF_MEMORY);

	own_mapped(1 << 30, 20 * MIB, a);
	own_mapped((1 << 30) + 20 * MIB, 20 * MIB, a);
	own_left(own_leave(a), true);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 40 * MIB);
	own_unmapped(1 << 30, 20 * MIB, own_mapped_so_far());
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 40 * MIB);
	/* A handle may be had again from the mapping, and outlive it. */
	own_retained(&a, (1 << 30) + 20 * MIB + 1);
	own_unmapped((1 << 30) + 20 * MIB, 20 * MIB, own_mapped_so_far());
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 40 * MIB);
	own_left(own_leave(a), true);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 0);
	own_retained(&b, 0);
	own_left(own_leave(b), true);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 40 * MIB);
	own_left(own_leave(b), true);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 0);
}
END_TEST

static struct device *find_device(const char *name)
{
	struct device_ref found;

	return device_set_lookup(&devices, name, &found) ? found.gpu : NULL;
}

START_TEST(devices_are_found_by_every_name)
{
	static const char *const other[] = {"1",
	                                    "-1",
	                                    "+0",
	                                    "0x",
	                                    "GPU-2",
	                                    "GPU-",
	                                    "",
	                                    "gpu:1",
	                                    "gpu:",
	                                    "gpu:0x",
	                                    "/gpu:-0",
	                                    "//gpu:0",
	                                    "tpu:0",
	                                    "/job:other/gpu:0",
	                                    "/job:tes/gpu:0",
	                                    "/job:testy/gpu:0",
	                                    "/process:1/gpu:0",
	                                    "/job:test/process:99999999999/gpu:0",
	                                    "/job:test",
	                                    "gpu:99999999999999999999"};
	char name[80];

	start();
	ck_assert_ptr_eq(find_device("0"), gpu);
	ck_assert_ptr_eq(find_device("GPU-1111"), gpu);
	ck_assert_ptr_eq(find_device("gpu-1111"), gpu);
	ck_assert_ptr_eq(find_device("0000:01:00.0"), gpu);
	ck_assert_ptr_eq(find_device("01:00.0"), gpu);
	ck_assert_ptr_eq(find_device("fake"), gpu);
	ck_assert_ptr_eq(find_device("gpu:0"), gpu);
	ck_assert_ptr_eq(find_device("cuda:0"), gpu);
	ck_assert_ptr_eq(find_device("/gpu:0"), gpu);
	ck_assert_ptr_eq(find_device("/job:test/gpu:0"), gpu);
	snprintf(name, sizeof(name), "/process:%d/gpu:0", (int)getpid());
	ck_assert_ptr_eq(find_device(name), gpu);
	snprintf(name, sizeof(name), "/job:test/process:%d/gpu:0", (int)getpid());
	ck_assert_ptr_eq(find_device(name), gpu);
	for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++)
		ck_assert_msg(!find_device(other[i]), "%s", other[i]);
}
END_TEST

/* Where memory is spilled is a device, too. */
START_TEST(spill_tiers_are_devices)
{
	struct device_ref found = {.type = DEVICE_TYPES};
	CUdeviceptr address;
	char name[80];

	start();
	ck_assert_int_eq(devices.count, 1);
	ck_assert_int_eq(devices.tier_count, 1);
	ck_assert(!device_set_lookup(&devices, "cpu:1", &found));
	ck_assert_int_eq(found.type, DEVICE_TYPES);
	ck_assert_ptr_null(find_device("cpu:0"));
	snprintf(name, sizeof(name), "/job:test/process:%d/cpu:0", (int)getpid());
	ck_assert(device_set_lookup(&devices, name, &found));
	ck_assert_int_eq(found.type, DEVICE_CPU);
	ck_assert_ptr_null(found.gpu);
	ck_assert_int_eq(found.tier->index, 0);
	ck_assert_uint_eq(found.tier->devices, 1);
	ck_assert_int_eq(allocate(64 * MIB, &address), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(2 * MIB, &address), CUDA_SUCCESS);
	ck_assert_uint_eq(device_charged(&devices.device[0], SEGMENT_ON_HOST), 2 * MIB);
}
END_TEST

enum { FOUR = 4 };

static CUresult count_four(int *count)
{
	*count = FOUR;
	return CUDA_SUCCESS;
}

static CUresult name_soft(char *text, int size, CUdevice device)
{
	(void)device;
	snprintf(text, (size_t)size, "Spillway software GPU");
	return CUDA_SUCCESS;
}

/* Two nodes, 3 and 1, in turn. */
static CUresult two_nodes(int *value, CUdevice_attribute attribute, CUdevice device)
{
	*value = attribute == CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID ? 3 - device % 2 * 2 : 0;
	return CUDA_SUCCESS;
}

START_TEST(the_factory_with_the_highest_priority_that_works_makes_the_devices)
{
	struct device_ref found;

	start();
	ck_assert_str_eq(devices.made_by[DEVICE_GPU], "cuda");
	ck_assert_str_eq(devices.made_by[DEVICE_CPU], "host");
	finish();
	driver.cuDeviceGetCount = count_four;
	driver.cuDeviceGetName = name_soft;
	driver.cuDeviceGetAttribute = two_nodes;
	ck_assert_int_eq(device_set_fill(&devices, NULL, "test"), 0);
	ck_assert_str_eq(devices.made_by[DEVICE_GPU], "soft");
	ck_assert_int_eq(devices.count, FOUR);
	ck_assert_int_eq(devices.tier_count, 2);
	ck_assert_ptr_null(find_device("Spillway software GPU")); /* several */
	ck_assert(device_set_lookup(&devices, "cpu:0", &found));
	ck_assert_int_eq(found.tier->node, 3);
	ck_assert_uint_eq(found.tier->devices, 1 | 4);
	ck_assert(device_set_lookup(&devices, "/cpu:1", &found));
	ck_assert_int_eq(found.tier->node, 1);
	ck_assert_uint_eq(found.tier->devices, 2 | 8);
	ck_assert_int_eq(devices.device[2].host_node, 3);
}
END_TEST

START_TEST(factories_are_tried_by_priority)
{
	static const struct factory low = {"low", 1}, high = {"high", 9}, middle = {"middle", 5};
	const struct factory *const all[] = {&low, &high, &middle};

	ck_assert_ptr_eq(factory_next(all, 3, NULL), &high);
	ck_assert_ptr_eq(factory_next(all, 3, &high), &middle);
	ck_assert_ptr_eq(factory_next(all, 3, &middle), &low);
	ck_assert_ptr_null(factory_next(all, 3, &low));
	ck_assert_ptr_null(factory_next(all, 0, NULL));
}
END_TEST

/* There is no other book: what the registry forgets, the shim does not know. */
START_TEST(without_the_registry_nothing_is_known)
{
	CUdeviceptr on_device, on_host, base;
	struct allocation *a;
	size_t size;

	start();
	ck_assert_int_eq(allocate(40 * MIB, &on_device), CUDA_SUCCESS);
	ck_assert_int_eq(allocate(40 * MIB, &on_host), CUDA_SUCCESS);
	a = vmem_at(on_host + MIB);
	ck_assert_ptr_nonnull(a);
	resource_release(&a->resource);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 40 * MIB);
	ck_assert_uint_eq(gpu->statistics->allocations, 2);

	/* them and the context */
	ck_assert_uint_eq(registry_clear(gpu->registry), 3);
	ck_assert_uint_eq(gpu->statistics->allocations, 0);
	/* the driver has it all, and the shim nothing */
	ck_assert_uint_eq(fake.device_bytes, 40 * MIB);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 0);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_HOST), 0);
	ck_assert_ptr_null(vmem_at(on_host));
	ck_assert_ptr_null(vmem_at(on_host + MIB));
	ck_assert(!pointer_range(on_host, &base, &size));
	/* what was spilled is the driver's alone to free */
	ck_assert_int_eq(release(on_host), CUDA_SUCCESS);
	ck_assert_ptr_null(fake_find(FAKE_MANAGED, on_host));
	ck_assert_int_eq(release(on_host), CUDA_ERROR_INVALID_VALUE);
	/* and it lets more onto the device than the limit */
	ck_assert_int_eq(allocate(60 * MIB, &base), CUDA_SUCCESS);
	ck_assert_uint_eq(fake.device_bytes, 100 * MIB);
}
END_TEST

/* The driver frees an address, and gives it to another thread before it has answered the first. */
static CUresult serve_again(void *cookie, CUdeviceptr *address)
{
	*address = *(CUdeviceptr *)cookie;
	return CUDA_SUCCESS;
}

static CUresult free_and_serve_again(void *cookie, CUdeviceptr address)
{
	const struct vmem_request again = {
	    .size = 3 * MIB, .native = serve_again, .cookie = &address};
	CUdeviceptr p;

	(void)cookie;
	ck_assert_int_eq(vmem_allocate(&again, &p), CUDA_SUCCESS);
	ck_assert_uint_eq(p, address);
	return CUDA_SUCCESS;
}

START_TEST(an_address_that_comes_again_before_it_has_left_is_the_new_allocation)
{
	CUdeviceptr p;

	start();
	ck_assert_int_eq(allocate(8 * MIB, &p), CUDA_SUCCESS);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 8 * MIB);
	ck_assert_int_eq(vmem_free(p, &(struct vmem_free){.native = free_and_serve_again}),
	                 CUDA_SUCCESS);
	ck_assert_uint_eq(gpu->statistics->allocations, 1);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 4 * MIB);
	ck_assert_int_eq(release(p), CUDA_SUCCESS);
	ck_assert_nothing_left();
}
END_TEST

static CUresult refuse_to_free(void *cookie, CUdeviceptr address)
{
	(void)cookie;
	(void)address;
	return CUDA_ERROR_INVALID_VALUE;
}

START_TEST(what_the_driver_does_not_free_stays_in_the_books)
{
	CUdeviceptr p;

	start();
	ck_assert_int_eq(allocate(8 * MIB, &p), CUDA_SUCCESS);
	ck_assert_int_eq(vmem_free(p, &(struct vmem_free){.native = refuse_to_free}),
	                 CUDA_ERROR_INVALID_VALUE);
	ck_assert_uint_eq(gpu->statistics->allocations, 1);
	ck_assert_uint_eq(device_charged(gpu, SEGMENT_ON_DEVICE), 8 * MIB);
	ck_assert_int_eq(release(p), CUDA_SUCCESS);
	ck_assert_nothing_left();
}
END_TEST

enum { CHANGES = 20000 };

static _Atomic bool changing;

static void *change_settings(void *cookie)
{
	(void)cookie;
	for (uint64_t i = 0; i < CHANGES; i++)
		set_limits(i, i);
	atomic_store(&changing, false);
	return NULL;
}

START_TEST(settings_are_read_as_they_were_at_one_time)
{
	pthread_t thread;
	bool is_over;

	start();
	atomic_store(&changing, true);
	ck_assert_int_eq(pthread_create(&thread, NULL, change_settings, NULL), 0);
	do {
		struct config_gpu now;

		is_over = !atomic_load(&changing);
		now = terms_of(gpu).settings;
		ck_assert_uint_eq(now.memory, now.host_memory);
	} while (!is_over);
	pthread_join(thread, NULL);
	ck_assert_uint_eq(terms_of(gpu).settings.memory, CHANGES - 1);
}
END_TEST

int main(void)
{
	TCase *tests = tcase_create("vmem");

	tcase_set_timeout(tests, 60);
	tcase_add_test(tests, what_nobody_knows_the_size_of_is_exported_without_a_mark);
	tcase_add_test(tests, what_two_threads_open_at_once_is_one_mapping);
	tcase_add_test(tests, beyond_the_limit_memory_is_on_the_host);
	tcase_add_test(tests, a_full_device_spills_without_a_limit);
	tcase_add_test(tests, every_provider_serves_where_the_better_ones_are_missing);
	tcase_add_test(tests, chunks_of_the_host_are_made_as_the_driver_can);
	tcase_add_test(tests, spill_off_and_spill_after_answer_out_of_memory);
	tcase_add_test(tests, a_destroyed_context_takes_its_memory_along);
	tcase_add_test(tests, reported_memory_is_the_limit);
	tcase_add_loop_test(tests, random_sequences_never_exceed_the_limit, 0, 10);
	tcase_add_test(tests, any_driver_call_may_fail);
	tcase_add_test(tests, physical_memory_is_charged_while_a_handle_or_mapping_lives);
	tcase_add_test(tests, devices_are_found_by_every_name);
	tcase_add_test(tests, spill_tiers_are_devices);
	tcase_add_test(tests, the_factory_with_the_highest_priority_that_works_makes_the_devices);
	tcase_add_test(tests, factories_are_tried_by_priority);
	tcase_add_test(tests, without_the_registry_nothing_is_known);
	tcase_add_test(tests, an_address_that_comes_again_before_it_has_left_is_the_new_allocation);
	tcase_add_test(tests, what_the_driver_does_not_free_stays_in_the_books);
	tcase_add_test(tests, settings_are_read_as_they_were_at_one_time);
	tcase_add_checked_fixture(tests, NULL, finish);
	return suite_run("vmem", tests);
}
