/* SPDX-License-Identifier: MIT */
/* Tests of memory: plain, virtual, pinned, managed, pooled; the books; copies and fills. */
#include <setjmp.h>
#include <signal.h>

#include "tests/softgpu/test.h"

static sigjmp_buf faulted;

static void on_fault(int signal)
{
	siglongjmp(faulted, signal);
}

/* Returns whether the host may touch the byte. */
static bool host_can_read(CUdeviceptr address)
{
	struct sigaction action = {.sa_handler = on_fault}, before;
	sigaction(SIGSEGV, &action, &before);
	bool can = sigsetjmp(faulted, 1) == 0;
	if (can)
		(void)*(volatile char *)address;
	sigaction(SIGSEGV, &before, NULL);
	return can;
}

static void plain_memory(void)
{
	start();
	uint64_t context_bytes = physical_bytes(0);
	CUdeviceptr memory, small, base;
	size_t size, free_before, free_after, total;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&memory, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(NULL, 16));
	OK(cuMemGetInfo_v2(&free_before, &total));
	CHECK(total == 64 * MIB && free_before == 56 * MIB);
	OK(cuMemAlloc_v2(&memory, 3 * MIB));
	CHECK(memory % 512 == 0 && physical_bytes(0) == context_bytes + 4 * MIB);
	OK(cuMemGetInfo_v2(&free_after, &total));
	CHECK(free_after == free_before - 4 * MIB);
	OK(cuMemGetAddressRange_v2(&base, &size, memory + 100));
	CHECK(base == memory && size == 3 * MIB);
	CHECK(!host_can_read(memory));
	/* Small ones share a block. */
	CUdeviceptr blocks[1000];
	for (int i = 0; i < 1000; i++) {
		OK(cuMemAlloc_v2(&blocks[i], 1000));
		CHECK(blocks[i] % 512 == 0);
	}
	CHECK(physical_bytes(0) == context_bytes + 6 * MIB);
	for (int i = 0; i < 1000; i++)
		OK(cuMemFree_v2(blocks[i]));
	CHECK(physical_bytes(0) == context_bytes + 4 * MIB);
	OK(cuMemAlloc_v2(&small, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(small + 1));
	OK(cuMemFree_v2(small));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(small));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(memory + 512));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(0x1234));
	OK(cuMemFree_v2(0));
	OK(cuMemFree_v2(memory));
	EXPECT(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange_v2(&base, &size, memory));
	CHECK(physical_bytes(0) == context_bytes);
}

static void out_of_memory(void)
{
	start();
	CUdeviceptr memory[32], more;
	int count = 0;
	while (count < 32 && cuMemAlloc_v2(&memory[count], 4 * MIB) == CUDA_SUCCESS)
		count++;
	CHECK(count == 14);
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&more, 1));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&more, 1ULL << 50));
	OK(cuMemFree_v2(memory[3]));
	OK(cuMemAlloc_v2(&more, 4 * MIB));
	CUcontext context;
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuCtxCreate_v2(&context, 0, 0));
}

static void pitched(void)
{
	start();
	CUdeviceptr memory;
	size_t pitch;
	OK(cuMemAllocPitch_v2(&memory, &pitch, 100, 10, 4));
	CHECK(pitch == 512);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&memory, &pitch, 100, 10, 3));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAllocPitch_v2(&memory, &pitch, 0, 10, 4));
	char tile[1000], back[1000];
	for (size_t i = 0; i < sizeof(tile); i++)
		tile[i] = (char)i;
	CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
	                    .srcHost = tile,
	                    .srcPitch = 100,
	                    .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                    .dstDevice = memory,
	                    .dstPitch = pitch,
	                    .WidthInBytes = 100,
	                    .Height = 10};
	OK(cuMemcpy2D_v2(&up));
	CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                      .srcDevice = memory,
	                      .srcPitch = pitch,
	                      .dstMemoryType = CU_MEMORYTYPE_HOST,
	                      .dstHost = back,
	                      .dstPitch = 100,
	                      .WidthInBytes = 100,
	                      .Height = 10};
	OK(cuMemcpy2DUnaligned_v2(&down));
	CHECK(memcmp(tile, back, sizeof(tile)) == 0);
	down.Height = 11;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&down));
	down.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMemcpy2D_v2(&down));
	OK(cuMemFree_v2(memory));
}

