/* SPDX-License-Identifier: MIT */
/* Tests of modules and launches, with small kernels in PTX. */
#include <semaphore.h>
#include <stdint.h>
#include <time.h>

#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

static CUmodule load(void)
{
	CUmodule module;
	OK(cuModuleLoadData(&module, kernels));
	return module;
}

static CUfunction function_named(CUmodule module, const char *name)
{
	CUfunction function;
	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

#define COUNT 1000U

static void launch_fill(CUfunction fill, CUdeviceptr memory, unsigned int value, CUstream stream)
{
	unsigned int count = COUNT;
	void *parameters[] = {&memory, &value, &count};
	OK(cuLaunchKernel(fill, (COUNT + 127) / 128, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
}

static void modules(void)
{
	start();
	CUmodule module;
	CUfunction function, again;
	CUdeviceptr address;
	size_t size, offset;
	int value;
	const char *name;
	char log[256] = "";
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&module, NULL));
	EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, ""));
	EXPECT(CUDA_ERROR_INVALID_IMAGE, cuModuleLoadData(&module, "not a program at all"));
	EXPECT(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, "\177ELF\2\1\1"));
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	void *values[] = {log, (void *)sizeof(log)};
	EXPECT(CUDA_ERROR_INVALID_PTX,
	       cuModuleLoadDataEx(&module, ".version 7.0\n.target sm_70\nrubbish", 2, options,
	                          values));
	CHECK(strlen(log) > 0 && (size_t)values[1] == strlen(log));
	EXPECT(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, "/nowhere.ptx"));
	module = load();
	function = function_named(module, "fill");
	OK(cuModuleGetFunction(&again, module, "fill"));
	CHECK(function == again);
	EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&again, module, "nothing"));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&again, NULL, "fill"));
	OK(cuModuleGetGlobal_v2(&address, &size, module, "counter"));
	CHECK(size == 4);
	EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&address, &size, module, "nothing"));
	OK(cuFuncGetName(&name, function));
	CHECK(strcmp(name, "fill") == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(&name, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuKernelGetName(&name, NULL));
	OK(cuFuncGetParamInfo(function, 1, &offset, &size));
	CHECK(offset == 8 && size == 4);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(function, 3, &offset, &size));
	OK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
	CHECK(value == 1024);
	CUmodule found;
	OK(cuFuncGetModule(&found, function));
	CHECK(found == module);
	OK(cuModuleUnload(module));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(module));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuFuncGetAttribute(&value, 0, function));
	CHECK(physical_bytes(0) == 8 * MIB);
}

static void launches(void)
{
	start();
	CUmodule module = load(), bounded;
	CUfunction fill = function_named(module, "fill"), few;
	CUdeviceptr memory;
	CUstream stream;
	unsigned int back[COUNT], value = 7, count = COUNT;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc_v2(&memory, sizeof(back)));
	launch_fill(fill, memory, value, stream);
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(back, memory, sizeof(back)));
	for (unsigned int i = 0; i < COUNT; i++)
		CHECK(back[i] == value + i);
	/* The same by a packed block, and through a launch configuration. */
	struct {
		CUdeviceptr memory;
		unsigned int value, count;
	} block = {memory, 100, COUNT};
	size_t size = sizeof(block);
	void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
	                 CU_LAUNCH_PARAM_END};
	OK(cuLaunchKernel(fill, 8, 1, 1, 128, 1, 1, 0, stream, NULL, extra));
	OK(cuStreamSynchronize(stream));
	OK(cuMemcpyDtoH_v2(back, memory, sizeof(back)));
	CHECK(back[999] == 1099);
	CUlaunchConfig config = {.gridDimX = 8,
	                         .gridDimY = 1,
	                         .gridDimZ = 1,
	                         .blockDimX = 128,
	                         .blockDimY = 1,
	                         .blockDimZ = 1,
	                         .hStream = stream};
	void *parameters[] = {&memory, &value, &count};
	OK(cuLaunchKernelEx(&config, fill, parameters, NULL));
	OK(cuLaunchCooperativeKernel(fill, 8, 1, 1, 128, 1, 1, 0, stream, parameters));
	EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
	       cuLaunchCooperativeKernel(fill, 1000, 1, 1, 1024, 1, 1, 0, stream, parameters));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLaunchKernel(fill, 0, 1, 1, 128, 1, 1, 0, stream, parameters, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLaunchKernel(fill, 1, 1, 1, 2048, 1, 1, 0, stream, parameters, NULL));
	OK(cuModuleLoadData(&bounded, ".version 7.0\n.target sm_70\n.address_size 64\n"
	                              ".visible .entry few() .maxntid 128, 1, 1 { ret; }\n"));
	OK(cuModuleGetFunction(&few, bounded, "few"));
	OK(cuLaunchKernel(few, 1, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLaunchKernel(few, 1, 1, 1, 129, 1, 1, 0, stream, NULL, NULL));
	OK(cuModuleUnload(bounded));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLaunchKernel(fill, 1, 65536, 1, 1, 1, 1, 0, stream, parameters, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 64 << 10, stream, parameters, NULL));
	OK(cuFuncSetAttribute(fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 64 << 10, stream, parameters, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, parameters, extra));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
	       cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, stream, parameters, NULL));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
	       cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, (CUstream)0x1234, parameters, NULL));
	int blocks;
	OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, fill, 1024, 0));
	CHECK(blocks == 2);
	OK(cuCtxSynchronize());
	struct softgpu_truth truth;
	CHECK(softgpu_truth(0, &truth, 1) == 1 && truth.launches == 6 && truth.busy_ns > 0);
	OK(cuMemFree_v2(memory));
}

