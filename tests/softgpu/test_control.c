/* SPDX-License-Identifier: MIT */
/*
 * Tests of the environment's settings: attributes, granularity, the driver's version, the time that
 * a dead process's memory stays held. Also of the books' figures.
 */
#include <signal.h>
#include <time.h>

#include "tests/softgpu/test.h"

static int attribute(CUdevice_attribute which)
{
	int value = -1;
	OK(cuDeviceGetAttribute(&value, which, 0));
	return value;
}

static void attributes(void)
{
	OK(cuInit(0));
	CHECK(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) == 108);
	CHECK(attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) == 0x10);
	CHECK(attribute(CU_DEVICE_ATTRIBUTE_NUMA_ID) == -3);
	CHECK(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32);
	CHECK(attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) == 1);
}

static const CUmemLocationType nowhere_else = CU_MEM_LOCATION_TYPE_HOST;

static CUresult create_on(CUmemLocationType type, CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                              .location = {.type = type}};
	return cuMemCreate(handle, 2 * MIB, &wanted, 0);
}

/* A call whose attribute says no is refused. */
static void without(void)
{
	start();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr memory;
	CUmemoryPool pool;
	CHECK(!attribute(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
	CHECK(!attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
	CHECK(attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) == -1);
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, create_on(nowhere_else, &handle));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, create_on(CU_MEM_LOCATION_TYPE_HOST_NUMA, &handle));
	OK(create_on(CU_MEM_LOCATION_TYPE_DEVICE, &handle));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocAsync(&memory, 16, NULL));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuDeviceGetDefaultMemPool(&pool, 0));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemAllocManaged(&memory, 16, CU_MEM_ATTACH_GLOBAL));
}

static void without_virtual_memory(void)
{
	start();
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;
	CHECK(!attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemAddressReserve(&base, 2 * MIB, 0, 0, 0));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, create_on(CU_MEM_LOCATION_TYPE_DEVICE, &handle));
}

static void granularity(void)
{
	start();
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;
	size_t unit;
	OK(cuMemGetAllocationGranularity(&unit, &wanted, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(unit == 8 * MIB);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 2 * MIB, &wanted, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&base, 2 * MIB, 0, 0, 0));
	OK(cuMemCreate(&handle, 8 * MIB, &wanted, 0));
	OK(cuMemAddressReserve(&base, 16 * MIB, 0, 0, 0));
	CHECK(base % (8 * MIB) == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(base + 2 * MIB, 8 * MIB, 0, handle, 0));
	OK(cuMemMap(base + 8 * MIB, 8 * MIB, 0, handle, 0));
}

/* A driver of CUDA 11.6 has neither the names nor the versions of names that came later. */
static void older_driver(void)
{
	int version;
	void *function = NULL;
	CUdriverProcAddressQueryResult status;
	CUcontext context;
	OK(cuDriverGetVersion(&version));
	CHECK(version == 11060);
	EXPECT(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuLibraryLoadData", &function, 13000, 0));
	OK(cuGetProcAddress("cuStreamWriteValue32", &function, 13000, 0));
	CHECK(function == (void *)cuStreamWriteValue32);
	OK(cuGetProcAddress("cuGetProcAddress", &function, 13000, 0));
	CHECK(function == (void *)cuGetProcAddress);
	/* What the loader finds all the same does not work. */
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
	       cuGetProcAddress_v2("cuInit", &function, 11060, 0, &status));
	OK(cuInit(0));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuCtxCreate_v4(&context, NULL, 0, 0));
	OK(cuCtxCreate_v3(&context, NULL, 0, 0, 0));
	unsigned int api;
	OK(cuCtxGetApiVersion(context, &api));
	CHECK(api == 11060);
}

/* Wrong values are said and not used. */
static void typing_errors(void)
{
	int version;
	OK(cuDriverGetVersion(&version));
	CHECK(version == 13000);
	OK(cuInit(0));
	CHECK(attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32);
	OK(cuDeviceGetCount(&version));
	CHECK(version == 1);
}

static void pause_ms(long milliseconds)
{
	struct timespec time = {.tv_nsec = milliseconds * 1000000};
	nanosleep(&time, NULL);
}