static void copies(void)
{
	start();
	CUdeviceptr a, b;
	static unsigned char host[3 * MIB], back[3 * MIB];
	for (size_t i = 0; i < sizeof(host); i++)
		host[i] = (unsigned char)(i * 7);
	OK(cuMemAlloc_v2(&a, sizeof(host)));
	OK(cuMemAlloc_v2(&b, sizeof(host)));
	OK(cuMemcpyHtoD_v2(a, host, sizeof(host)));
	OK(cuMemcpyDtoD_v2(b, a, sizeof(host)));
	OK(cuMemcpyDtoH_v2(back, b, sizeof(back)));
	CHECK(memcmp(host, back, sizeof(host)) == 0);
	memset(back, 0, sizeof(back));
	OK(cuMemcpy((CUdeviceptr)back, b, sizeof(back)));
	CHECK(memcmp(host, back, sizeof(host)) == 0);
	OK(cuMemcpyDtoH_v2(back, b + 5, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(back, b + 1, sizeof(back)));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a + 1, host, sizeof(host)));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2((CUdeviceptr)back, host, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a, (void *)b, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(0, host, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(a, NULL, 16));
	/* Pageable memory is staged: what it holds later does not matter. */
	CUstream stream;
	OK(cuStreamCreate(&stream, 0));
	char word[8] = "before";
	OK(cuMemcpyHtoDAsync_v2(a, word, sizeof(word), stream));
	strcpy(word, "after");
	OK(cuMemcpyDtoHAsync_v2(word, a, sizeof(word), stream));
	CHECK(strcmp(word, "before") == 0);
	OK(cuMemsetD32_v2(a, 0x01020304, 100));
	OK(cuMemsetD16Async(a + 4, 0x0506, 2, stream));
	OK(cuMemsetD8_v2(a + 12, 9, 1));
	OK(cuStreamSynchronize(stream));
	unsigned int words[4];
	OK(cuMemcpyDtoH_v2(words, a, sizeof(words)));
	CHECK(words[0] == 0x01020304 && words[1] == 0x05060506 && words[3] == 0x01020309);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(a + 2, 0, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(a, 0, sizeof(host) + 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2((CUdeviceptr)host, 0, 16));
	OK(cuMemsetD2D8_v2(a, 512, 1, 100, 3));
	OK(cuStreamDestroy_v2(stream));
	OK(cuMemFree_v2(a));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(back, a, 16));
	OK(cuMemFree_v2(b));
}

static CUmemAllocationProp properties(CUmemLocationType type, int id)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                             .location = {.type = type, .id = id}};
}

static const CUmemAccessDesc read_write = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
};

