/* SPDX-License-Identifier: MIT */
/*
 * Tests of the behaviour of real drivers, by documents and reports. Also of SOFTGPU_TRAITS,
 * SOFTGPU_NO_MIXED and SOFTGPU_NUMA_NODES, the behaviour of some drivers or machines alone.
 */
#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"
#include "tests/softgpu/waits.h"

#define CHUNK (2 * MIB)

/* Virtual memory in one chunk on each place named: 'd' a device, 'h' the host. */
static CUdeviceptr places(const char *what)
{
	CUdeviceptr base;
	size_t count = strlen(what);
	OK(cuMemAddressReserve(&base, count * CHUNK, 0, 0, 0));
	for (size_t i = 0; i < count; i++) {
		CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		                              .location.type =
		                                  what[i] == 'd' ? CU_MEM_LOCATION_TYPE_DEVICE
		                                                 : CU_MEM_LOCATION_TYPE_HOST_NUMA};
		CUmemGenericAllocationHandle handle;
		OK(cuMemCreate(&handle, CHUNK, &wanted, 0));
		OK(cuMemMap(base + i * CHUNK, CHUNK, 0, handle, 0));
		OK(cuMemRelease(handle));
	}
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	OK(cuMemSetAccess(base, count * CHUNK, &access, 1));
	return base;
}

static CUresult give_to_cpu(CUdeviceptr base)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	return cuMemSetAccess(base, CHUNK, &access, 1);
}

static void copies_between_host_memory_wait(void)
{
	start();
	CUstream stream;
	CUdeviceptr host = places("h"), other = places("h"), device = places("d");
	void *pinned;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemHostAlloc(&pinned, CHUNK, 0));
	CHECK(WAITS(stream, cuMemcpyDtoHAsync_v2(pinned, host, CHUNK, stream)));
	CHECK(WAITS(stream, cuMemcpyHtoDAsync_v2(host, pinned, CHUNK, stream)));
	CHECK(WAITS(stream, cuMemcpyDtoDAsync_v2(host, other, CHUNK, stream)));
	CHECK(WAITS(stream, cuMemcpyAsync(host, (CUdeviceptr)pinned, CHUNK, stream)));
	CHECK(!WAITS(stream, cuMemcpyDtoHAsync_v2(pinned, device, CHUNK, stream)));
	CHECK(!WAITS(stream, cuMemcpyDtoDAsync_v2(device, host, CHUNK, stream)));
	CHECK(!WAITS(stream, cuMemsetD8Async(host, 1, CHUNK, stream)));
	CHECK(WAITS(CU_STREAM_LEGACY, cuMemsetD8_v2(host, 1, CHUNK)));
	CHECK(!WAITS(CU_STREAM_LEGACY, cuMemsetD8_v2(device, 1, CHUNK)));
}

/* Returns whether that ends a process of its own by SIGSEGV; all else must succeed. */
static bool dies(void (*what)(void))
{
	pid_t child = fork_bound();
	if (child == 0) {
		signal(SIGSEGV, SIG_DFL); /* which sanitizers catch */
		what();
		_exit(0);
	}
	int status;
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

static const volatile unsigned char *touched;

static void touch(void)
{
	(void)*touched;
}

/* Memory of the host is the CPU's once it has been given to it, and only such memory can be. */
static void access_by_the_cpu(void)
{
	start();
	CUdeviceptr host = places("h"), device = places("d");
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, give_to_cpu(device));
	OK(cuMemsetD8_v2(host, 7, CHUNK));
	OK(give_to_cpu(host));
	CHECK(((unsigned char *)host)[CHUNK - 1] == 7);
	*(unsigned char *)host = 9;
	unsigned char back;
	OK(cuMemcpyDtoH_v2(&back, host, 1));
	CHECK(back == 9);
	OK(cuMemUnmap(host, CHUNK));
	touched = (unsigned char *)host;
	CHECK(dies(touch));
}

static void memory_operations_in_order(void)
{
	start();
	int yes = 1;
	CUdeviceptr plain;
	OK(cuMemAlloc_v2(&plain, CHUNK));
	OK(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, plain));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
	       cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, places("d")));
}

static void copy_not_given(void)
{
	start();
	void *pinned;
	OK(cuMemHostAlloc(&pinned, CHUNK, 0));
	OK(cuMemcpyDtoH_v2(pinned, places("h"), CHUNK));
}

