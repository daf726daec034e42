/* SPDX-License-Identifier: MIT */
/* Tests of stream memory operations, batched copies, and copies of boxes between devices. */
#include <time.h>

#include "tests/softgpu/test.h"

static uint32_t *pinned_words(void)
{
	void *memory;
	OK(cuMemHostAlloc(&memory, 4096, 0));
	memset(memory, 0, 4096);
	return memory;
}

static CUstream new_stream(void)
{
	CUstream stream;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

static void store(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static uint32_t load(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static void waits_and_writes(void)
{
	start();
	uint32_t *words = pinned_words();
	CUdeviceptr address = (CUdeviceptr)words, device;
	CUstream stream = new_stream(), other = new_stream();
	OK(cuMemAlloc_v2(&device, 16));
	OK(cuMemsetD32_v2(device, 0, 4));
	OK(cuCtxSynchronize());
	/* The host ends the wait. */
	OK(cuStreamWaitValue32_v2(stream, address, 5, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuStreamWriteValue32_v2(stream, address + 4, 77, 0));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	store(words, 4);
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	CHECK(load(words + 1) == 0);
	store(words, 6);
	OK(cuStreamSynchronize(stream));
	CHECK(load(words + 1) == 77);
	/* Another stream ends it, in device memory. */
	OK(cuStreamWaitValue64_v2(stream, device, 1ULL << 40, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWriteValue32(stream, address + 8, 1, 0));
	OK(cuStreamWriteValue64_v2(other, device, 1ULL << 40, 0));
	OK(cuStreamSynchronize(stream));
	CHECK(load(words + 2) == 1);
	/* The comparison is cyclic; the others are of bits. */
	store(words, 0x80000001);
	OK(cuStreamWaitValue32_v2(stream, address, 0x7fffffff, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuStreamWaitValue32_v2(stream, address, 0x1, CU_STREAM_WAIT_VALUE_AND));
	OK(cuStreamWaitValue32_v2(stream, address, 0xff, CU_STREAM_WAIT_VALUE_NOR));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamWaitValue32(stream, address, 0x2, CU_STREAM_WAIT_VALUE_AND));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	store(words, 2);
	OK(cuStreamSynchronize(stream));
}

static void wrong_operations(void)
{
	start();
	CUdeviceptr address = (CUdeviceptr)pinned_words(), managed, unmapped;
	CUstream stream = new_stream();
	uint32_t local = 0;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(stream, address + 2, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue64_v2(stream, address + 4, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(stream, 0, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuStreamWriteValue32_v2(stream, (CUdeviceptr)&local, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(stream, address, 0, 1));
	OK(cuStreamWriteValue32(stream, address, 0, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWaitValue32_v2(stream, address, 0, 4));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
	       cuStreamWaitValue32_v2(stream, address, 0, CU_STREAM_WAIT_VALUE_FLUSH));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamWriteValue32_v2((CUstream)0x1234, address, 0, 0));
	OK(cuMemAllocManaged(&managed, 16, CU_MEM_ATTACH_GLOBAL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(stream, managed, 0, 0));
	OK(cuMemAddressReserve(&unmapped, 2 * MIB, 0, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32_v2(stream, unmapped, 0, 0));
}

static void batches(void)
{
	start();
	uint32_t *words = pinned_words();
	CUdeviceptr address = (CUdeviceptr)words;
	CUstream stream = new_stream();
	CUstreamBatchMemOpParams ops[4] = {
	    {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
	                    .address = address,
	                    .value = 3}},
	    {.memoryBarrier = {.operation = CU_STREAM_MEM_OP_BARRIER}},
	    {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
	                   .address = address,
	                   .value = 4,
	                   .flags = CU_STREAM_WAIT_VALUE_EQ}},
	    {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
	                    .address = address + 8,
	                    .value64 = 1ULL << 33}},
	};
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(stream, 0, ops, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(stream, 256, ops, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(stream, 4, ops, 1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp(stream, 4, ops, 0)); /* a barrier */
	ops[3].writeValue.address = address + 4;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuStreamBatchMemOp_v2(stream, 4, ops, 0));
	OK(cuStreamQuery(stream)); /* nothing of it was queued */
	CHECK(load(words) == 0);
	ops[3].writeValue.address = address + 8;
	OK(cuStreamBatchMemOp_v2(stream, 4, ops, 0));
	while (load(words) != 3)
		nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	store(words, 4);
	OK(cuStreamSynchronize(stream));
	CHECK(load(words + 3) == 2);
}

/*
 * Unmaps memory under a wait, which is then an illegal address; a context that ends takes its waits
 * along.
 */
static void waits_end(void)
{
	CUcontext context = start();
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = wanted.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;
	CUstream stream = new_stream();
	OK(cuMemCreate(&handle, 2 * MIB, &wanted, 0));
	OK(cuMemAddressReserve(&base, 2 * MIB, 0, 0, 0));
	OK(cuMemMap(base, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(base, 2 * MIB, &access, 1));
	OK(cuStreamWaitValue32_v2(stream, base, 1, CU_STREAM_WAIT_VALUE_EQ));
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	OK(cuMemUnmap(base, 2 * MIB));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuStreamWaitValue32_v2(new_stream(), (CUdeviceptr)pinned_words(), 1, 0));
	OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK(physical_bytes(0) == 2 * MIB);
}

static void without_them(void)
{
	start();
	CUdeviceptr address = (CUdeviceptr)pinned_words();
	CUstream stream = new_stream();
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuStreamWriteValue32(stream, address, 0, 0));
	OK(cuStreamWriteValue32_v2(stream, address, 0, 0));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuStreamWriteValue64_v2(stream, address, 0, 0));
}

static void copy_batches(void)
{
	start();
	CUstream stream = new_stream();
	CUdeviceptr a, b;
	char one[16] = "one", two[16] = "two", back[3][16];
	OK(cuMemAlloc_v2(&a, 64));
	OK(cuMemAlloc_v2(&b, 64));
	uint32_t *gate = pinned_words();
	CUmemcpyAttributes attributes[2] = {
	    {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL},
	    {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};
	CUdeviceptr to[] = {a, a + 16}, from[] = {(CUdeviceptr)one, (CUdeviceptr)two};
	size_t sizes[] = {16, 16}, first[] = {0, 1}, failed = 7;
	/* The first source is read by the call, the second when the stream comes to it. */
	OK(cuStreamWaitValue32_v2(stream, (CUdeviceptr)gate, 1, 0));
	OK(cuMemcpyBatchAsync_v2(to, from, sizes, 2, attributes, first, 2, stream));
	strcpy(one, "gone");
	strcpy(two, "later");
	store(gate, 1);
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(back, a, 32));
	CHECK(strcmp(back[0], "one") == 0 && strcmp(back[1], "later") == 0);
	/* With one wrong copy, none is done. */
	CUdeviceptr wrong[] = {b, b + 60};
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemcpyBatchAsync(wrong, from, sizes, 2, attributes, first, 2, &failed, stream));
	CHECK(failed == 1);
	size_t unordered[] = {0, 0};
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemcpyBatchAsync_v2(to, from, sizes, 2, attributes, unordered, 2, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemcpyBatchAsync_v2(to, from, sizes, 2, attributes, first, 2, NULL));
	attributes[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_INVALID;
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemcpyBatchAsync_v2(to, from, sizes, 2, attributes, first, 2, stream));
	/* A box of 4 x 2 x 2 bytes out of rows of 8 and layers of 3 rows. */
	char box[] = "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKL", packed[16] = "",
	     wanted[16] = "abcdijklyz012345";
	memcpy(wanted + 8, "yz016789", 8);
	CUDA_MEMCPY3D_BATCH_OP op = {
	    .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
	            .op.ptr = {.ptr = (CUdeviceptr)box, .rowLength = 8, .layerHeight = 3}},
	    .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {.ptr = b}},
	    .extent = {.width = 4, .height = 2, .depth = 2},
	    .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY};
	OK(cuMemcpy3DBatchAsync_v2(1, &op, 0, stream));
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(packed, b, 16));
	CHECK(memcmp(packed, wanted, 16) == 0);
	op.src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY;
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemcpy3DBatchAsync(1, &op, &failed, 0, stream));
	CHECK(failed == 0);
}