static void virtual_memory(void)
{
	start();
	uint64_t before = physical_bytes(0);
	CUmemAllocationProp device = properties(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	size_t granularity;
	OK(cuMemGetAllocationGranularity(&granularity, &device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	CHECK(granularity == 2 * MIB);
	CUdeviceptr base, range;
	size_t range_size;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&base, 1000, 0, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressReserve(&base, 0, 0, 0, 0));
	OK(cuMemAddressReserve(&base, 1ULL << 33, 32 * MIB, 0, 0));
	CHECK(base % (32 * MIB) == 0 && physical_bytes(0) == before);
	CUmemGenericAllocationHandle one, two, same;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&one, 0, &device, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&one, 100, &device, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&one, 2 * MIB, NULL, 0));
	OK(cuMemCreate(&one, 2 * MIB, &device, 0));
	OK(cuMemCreate(&two, 4 * MIB, &device, 0));
	CHECK(physical_bytes(0) == before + 6 * MIB);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, 4 * MIB, 0, one, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(base + 4096, 2 * MIB, 0, one, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, 2 * MIB, 0, 0x1234, 0));
	OK(cuMemMap(base, 2 * MIB, 0, one, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemMap(base, 2 * MIB, 0, one, 0));
	OK(cuMemMap(base + 2 * MIB, 4 * MIB, 0, two, 0));
	/* Mapped, but nobody may access it yet. */
	char text[16] = "spillway", back[16];
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(base, text, sizeof(text)));
	OK(cuMemSetAccess(base, 6 * MIB, &read_write, 1));
	unsigned long long flags;
	OK(cuMemGetAccess(&flags, &read_write.location, base));
	CHECK(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	/* A copy may run over several mappings. */
	OK(cuMemcpyHtoD_v2(base + 2 * MIB - 8, text, sizeof(text)));
	OK(cuMemcpyDtoH_v2(back, base + 2 * MIB - 8, sizeof(back)));
	CHECK(strcmp(back, text) == 0 && !host_can_read(base));
	OK(cuMemGetAddressRange_v2(&range, &range_size, base + 3 * MIB));
	CHECK(range == base + 2 * MIB && range_size == 4 * MIB);
	OK(cuMemRetainAllocationHandle(&same, (void *)(base + 3 * MIB)));
	CHECK(same == two);
	OK(cuMemRelease(two));
	OK(cuMemRelease(two));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(two));
	CHECK(physical_bytes(0) == before + 6 * MIB); /* still mapped */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base + 2 * MIB, 2 * MIB));
	OK(cuMemUnmap(base + 2 * MIB, 4 * MIB));
	CHECK(physical_bytes(0) == before + 2 * MIB);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemUnmap(base + 2 * MIB, 4 * MIB));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(back, base + 2 * MIB, 8));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 1ULL << 33)); /* one is mapped */
	OK(cuMemUnmap(base, 2 * MIB));
	CHECK(physical_bytes(0) == before + 2 * MIB);
	/* The bytes belong to the handle, not to the address. */
	OK(cuMemMap(base + 64 * MIB, 2 * MIB, 0, one, 0));
	OK(cuMemSetAccess(base + 64 * MIB, 2 * MIB, &read_write, 1));
	OK(cuMemcpyDtoH_v2(back, base + 66 * MIB - 8, 8));
	CHECK(memcmp(back, text, 8) == 0);
	OK(cuMemUnmap(base + 64 * MIB, 2 * MIB));
	OK(cuMemRelease(one));
	CHECK(physical_bytes(0) == before);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(base, 2 * MIB));
	OK(cuMemAddressFree(base, 1ULL << 33));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(base));
}

static void host_virtual_memory(void)
{
	start();
	uint64_t before = physical_bytes(0);
	static const CUmemLocationType types[] = {CU_MEM_LOCATION_TYPE_HOST,
	                                          CU_MEM_LOCATION_TYPE_HOST_NUMA};
	CUmemAllocationProp current = properties(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
	CUmemGenericAllocationHandle none;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&none, 2 * MIB, &current, 0));
	for (int i = 0; i < 2; i++) {
		CUmemAllocationProp host = properties(types[i], 0), found;
		CUmemGenericAllocationHandle handle;
		CUdeviceptr base;
		unsigned int type;
		OK(cuMemCreate(&handle, 2 * MIB, &host, 0));
		CHECK(physical_bytes(0) == before);
		OK(cuMemGetAllocationPropertiesFromHandle(&found, handle));
		CHECK(found.location.type == types[i]);
		OK(cuMemAddressReserve(&base, 2 * MIB, 0, 0, 0));
		OK(cuMemMap(base, 2 * MIB, 0, handle, 0));
		OK(cuMemSetAccess(base, 2 * MIB, &read_write, 1));
		OK(cuMemsetD8_v2(base, 1, 2 * MIB));
		OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base));
		CHECK(type == CU_MEMORYTYPE_HOST);
		OK(cuCtxSynchronize());
		OK(cuMemUnmap(base, 2 * MIB));
		OK(cuMemRelease(handle));
		OK(cuMemAddressFree(base, 2 * MIB));
	}
}

