/* SPDX-License-Identifier: MIT */
/*
 * Tests of strictness: each mistake that hardware punishes is an error here, is named on stderr,
 * and breaks the context where it breaks it there. Nothing crashes.
 */
#include <fcntl.h>
#include <semaphore.h>

#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

/* The driver's answers so far. */
static char said[4096];

static void listen(void)
{
	char name[] = "/tmp/softgpu-strict.XXXXXX";
	int file = mkstemp(name);
	CHECK(file >= 0 && unlink(name) == 0);
	CHECK(dup2(file, STDERR_FILENO) == STDERR_FILENO);
	close(file);
}

static bool was_said(const char *text)
{
	ssize_t length = pread(STDERR_FILENO, said, sizeof(said) - 1, 0);
	said[length > 0 ? length : 0] = '\0';
	if (!strstr(said, text))
		printf("      '%s' was not said; but:\n%s", text, said);
	return strstr(said, text) != NULL;
}

static bool address_was_said(CUdeviceptr address)
{
	char text[32];
	snprintf(text, sizeof(text), "%#llx", address);
	return was_said(text);
}

static CUfunction kernel(const char *name)
{
	CUmodule module;
	CUfunction function;
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

/* Writes one word by thread 0, as all of these mistakes do. */
static CUresult fill_one(CUfunction fill, CUdeviceptr address, CUstream stream)
{
	unsigned int value = 7, count = 1;
	void *parameters[] = {&address, &value, &count};
	return cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

/* All calls of the context answer the error, and a new context does not. */
static void expect_broken(CUresult error)
{
	CUdeviceptr memory;
	CUevent event;
	CUcontext context;
	EXPECT(error, cuCtxSynchronize());
	EXPECT(error, cuMemAlloc_v2(&memory, 16));
	EXPECT(error, cuEventCreate(&event, 0));
	EXPECT(error, cuStreamQuery(NULL));
	OK(cuDevicePrimaryCtxReset_v2(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	OK(cuMemAlloc_v2(&memory, 16));
	OK(fill_one(kernel("fill"), memory, NULL));
	OK(cuCtxSynchronize());
}

/* A kernel that writes where it must not, and says who did. */
static void expect_fault(CUdeviceptr address, CUresult error, const char *name)
{
	OK(fill_one(kernel("fill"), address, NULL));
	EXPECT(error, cuCtxSynchronize());
	CHECK(was_said(name) && was_said("in kernel fill, block (0,0,0), thread (0,0,0)"));
	CHECK(address_was_said(address));
	expect_broken(error);
}

static void expect_illegal(CUdeviceptr address)
{
	expect_fault(address, CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

static void kernel_after_free(void)
{
	CUdeviceptr memory;
	listen();
	start();
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	OK(cuMemFree_v2(memory));
	expect_illegal(memory + 4);
}

static void kernel_after_free_of_host_memory(void)
{
	void *memory;
	listen();
	start();
	OK(cuMemHostAlloc(&memory, 4096, 0));
	OK(cuMemFreeHost(memory));
	expect_illegal((CUdeviceptr)memory);
}

static void kernel_out_of_range(void)
{
	CUdeviceptr memory;
	listen();
	start();
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	expect_illegal(memory + 4 * MIB);
}

static void kernel_at_nothing(void)
{
	listen();
	start();
	expect_illegal(0);
}

static void kernel_on_pageable_memory(void)
{
	static unsigned int word;
	listen();
	start();
	expect_illegal((CUdeviceptr)&word);
}

static void kernel_misaligned(void)
{
	CUdeviceptr memory;
	listen();
	start();
	OK(cuMemAlloc_v2(&memory, 16));
	expect_fault(memory + 2, CUDA_ERROR_MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS");
}

static const CUmemLocation device_0 = {.type = CU_MEM_LOCATION_TYPE_DEVICE};

static CUdeviceptr mapping(void)
{
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = device_0};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;
	OK(cuMemCreate(&handle, 2 * MIB, &wanted, 0));
	OK(cuMemAddressReserve(&base, 2 * MIB, 0, 0, 0));
	OK(cuMemMap(base, 2 * MIB, 0, handle, 0));
	return base;
}

static void allow(CUdeviceptr base, CUmemAccess_flags flags)
{
	CUmemAccessDesc access = {.location = device_0, .flags = flags};
	OK(cuMemSetAccess(base, 2 * MIB, &access, 1));
}

static void kernel_after_unmap(void)
{
	listen();
	start();
	CUdeviceptr base = mapping();
	allow(base, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	OK(cuMemUnmap(base, 2 * MIB));
	expect_illegal(base);
}

/* Says that it runs, in memory of the host, and reads the first word until it is not 0. */
static const char polls[] = ".version 7.0\n"
                            ".target sm_70\n"
                            ".address_size 64\n"
                            ".visible .entry poll(.param .u64 word, .param .u64 runs)\n"
                            "{\n"
                            "	.reg .pred %p<2>;\n"
                            "	.reg .b32 %r<3>;\n"
                            "	.reg .b64 %rd<3>;\n"
                            "	ld.param.u64 %rd1, [word];\n"
                            "	ld.param.u64 %rd2, [runs];\n"
                            "	mov.u32 %r1, 1;\n"
                            "	st.volatile.global.u32 [%rd2], %r1;\n"
                            "again:\n"
                            "	ld.volatile.global.u32 %r2, [%rd1];\n"
                            "	setp.eq.u32 %p1, %r2, 0;\n"
                            "	@%p1 bra again;\n"
                            "	ret;\n"
                            "}\n";

/* A kernel that is running when its memory is unmapped faults, too. */
static void kernel_running_at_unmap(void)
{
	CUmodule module;
	CUfunction poll;
	unsigned int *runs;
	listen();
	start();
	OK(cuModuleLoadData(&module, polls));
	OK(cuModuleGetFunction(&poll, module, "poll"));
	OK(cuMemHostAlloc((void **)&runs, 4, 0));
	*runs = 0;
	CUdeviceptr base = mapping();
	allow(base, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	OK(cuMemsetD32_v2(base, 0, 1));
	void *parameters[] = {&base, &runs};
	OK(cuLaunchKernel(poll, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	while (!__atomic_load_n(runs, __ATOMIC_ACQUIRE))
		usleep(1000);
	EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(NULL));
	OK(cuMemUnmap(base, 2 * MIB));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	CHECK(was_said("CUDA_ERROR_ILLEGAL_ADDRESS") && address_was_said(base));
	expect_broken(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void kernel_without_access(void)
{
	listen();
	start();
	expect_illegal(mapping());
}

static void kernel_writes_what_is_read_only(void)
{
	listen();
	start();
	CUdeviceptr base = mapping();
	allow(base, CU_MEM_ACCESS_FLAGS_PROT_READ);
	expect_illegal(base);
}

static void kernel_on_a_stranger(void)
{
	CUcontext second;
	CUdeviceptr memory;
	listen();
	CUcontext first = start();
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	OK(cuCtxSetCurrent(first));
	expect_illegal(memory);
	/* The other device's context is as it was. */
	OK(cuCtxSetCurrent(second));
	OK(cuMemsetD8_v2(memory, 1, 4 * MIB));
	OK(cuCtxSynchronize());
}

static void wait_for(void *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

static sem_t gate;

/* A stream that waits, so that what is queued there meets what the test does meanwhile. */
static CUstream waiting_stream(void)
{
	CUstream stream;
	sem_init(&gate, 0, 0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuLaunchHostFunc(stream, wait_for, &gate));
	return stream;
}

/* Both sides of a copy, and of a fill: the memory goes away while the work is queued. */
static void copy_after_unmap(void)
{
	static char host[4096];
	listen();
	start();
	CUdeviceptr base = mapping(), memory;
	allow(base, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	OK(cuMemAlloc_v2(&memory, 2 * MIB));
	CUstream stream = waiting_stream();
	OK(cuMemcpyDtoDAsync_v2(memory, base, 2 * MIB, stream));
	OK(cuMemUnmap(base, 2 * MIB));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoHAsync_v2(host, base, 16, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoDAsync_v2(base, host, 16, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8Async(base, 0, 16, stream));
	sem_post(&gate);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	CHECK(was_said("a copy of") && address_was_said(base));
	expect_broken(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void copy_into_what_is_read_only(void)
{
	listen();
	start();
	CUdeviceptr base = mapping();
	allow(base, CU_MEM_ACCESS_FLAGS_PROT_READ);
	char text[] = "not to be written";
	CUresult result = cuMemcpyHtoD_v2(base, text, sizeof(text));
	CHECK(result == CUDA_ERROR_ILLEGAL_ADDRESS);
	CHECK(was_said("a copy of") && address_was_said(base));
	expect_broken(CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void fill_after_unmap(void)
{
	listen();
	start();
	CUdeviceptr base = mapping();
	allow(base, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUstream stream = waiting_stream();
	OK(cuMemsetD32Async(base + 512, 0, 16, stream));
	OK(cuMemUnmap(base, 2 * MIB));
	sem_post(&gate);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
	CHECK(was_said("a memset at") && address_was_said(base + 512));
	expect_broken(CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Calls that can see the mistake refuse it and break nothing. */
static void plain_calls_after_free(void)
{
	char host[16];
	CUdeviceptr memory;
	listen();
	start();
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, memory + 4 * MIB - 8, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(memory + 4 * MIB - 8, 0, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD32_v2(memory + 2, 0, 1));
	OK(cuMemFree_v2(memory));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoH_v2(host, memory, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(memory, host, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(memory, 0, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(memory));
	OK(cuCtxSynchronize());
}

/* A destroyed handle is never that of a new object. */
static void destroyed_handles(void)
{
	CUstream stream, next;
	CUevent event;
	CUdeviceptr memory;
	listen();
	start();
	CUfunction fill = kernel("fill");
	OK(cuMemAlloc_v2(&memory, 16));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamDestroy_v2(stream));
	for (int i = 0; i < 100; i++) {
		OK(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING));
		CHECK(next != stream);
		OK(cuStreamDestroy_v2(next));
	}
	EXPECT(CUDA_ERROR_INVALID_HANDLE, fill_one(fill, memory, stream));
	char text[64];
	snprintf(text, sizeof(text), "stream %p is used after it was destroyed", (void *)stream);
	CHECK(was_said(text));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMemcpyDtoDAsync_v2(memory, memory, 4, stream));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(stream));
	OK(cuEventCreate(&event, 0));
	OK(cuEventDestroy_v2(event));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, NULL));
	snprintf(text, sizeof(text), "event %p is used after it was destroyed", (void *)event);
	CHECK(was_said(text));
	OK(cuCtxSynchronize());
}

int main(void)
{
	int failed = 0;
	failed += RUN(kernel_after_free, NULL);
	failed += RUN(kernel_after_free_of_host_memory, NULL);
	failed += RUN(kernel_out_of_range, NULL);
	failed += RUN(kernel_at_nothing, NULL);
	failed += RUN(kernel_on_pageable_memory, NULL);
	failed += RUN(kernel_misaligned, NULL);
	failed += RUN(kernel_after_unmap, NULL);
	failed += RUN(kernel_running_at_unmap, NULL);
	failed += RUN(kernel_without_access, NULL);
	failed += RUN(kernel_writes_what_is_read_only, NULL);
	failed += RUN(kernel_on_a_stranger, "SOFTGPU_DEVICES=2");
	failed += RUN(copy_after_unmap, NULL);
	failed += RUN(copy_into_what_is_read_only, NULL);
	failed += RUN(fill_after_unmap, NULL);
	failed += RUN(plain_calls_after_free, NULL);
	failed += RUN(destroyed_handles, NULL);
	return failed != 0;
}