static uint64_t now_ms(void)
{
	struct timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

/* Kills a process: what it held is free only after the delay, and the books say so meanwhile. */
static void release_delay(void)
{
	int ready[2];
	char byte;
	CHECK(pipe(ready) == 0);
	pid_t holder = fork_bound();
	if (holder == 0) {
		CUdeviceptr memory;
		start();
		OK(cuMemAlloc_v2(&memory, 40 * MIB));
		CHECK(write(ready[1], "x", 1) == 1);
		for (;;)
			pause();
	}
	CHECK(read(ready[0], &byte, 1) == 1);
	start();
	size_t available, total;
	struct softgpu_truth truth[4];
	kill(holder, SIGKILL);
	waitpid(holder, NULL, 0);
	uint64_t died = now_ms();
	OK(cuMemGetInfo_v2(&available, &total));
	CHECK(available == 8 * MIB);
	CHECK(softgpu_truth(0, truth, 4) == 2);
	for (int i = 0; i < 2; i++)
		CHECK(truth[i].physical_bytes == (truth[i].pid == holder ? 48 : 8) * MIB);
	while (available == 8 * MIB) {
		CHECK(now_ms() - died < 100000);
		pause_ms(10);
		OK(cuMemGetInfo_v2(&available, &total));
	}
	CHECK(now_ms() - died >= 2000 && available == 56 * MIB);
	CHECK(softgpu_truth(0, truth, 4) == 1);
}

static struct softgpu_truth own_truth(int device)
{
	struct softgpu_truth truth[4];
	int count = softgpu_truth(device, truth, 4);
	for (int i = 0; i < count && i < 4; i++)
		if (truth[i].pid == getpid())
			return truth[i];
	return (struct softgpu_truth){0};
}

/* Memory of the host and mappings, as they come and go. */
static void books(void)
{
	start();
	CUmemGenericAllocationHandle device, host;
	CUdeviceptr base, managed;
	void *pinned;
	static char own[8192] __attribute__((aligned(4096)));
	CHECK(own_truth(0).host_bytes == 0 && own_truth(0).mapped_bytes == 0);
	OK(create_on(CU_MEM_LOCATION_TYPE_DEVICE, &device));
	OK(create_on(nowhere_else, &host));
	CHECK(own_truth(0).host_bytes == 2 * MIB);
	OK(cuMemAddressReserve(&base, 8 * MIB, 0, 0, 0));
	OK(cuMemMap(base, 2 * MIB, 0, device, 0));
	OK(cuMemMap(base + 2 * MIB, 2 * MIB, 0, host, 0));
	OK(cuMemMap(base + 4 * MIB, 2 * MIB, 0, device, 0)); /* the same bytes again */
	CHECK(own_truth(0).mapped_bytes == 4 * MIB);
	CHECK(own_truth(0).physical_bytes == 10 * MIB);
	OK(cuMemUnmap(base, 6 * MIB));
	OK(cuMemRelease(host));
	CHECK(own_truth(0).mapped_bytes == 0 && own_truth(0).host_bytes == 0);
	OK(cuMemHostAlloc(&pinned, 10000, 0));
	OK(cuMemHostRegister_v2(own, sizeof(own), 0));
	CHECK(own_truth(0).host_bytes == 12288 + 8192);
	OK(cuMemHostUnregister(own));
	OK(cuMemFreeHost(pinned));
	OK(cuMemAllocManaged(&managed, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
	CHECK(own_truth(0).host_bytes == 4 * MIB);
	OK(cuMemPrefetchAsync(managed, 2 * MIB, 0, NULL));
	OK(cuCtxSynchronize());
	CHECK(own_truth(0).host_bytes == 2 * MIB && own_truth(0).physical_bytes == 12 * MIB);
	OK(cuMemFree_v2(managed));
	CHECK(own_truth(0).host_bytes == 0 && own_truth(0).physical_bytes == 10 * MIB);
}

int main(void)
{
	int failed = 0;
	failed += RUN(attributes, "SOFTGPU_ATTRIBUTES=MULTIPROCESSOR_COUNT=108,"
	                          "CU_DEVICE_ATTRIBUTE_CLOCK_RATE=0x10,NUMA_ID=-3");
	failed += RUN(without, "SOFTGPU_ATTRIBUTES=HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED=0,"
	                       "MEMORY_POOLS_SUPPORTED=0,MANAGED_MEMORY=0");
	failed += RUN(without_virtual_memory,
	              "SOFTGPU_ATTRIBUTES=VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED=0");
	failed += RUN(granularity, "SOFTGPU_GRANULARITY=8M");
	failed += RUN(older_driver, "SOFTGPU_DRIVER_VERSION=11060 SOFTGPU_QUIET=1");
	failed += RUN(typing_errors, "SOFTGPU_DRIVER_VERSION=13x SOFTGPU_GRANULARITY=3M "
	                             "SOFTGPU_ATTRIBUTES=WARP=64,WARP_SIZE=64 SOFTGPU_DEVICES=99");
	failed += RUN(release_delay, "SOFTGPU_RELEASE_DELAY_MS=2000 SOFTGPU_MEMORY=64M");
	failed += RUN(books, NULL);
	return failed != 0;
}