static void copy_given(void)
{
	start();
	void *pinned;
	CUdeviceptr host = places("h");
	OK(cuMemHostAlloc(&pinned, CHUNK, 0));
	OK(give_to_cpu(host));
	OK(cuMemcpyDtoH_v2(pinned, host, CHUNK));
	OK(cuMemcpyDtoD_v2(places("d"), places("h"), CHUNK)); /* not between memory of the host */
}

/* A copy that was captured while both sides were the host's is the CPU's for good. */
static void captured_copy(void)
{
	start();
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;
	void *pinned;
	CUdeviceptr host = places("h");
	OK(give_to_cpu(host));
	OK(cuMemHostAlloc(&pinned, CHUNK, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemcpyDtoHAsync_v2(pinned, host, CHUNK, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
	/* Its memory comes to the device, at the same addresses. */
	CUmemAllocationProp wanted = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                              .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	OK(cuMemCreate(&handle, CHUNK, &wanted, 0));
	OK(cuMemUnmap(host, CHUNK));
	OK(cuMemMap(host, CHUNK, 0, handle, 0));
	OK(cuMemSetAccess(host, CHUNK, &access, 1));
	OK(cuGraphLaunch(exec, stream));
	OK(cuStreamSynchronize(stream));
}

static void copies_by_the_cpu(void)
{
	CHECK(dies(copy_not_given));
	CHECK(!dies(copy_given));
	CHECK(dies(captured_copy));
}

static void nodes_by_the_cpu(void)
{
	CHECK(!dies(copy_not_given));
	CHECK(dies(captured_copy));
}

static void copies_by_engines(void)
{
	CHECK(!dies(copy_not_given));
	CHECK(!dies(captured_copy));
}

static void kernel_as_function(void)
{
	start();
	CUlibrary library;
	CUkernel kernel;
	size_t offset, size;
	OK(cuLibraryLoadData(&library, kernels, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "fill"));
	OK(cuKernelGetParamInfo(kernel, 0, &offset, &size));
	cuFuncGetParamInfo((CUfunction)kernel, 0, &offset, &size);
}

static void kernels_crash(void)
{
	CHECK(dies(kernel_as_function));
}

static void kernels_do_not_crash(void)
{
	CHECK(!dies(kernel_as_function));
}

static void make_on_node(void)
{
	start();
	places("h");
}

static void nodes_crash(void)
{
	CHECK(dies(make_on_node));
}

static CUresult make_on(int node, CUmemGenericAllocationHandle *handle)
{
	CUmemAllocationProp wanted = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = node}};
	return cuMemCreate(handle, CHUNK, &wanted, 0);
}

/* 4 MiB with processors; memory without processors; processors without memory. */
static void nodes(void)
{
	start();
	CUmemGenericAllocationHandle first, second, third;
	EXPECT(CUDA_ERROR_INVALID_VALUE, make_on(1, &first));
	EXPECT(CUDA_ERROR_INVALID_VALUE, make_on(2, &first));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, make_on(3, &first));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, make_on(-1, &first));
	OK(make_on(0, &first));
	OK(make_on(0, &second));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, make_on(0, &third));
	OK(cuMemRelease(first));
	OK(make_on(0, &third));
	CUmemAllocationProp anywhere = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                                .location.type = CU_MEM_LOCATION_TYPE_HOST};
	OK(cuMemCreate(&first, CHUNK, &anywhere, 0));
}

static void mixed_by_border_and_form(void)
{
	start();
	static char pageable[2 * CHUNK];
	CUdeviceptr dh = places("dh"), hd = places("hd"), plain = places("dd");
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoD_v2(dh, pageable, 2 * CHUNK));
	OK(cuMemcpyHtoD_v2(hd, pageable, 2 * CHUNK));
	OK(cuMemcpyDtoH_v2(pageable, dh, 2 * CHUNK));
	OK(cuMemcpyDtoH_v2(pageable, hd, 2 * CHUNK));
	OK(cuMemcpyDtoD_v2(plain, dh, 2 * CHUNK));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD_v2(plain, hd, 2 * CHUNK));
	OK(cuMemsetD8_v2(dh, 1, 2 * CHUNK));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(hd, 1, 2 * CHUNK));
	OK(cuMemsetD8_v2(hd, 1, CHUNK));
}

static void newer_forms(void)
{
	start();
	void *old, *newer;
	CUdriverProcAddressQueryResult status;
	OK(cuGetProcAddress_v2("cuMemMap", &old, 13000, 0, &status));
	CHECK(old == (void *)cuMemMap);
	OK(cuGetProcAddress_v2("cuMemMap", &newer, 13010, 0, &status));
	CHECK(newer && newer != old);
	OK(cuGetProcAddress_v2("cuMulticastBindMem", &newer, 13010, 0, &status));
	CHECK(newer != (void *)cuMulticastBindMem);
}