static void host_memory_in_kernels(void)
{
	start();
	CUmodule module = load();
	CUfunction fill = function_named(module, "fill");
	unsigned int *pinned;
	CUdeviceptr managed;
	uint64_t before = physical_bytes(0);
	OK(cuMemAllocHost_v2((void **)&pinned, COUNT * 4));
	launch_fill(fill, (CUdeviceptr)pinned, 5, NULL);
	OK(cuCtxSynchronize());
	CHECK(pinned[0] == 5 && pinned[999] == 1004);
	OK(cuMemAllocManaged(&managed, COUNT * 4, CU_MEM_ATTACH_GLOBAL));
	launch_fill(fill, managed, 6, NULL);
	OK(cuCtxSynchronize());
	CHECK(((unsigned int *)managed)[999] == 1005);
	CHECK(physical_bytes(0) == before + 2 * MIB); /* touched by the device */
	OK(cuMemFree_v2(managed));
	OK(cuMemFreeHost(pinned));
	launch_fill(fill, (CUdeviceptr)pinned, 5, NULL);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

static void globals(void)
{
	start();
	CUmodule module = load();
	CUfunction bump = function_named(module, "bump");
	CUdeviceptr counter;
	unsigned int value;
	OK(cuModuleGetGlobal_v2(&counter, NULL, module, "counter"));
	OK(cuMemcpyDtoH_v2(&value, counter, 4));
	CHECK(value == 42);
	OK(cuLaunchKernel(bump, 4, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL));
	OK(cuMemcpyDtoH_v2(&value, counter, 4));
	CHECK(value == 42 + 256);
}

/* Functions report the bytes they declare, not those that alignment adds. */
static void shared_sizes(void)
{
	static const char text[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
	                           ".shared .align 4 .b8 all[400];\n"
	                           ".visible .entry plain()\n{\n	ret;\n}\n";
	CUmodule module;
	CUfunction plain;
	int bytes;
	start();
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&plain, module, "plain"));
	OK(cuFuncGetAttribute(&bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, plain));
	CHECK(bytes == 400);
}

static void libraries(void)
{
	start();
	CUlibrary library;
	CUkernel kernel, again;
	CUfunction function;
	CUmodule module;
	CUdeviceptr memory, counter;
	size_t offset, size;
	unsigned int back[COUNT], count;
	OK(cuLibraryLoadData(&library, kernels, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernelCount(&count, library));
	CHECK(count == 4);
	OK(cuLibraryGetKernel(&kernel, library, "fill"));
	OK(cuLibraryGetKernel(&again, library, "fill"));
	CHECK(kernel == again);
	EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel(&again, library, "nothing"));
	OK(cuKernelGetParamInfo(kernel, 2, &offset, &size));
	CHECK(offset == 12 && size == 4);
	OK(cuKernelGetFunction(&function, kernel));
	OK(cuLibraryGetModule(&module, library));
	EXPECT(CUDA_ERROR_NOT_PERMITTED, cuModuleUnload(module));
	OK(cuLibraryGetGlobal(&counter, &size, library, "counter"));
	OK(cuMemAlloc_v2(&memory, sizeof(back)));
	launch_fill((CUfunction)kernel, memory, 3, NULL); /* a kernel is as good as its function */
	OK(cuMemcpyDtoH_v2(back, memory, sizeof(back)));
	CHECK(back[999] == 1002);
	OK(cuLibraryUnload(library));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(library));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuKernelGetFunction(&function, kernel));
	OK(cuMemFree_v2(memory));
}

