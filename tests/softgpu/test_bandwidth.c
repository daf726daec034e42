/* SPDX-License-Identifier: MIT */
/*
 * Tests of SOFTGPU_HOST_BANDWIDTH: copies and kernels that use host memory never take less than the
 * time of the link, by the driver's own clock. Other ones can take less, if the machine lets them
 * in one of many tries.
 */
#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

#define CHUNK (2 * MIB)
#define BYTES (MIB / 4) /* 125 ms at 2 MiB/s */
#define WORDS ((unsigned int)(BYTES / 4))
#define LINK  124.0 /* ms */

static CUevent begin, end;
static CUfunction fill;

static void set_up(void)
{
	CUmodule module;
	start();
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&end, 0));
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&fill, module, "fill"));
}

/* Milliseconds of what is queued between these two. */
static void start_clock(void)
{
	OK(cuEventRecord(begin, NULL));
}

static double stop_clock(void)
{
	float milliseconds;
	OK(cuEventRecord(end, NULL));
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime(&milliseconds, begin, end));
	return (double)milliseconds;
}

static double time_kernel(CUdeviceptr memory, unsigned int count)
{
	unsigned int value = 7;
	void *parameters[] = {&memory, &value, &count};
	start_clock();
	OK(cuLaunchKernel(fill, (count + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
	return stop_clock();
}

static bool can_be_quick(CUdeviceptr memory, unsigned int count)
{
	for (int i = 0; i < 50; i++)
		if (time_kernel(memory, count) < LINK)
			return true;
	return false;
}

/* Two chunks of virtual memory side by side: one on the host, one on the device. */
static CUdeviceptr mixed_memory(void)
{
	CUdeviceptr base;
	CUmemLocationType types[] = {CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_DEVICE};
	OK(cuMemAddressReserve(&base, 2 * CHUNK, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		                              .location = {.type = types[i]}};
		CUmemGenericAllocationHandle handle;
		OK(cuMemCreate(&handle, CHUNK, &wanted, 0));
		OK(cuMemMap(base + (size_t)i * CHUNK, CHUNK, 0, handle, 0));
	}
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	OK(cuMemSetAccess(base, 2 * CHUNK, &access, 1));
	return base;
}

static void virtual_memory(void)
{
	set_up();
	CUdeviceptr base = mixed_memory(), device;
	OK(cuMemAlloc_v2(&device, 2 * BYTES));
	start_clock();
	OK(cuMemsetD8_v2(base, 1, BYTES));
	CHECK(stop_clock() >= LINK);
	start_clock();
	OK(cuMemcpyDtoD_v2(device, base + CHUNK - BYTES,
	                   2 * BYTES)); /* half of it crosses the link */
	CHECK(stop_clock() >= LINK);
	CHECK(time_kernel(base, WORDS) >= LINK);
	/* Each kernel pays for what it touches itself. */
	CHECK(can_be_quick(base, 1024));
	CHECK(can_be_quick(base + CHUNK, WORDS));
	/* The bytes are right. */
	unsigned int back[2];
	OK(cuMemcpyDtoH_v2(back, base + 4096, sizeof(back)));
	CHECK(back[0] == 1024 + 7 && back[1] == 1025 + 7);
}

static void other_host_memory(void)
{
	set_up();
	CUdeviceptr managed, device;
	void *pinned;
	OK(cuMemAlloc_v2(&device, BYTES));
	OK(cuMemHostAlloc(&pinned, BYTES, 0));
	start_clock();
	OK(cuMemcpyHtoDAsync_v2(device, pinned, BYTES, NULL));
	CHECK(stop_clock() >= LINK);
	CHECK(time_kernel((CUdeviceptr)pinned, WORDS) >= LINK);
	/* Managed memory while it is on the host, and not when a device has it. */
	OK(cuMemAllocManaged(&managed, BYTES, CU_MEM_ATTACH_GLOBAL));
	CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
	OK(cuMemAdvise_v2(managed, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
	CHECK(time_kernel(managed, WORDS) >= LINK);
	OK(cuMemAdvise_v2(managed, BYTES, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host));
	OK(cuMemPrefetchAsync(managed, BYTES, 0, NULL));
	CHECK(can_be_quick(managed, WORDS));
	CHECK(((unsigned int *)managed)[WORDS - 1] == WORDS - 1 + 7);
}

static uint64_t fetched_bytes(void)
{
	struct softgpu_truth truth[16];
	int count = softgpu_truth(0, truth, 16);
	for (int i = 0; i < count && i < 16; i++)
		if (truth[i].pid == getpid())
			return truth[i].fetched_bytes;
	return 0;
}

/* The books count what kernels touch on the host, and nothing else. */
static void fetched_by_kernels(void)
{
	set_up();
	CUdeviceptr base = mixed_memory();
	OK(cuMemsetD8_v2(base, 1, 2 * CHUNK));
	time_kernel(base + CHUNK, WORDS);
	CHECK(fetched_bytes() == 0);
	time_kernel(base, WORDS);
	CHECK(fetched_bytes() == BYTES);
	time_kernel(base + CHUNK - BYTES / 2, WORDS);
	CHECK(fetched_bytes() == BYTES + BYTES / 2);
}

static void copies_of_mixed_memory(void)
{
	static char host[2 * BYTES];
	set_up();
	CUdeviceptr base = mixed_memory(), middle = base + CHUNK - BYTES, memory;
	CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                     .srcDevice = middle,
	                     .srcPitch = BYTES,
	                     .dstMemoryType = CU_MEMORYTYPE_HOST,
	                     .dstHost = host,
	                     .dstPitch = 16,
	                     .WidthInBytes = 16,
	                     .Height = 2};
	OK(cuMemAlloc_v2(&memory, 2 * BYTES));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(memory, middle, 2 * BYTES));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(middle, memory, 2 * BYTES));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(middle, host, 2 * BYTES));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, middle, BYTES + 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&box));
	/* What is in one place is copied, between the two places as well. */
	OK(cuMemcpyHtoD_v2(middle, host, BYTES));
	OK(cuMemcpyDtoD_v2(middle + BYTES, middle, BYTES));
	OK(cuMemcpyDtoH_v2(host, middle + BYTES, BYTES));
	OK(cuMemsetD8_v2(middle, 1, 2 * BYTES));
}

int main(void)
{
	int failed = 0;
	failed += RUN(virtual_memory, "SOFTGPU_HOST_BANDWIDTH=2M");
	failed += RUN(other_host_memory, "SOFTGPU_HOST_BANDWIDTH=2M");
	failed += RUN(fetched_by_kernels, "SOFTGPU_HOST_BANDWIDTH=64G");
	failed += RUN(copies_of_mixed_memory, "SOFTGPU_NO_MIXED=1");
	return failed != 0;
}