static void boxes_between_devices(void)
{
	CUcontext first = start(), second;
	CUdeviceptr a, b;
	char text[16] = "abcdefghijklmno", back[16] = "";
	OK(cuMemAlloc_v2(&a, 16));
	OK(cuMemcpyHtoD_v2(a, text, 16));
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	OK(cuMemAlloc_v2(&b, 16));
	OK(cuMemsetD8_v2(b, 0, 16));
	CUDA_MEMCPY3D_PEER what = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                           .srcDevice = a,
	                           .srcContext = first,
	                           .srcPitch = 4,
	                           .srcHeight = 2,
	                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                           .dstDevice = b,
	                           .dstContext = second,
	                           .WidthInBytes = 2,
	                           .Height = 2,
	                           .Depth = 2};
	OK(cuMemcpy3DPeer(&what));
	OK(cuMemcpyDtoH_v2(back, b, 16));
	CHECK(strcmp(back, "abefijmn") == 0);
	what.srcContext = NULL;
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy3DPeerAsync(&what, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DPeer(NULL));
}

static void no_handles_for_ranges(void)
{
	start();
	CUdeviceptr memory;
	int handle, supported = 7;
	OK(cuMemAlloc_v2(&memory, 2 * MIB));
	OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
	CHECK(supported == 0);
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
	       cuMemGetHandleForAddressRange(&handle, memory, 2 * MIB,
	                                     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

int main(void)
{
	int failed = 0;
	failed += RUN(waits_and_writes, NULL);
	failed += RUN(wrong_operations, NULL);
	failed += RUN(batches, NULL);
	failed += RUN(waits_end, NULL);
	failed += RUN(without_them, "SOFTGPU_ATTRIBUTES=CAN_USE_STREAM_MEM_OPS_V1=0,"
	                            "CAN_USE_64_BIT_STREAM_MEM_OPS=0");
	failed += RUN(copy_batches, NULL);
	failed += RUN(boxes_between_devices, "SOFTGPU_DEVICES=2");
	failed += RUN(no_handles_for_ranges, "SOFTGPU_QUIET=1");
	return failed != 0;
}