static void faults(void)
{
	start();
	CUmodule module = load();
	CUfunction fill = function_named(module, "fill");
	CUdeviceptr memory, more;
	OK(cuMemAlloc_v2(&memory, 2 * MIB));
	OK(cuMemFree_v2(memory));
	launch_fill(fill, memory, 1, NULL);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc_v2(&more, 16));
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamQuery(NULL));
}

static void trap(void)
{
	start();
	CUfunction trap_function = function_named(load(), "stop");
	OK(cuLaunchKernel(trap_function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	EXPECT(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
	OK(cuDevicePrimaryCtxReset_v2(0));
}

/* A kernel sees memory that was mapped without rights, or read-only, as hardware would. */
static void rights(void)
{
	start();
	CUfunction fill = function_named(load(), "fill");
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                              .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	CUmemAccessDesc access = {.location = wanted.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base;
	OK(cuMemAddressReserve(&base, 4 * MIB, 0, 0, 0));
	OK(cuMemCreate(&handle, 2 * MIB, &wanted, 0));
	OK(cuMemMap(base, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(base, 2 * MIB, &access, 1));
	launch_fill(fill, base, 1, NULL);
	OK(cuCtxSynchronize());
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	OK(cuMemSetAccess(base, 2 * MIB, &access, 1));
	launch_fill(fill, base, 1, NULL);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

/* Memory of a device without peer access is out of a kernel's reach. */
static void foreign_memory(void)
{
	CUcontext first = start(), second;
	CUdeviceptr memory;
	unsigned int back[COUNT];
	CUfunction fill = function_named(load(), "fill");
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxSetCurrent(second));
	OK(cuMemAlloc_v2(&memory, sizeof(back)));
	OK(cuCtxSetCurrent(first));
	OK(cuCtxEnablePeerAccess(second, 0));
	launch_fill(fill, memory, 1, NULL);
	OK(cuMemcpyDtoH_v2(back, memory, sizeof(back)));
	CHECK(back[999] == 1000);
	OK(cuCtxDisablePeerAccess(second));
	launch_fill(fill, memory, 1, NULL);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	OK(cuCtxSetCurrent(second));
	OK(cuCtxSynchronize());
}

static void wait_for(void *semaphore)
{
	while (sem_wait(semaphore) != 0)
		continue;
}

static void long_kernels(void)
{
	sem_t gate;
	start();
	CUfunction fill = function_named(load(), "fill");
	CUdeviceptr memory;
	CUevent begin, end;
	float milliseconds;
	OK(cuMemAlloc_v2(&memory, COUNT * 4));
	OK(cuEventCreate(&begin, 0));
	OK(cuEventCreate(&end, 0));
	sem_init(&gate, 0, 0);
	OK(cuLaunchHostFunc(NULL, wait_for, &gate));
	OK(cuEventRecord(begin, NULL));
	for (int i = 0; i < 5; i++)
		launch_fill(fill, memory, 1, NULL);
	OK(cuEventRecord(end, NULL));
	EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(end));
	sem_post(&gate);
	OK(cuEventSynchronize(end));
	OK(cuEventElapsedTime(&milliseconds, begin, end));
	CHECK(milliseconds >= 50 && milliseconds < 60000);
	struct softgpu_truth truth;
	CHECK(softgpu_truth(0, &truth, 1) == 1 && truth.busy_ns >= 50000000);
}

int main(void)
{
	int failed = 0;
	failed += RUN(modules, NULL);
	failed += RUN(launches, NULL);
	failed += RUN(host_memory_in_kernels, NULL);
	failed += RUN(globals, NULL);
	failed += RUN(shared_sizes, NULL);
	failed += RUN(libraries, NULL);
	failed += RUN(faults, NULL);
	failed += RUN(trap, NULL);
	failed += RUN(rights, NULL);
	failed += RUN(foreign_memory, "SOFTGPU_DEVICES=2");
	failed += RUN(long_kernels, "SOFTGPU_KERNEL_TIME_US=10000");
	return failed != 0;
}