static void without_host_numa(void)
{
	start();
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp numa = properties(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
	CUmemAllocationProp host = properties(CU_MEM_LOCATION_TYPE_HOST, 0);
	int value;
	OK(cuDeviceGetAttribute(
	    &value, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
	CHECK(value == 0);
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemCreate(&handle, 2 * MIB, &numa, 0));
	OK(cuMemCreate(&handle, 2 * MIB, &host, 0));
	OK(cuMemRelease(handle));
}

static void pinned(void)
{
	start();
	void *memory;
	CUdeviceptr address, device;
	unsigned int type, flags;
	OK(cuMemHostAlloc(&memory, 8192, CU_MEMHOSTALLOC_DEVICEMAP));
	strcpy(memory, "pinned");
	OK(cuMemHostGetDevicePointer_v2(&address, memory, 0));
	OK(cuMemHostGetFlags(&flags, memory));
	CHECK(flags & CU_MEMHOSTALLOC_DEVICEMAP);
	OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	CHECK(type == CU_MEMORYTYPE_HOST);
	OK(cuMemAlloc_v2(&device, 8192));
	OK(cuMemcpyHtoD_v2(device, memory, 8192));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(device, (char *)memory + 1, 8192));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost((char *)memory + 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2((CUdeviceptr)memory));
	OK(cuMemFreeHost(memory));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(memory));
	char *own = aligned_alloc(4096, 8192);
	OK(cuMemHostRegister_v2(own, 8192, 0));
	EXPECT(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cuMemHostRegister_v2(own, 4096, 0));
	OK(cuMemHostGetDevicePointer_v2(&address, own + 10, 0));
	CHECK(address == (CUdeviceptr)own + 10);
	OK(cuMemHostUnregister(own));
	EXPECT(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(own));
	free(own);
	OK(cuMemFree_v2(device));
}