static void unmap_waits(void)
{
	start();
	CUdeviceptr device = places("d");
	CUstream stream;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(WAITS(stream, cuMemUnmap(device, CHUNK)));
}

static void unmap_does_not_wait(void)
{
	start();
	CUdeviceptr device = places("d");
	CUstream stream;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(!WAITS(stream, cuMemUnmap(device, CHUNK)));
}

/* A kernel of one thread that reads the same bytes again and again, from the host. */
static uint64_t fetched(void)
{
	struct softgpu_truth truth[16];
	int count = softgpu_truth(0, truth, 16);
	for (int i = 0; i < count && i < 16; i++)
		if (truth[i].pid == getpid())
			return truth[i].fetched_bytes;
	return 0;
}

static uint64_t fetched_by_fills(int times)
{
	start();
	CUmodule module;
	CUfunction fill;
	CUdeviceptr memory = places("h");
	unsigned int value = 1, count = 1024;
	void *parameters[] = {&memory, &value, &count};
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	for (int i = 0; i < times; i++)
		OK(cuLaunchKernel(fill, 4, 1, 1, 256, 1, 1, 0, NULL, parameters, NULL));
	OK(cuCtxSynchronize());
	return fetched();
}

static void uncached(void)
{
	CHECK(fetched_by_fills(3) == 3 * 4096);
}

static void legacy_events(void)
{
	start();
	CUevent event, before, after;
	CUstream stream;
	float legacy, other;
	OK(cuEventCreate(&event, 0));
	OK(cuEventCreate(&before, 0));
	OK(cuEventCreate(&after, 0));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuEventRecord(before, CU_STREAM_LEGACY));
	for (int i = 0; i < 20; i++)
		OK(cuEventRecord(event, CU_STREAM_LEGACY));
	OK(cuEventRecord(after, CU_STREAM_LEGACY));
	OK(cuCtxSynchronize());
	OK(cuEventElapsedTime(&legacy, before, after));
	CHECK(legacy >= 20);
	for (int tries = 0; tries < 50; tries++) { /* the machine may be busy */
		OK(cuEventRecord(before, stream));
		for (int i = 0; i < 20; i++)
			OK(cuEventRecord(event, stream));
		OK(cuEventRecord(after, stream));
		OK(cuCtxSynchronize());
		OK(cuEventElapsedTime(&other, before, after));
		if (other < 20)
			return;
	}
	CHECK(!"events of other streams cost nothing");
}

int main(void)
{
	int failed = 0;
	failed += RUN(copies_between_host_memory_wait, NULL);
	failed += RUN(access_by_the_cpu, NULL);
	failed += RUN(memory_operations_in_order, NULL);
	failed += RUN(copies_by_the_cpu, "SOFTGPU_TRAITS=cpu-copies SOFTGPU_QUIET=1");
	failed += RUN(nodes_by_the_cpu, "SOFTGPU_TRAITS=host-nodes SOFTGPU_QUIET=1");
	failed += RUN(copies_by_engines, NULL);
	failed += RUN(kernels_crash, "SOFTGPU_TRAITS=kernel-crashes");
	failed += RUN(kernels_do_not_crash, NULL);
	failed += RUN(nodes_crash, "SOFTGPU_TRAITS=host-numa-crashes");
	failed += RUN(nodes_crash, "SOFTGPU_NUMA_NODES=4M:crashes");
	failed += RUN(nodes, "SOFTGPU_NUMA_NODES=4M,16M:nocpus,none");
	failed += RUN(mixed_by_border_and_form, "SOFTGPU_NO_MIXED=dh:to-device,hd:between,hd:fill");
	failed += RUN(newer_forms, "SOFTGPU_TRAITS=newer-forms");
	failed += RUN(unmap_waits, "SOFTGPU_TRAITS=unmap-waits");
	failed += RUN(unmap_waits, "SOFTGPU_TRAITS=unmap-holds");
	failed += RUN(unmap_does_not_wait, NULL);
	failed += RUN(uncached, "SOFTGPU_TRAITS=uncached-host SOFTGPU_HOST_BANDWIDTH=64G");
	failed += RUN(legacy_events, "SOFTGPU_LEGACY_EVENT_US=1000");
	return failed != 0;
}