static void managed(void)
{
	start();
	uint64_t before = physical_bytes(0);
	CUdeviceptr memory, huge;
	int is_managed, where;
	OK(cuMemAllocManaged(&memory, 5 * MIB, CU_MEM_ATTACH_GLOBAL));
	memset((void *)memory, 3, 5 * MIB);
	CHECK(physical_bytes(0) == before);
	OK(cuPointerGetAttribute(&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
	CHECK(is_managed);
	OK(cuMemPrefetchAsync(memory, 5 * MIB, 0, NULL));
	OK(cuCtxSynchronize());
	CHECK(physical_bytes(0) == before + 6 * MIB);
	OK(cuMemRangeGetAttribute(&where, sizeof(where),
	                          CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, 5 * MIB));
	CHECK(where == 0);
	OK(cuMemAdvise(memory, 5 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
	OK(cuMemRangeGetAttribute(&where, sizeof(where), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
	                          memory, MIB));
	CHECK(where == CU_DEVICE_CPU);
	CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST};
	OK(cuMemPrefetchAsync_v2(memory, 5 * MIB, host, 0, NULL));
	OK(cuCtxSynchronize());
	CHECK(physical_bytes(0) == before);
	/* More than the device has is no error: what does not fit stays where it is. */
	OK(cuMemAllocManaged(&huge, 100 * MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemPrefetchAsync(huge, 100 * MIB, 0, NULL));
	OK(cuCtxSynchronize());
	CHECK(physical_bytes(0) == 64 * MIB);
	OK(cuMemFree_v2(huge));
	OK(cuMemFree_v2(memory));
	CHECK(physical_bytes(0) == before);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemAdvise(memory, MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
}

static int prefetched_to(CUdeviceptr memory, size_t size)
{
	int where = 99;
	OK(cuMemRangeGetAttribute(&where, sizeof(where),
	                          CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, memory, size));
	return where;
}

static bool holds(CUdeviceptr memory, size_t size, unsigned char value)
{
	const unsigned char *at = (const unsigned char *)memory;
	return at[0] == value && memcmp(at, at + 1, size - 1) == 0;
}

static void managed_batches(void)
{
	start();
	uint64_t before = physical_bytes(0);
	CUstream stream;
	CUdeviceptr at[3];
	size_t sizes[3] = {2 * MIB, 4 * MIB, 2 * MIB}, first[2] = {0, 2}, swapped[2] = {2, 1};
	CUmemLocation to[2] = {{.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                       {.type = CU_MEM_LOCATION_TYPE_HOST}};
	CUmemLocation absent = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 7};
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 3; i++) {
		OK(cuMemAllocManaged(&at[i], sizes[i], CU_MEM_ATTACH_GLOBAL));
		memset((void *)at[i], i + 1, sizes[i]);
	}
	/* A location holds up to the next one's first range. */
	OK(cuMemPrefetchBatchAsync(at, sizes, 3, to, first, 2, 0, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(physical_bytes(0) == before + 6 * MIB);
	CHECK(prefetched_to(at[0], sizes[0]) == 0 && prefetched_to(at[1], sizes[1]) == 0);
	CHECK(prefetched_to(at[2], sizes[2]) == CU_DEVICE_CPU);
	for (int i = 0; i < 3; i++)
		CHECK(holds(at[i], sizes[i], (unsigned char)(i + 1)));
	/* What is discarded stays where it is, and is not to be read. */
	OK(cuMemDiscardBatchAsync(at, sizes, 1, 0, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(physical_bytes(0) == before + 6 * MIB);
	CHECK(!holds(at[0], sizes[0], 1) && holds(at[1], sizes[1], 2));
	/* Both at once, of a part */
	CUdeviceptr part = at[1] + 2 * MIB;
	OK(cuMemDiscardAndPrefetchBatchAsync(&part, sizes, 1, &to[1], first, 1, 0, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(physical_bytes(0) == before + 4 * MIB);
	CHECK(holds(at[1], 2 * MIB, 2) && !holds(part, 2 * MIB, 2));
	CHECK(prefetched_to(part, 2 * MIB) == CU_DEVICE_CPU && prefetched_to(at[1], 2 * MIB) == 0);
	/* A batch is refused as a whole. */
	CUdeviceptr wrong[2] = {at[2], 12345};
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemPrefetchBatchAsync(wrong, sizes, 2, to, first, 1, 0, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemDiscardBatchAsync(wrong, sizes, 2, 0, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemPrefetchBatchAsync(at, sizes, 3, to, swapped, 2, 0, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemPrefetchBatchAsync(at, sizes, 2, to, first, 2, 0, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemPrefetchBatchAsync(at, sizes, 3, to, first, 2, 1, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemPrefetchBatchAsync(at, sizes, 3, to, first, 2, 0, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemDiscardAndPrefetchBatchAsync(at, sizes, 3, NULL, NULL, 0, 0, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemDiscardBatchAsync(at, sizes, 0, 0, stream));
	EXPECT(CUDA_ERROR_INVALID_DEVICE,
	       cuMemPrefetchBatchAsync(at, sizes, 3, &absent, first, 1, 0, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(holds(at[2], sizes[2], 3) && physical_bytes(0) == before + 4 * MIB);
	for (int i = 0; i < 3; i++)
		OK(cuMemFree_v2(at[i]));
	OK(cuStreamDestroy_v2(stream));
}

static void pools(void)
{
	CUcontext context = start();
	uint64_t before = physical_bytes(0);
	CUmemoryPool pool, found;
	CUdeviceptr a, b, c;
	cuuint64_t bytes;
	CUstream stream, other;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemAllocAsync(&a, 0, stream));
	CHECK(a == 0);
	OK(cuMemFreeAsync(a, stream));
	OK(cuMemAllocAsync(&a, 3 * MIB, stream));
	CHECK(physical_bytes(0) == before + 4 * MIB);
	OK(cuMemsetD8Async(a, 5, 3 * MIB, stream));
	OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
	CHECK(found == pool);
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
	CHECK(bytes == 3 * MIB);
	OK(cuMemFreeAsync(a, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(a, stream));
	OK(cuMemAllocAsync(&b, 3 * MIB, stream)); /* the same stream may reuse it at once */
	CHECK(b == a);
	OK(cuMemFreeAsync(b, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(physical_bytes(0) == before); /* nothing is kept: the threshold is 0 */
	bytes = 64 * MIB;
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &bytes));
	OK(cuMemAllocAsync(&a, 100, stream));
	OK(cuMemAllocAsync(&b, 100, stream));
	OK(cuMemFreeAsync(a, stream));
	OK(cuMemFree_v2(b));
	OK(cuCtxSynchronize());
	CHECK(physical_bytes(0) == before + 2 * MIB);
	OK(cuMemAllocAsync(&c, 100, other));
	CHECK(physical_bytes(0) == before + 2 * MIB);
	OK(cuMemFreeAsync(c, other));
	OK(cuStreamSynchronize(other));
	OK(cuMemPoolTrimTo(pool, 0));
	CHECK(physical_bytes(0) == before);
	CUmemPoolProps wanted = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                         .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemoryPool own;
	OK(cuMemPoolCreate(&own, &wanted));
	OK(cuMemAllocFromPoolAsync(&a, MIB, own, stream));
	OK(cuMemFreeAsync(a, stream));
	OK(cuMemPoolDestroy(own));
	/* The most that a pool may have is in whole blocks. */
	wanted.maxSize = 2048;
	OK(cuMemPoolCreate(&own, &wanted));
	OK(cuMemAllocFromPoolAsync(&a, 64, own, stream));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&b, 3 * MIB, own, stream));
	OK(cuMemFreeAsync(a, stream));
	OK(cuMemPoolDestroy(own));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(own, 0));
	OK(cuStreamSynchronize(stream)); /* the pool lasts until its last free is done */
	CHECK(physical_bytes(0) == before);
	(void)context;
}

static void pointer_attributes(void)
{
	CUcontext context = start(), found;
	CUdeviceptr memory, start_address;
	size_t size;
	unsigned int type;
	int ordinal, is_managed;
	OK(cuMemAlloc_v2(&memory, 1000));
	OK(cuPointerGetAttribute(&found, CU_POINTER_ATTRIBUTE_CONTEXT, memory + 10));
	CHECK(found == context);
	void *host;
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)&type));
	CUpointer_attribute attributes[] = {
	    CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	    CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	    CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *data[] = {&type, &ordinal, &start_address, &size, &is_managed};
	OK(cuPointerGetAttributes(5, attributes, data, memory + 999));
	CHECK(type == CU_MEMORYTYPE_DEVICE && ordinal == 0 && start_address == memory &&
	      size == 1000 && !is_managed);
	OK(cuPointerGetAttributes(5, attributes, data, (CUdeviceptr)&type));
	CHECK(type == 0 && start_address == 0);
	OK(cuMemFree_v2(memory));
}

static void peers(void)
{
	CUcontext first = start(), second;
	CUdeviceptr a, b;
	char text[8] = "peer", back[8];
	int can;
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuDeviceCanAccessPeer(&can, 0, 1));
	CHECK(can);
	OK(cuMemAlloc_v2(&a, 100));
	OK(cuMemcpyHtoD_v2(a, text, sizeof(text)));
	OK(cuCtxEnablePeerAccess(second, 0));
	EXPECT(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(second, 0));
	OK(cuCtxSetCurrent(second));
	OK(cuMemAlloc_v2(&b, 100));
	CHECK(physical_bytes(1) == 10 * MIB);
	OK(cuMemcpyPeer(b, second, a, first, sizeof(text)));
	OK(cuMemcpyDtoH_v2(back, b, sizeof(back)));
	CHECK(strcmp(back, text) == 0);
	EXPECT(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(first));
	OK(cuCtxSetCurrent(first));
	OK(cuCtxDisablePeerAccess(second));
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxReset_v2(1));
}

int main(void)
{
	int failed = 0;
	failed += RUN(plain_memory, "SOFTGPU_MEMORY=64M");
	failed += RUN(out_of_memory, "SOFTGPU_MEMORY=64M");
	failed += RUN(pitched, NULL);
	failed += RUN(copies, NULL);
	failed += RUN(virtual_memory, NULL);
	failed += RUN(host_virtual_memory, NULL);
	failed += RUN(without_host_numa, "SOFTGPU_NO_HOST_NUMA=1");
	failed += RUN(pinned, NULL);
	failed += RUN(managed, "SOFTGPU_MEMORY=64M");
	failed += RUN(managed_batches, "SOFTGPU_MEMORY=64M");
	failed += RUN(pools, NULL);
	failed += RUN(pointer_attributes, NULL);
	failed += RUN(peers, "SOFTGPU_DEVICES=2");
	return failed != 0;
}
