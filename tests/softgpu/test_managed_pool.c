/* SPDX-License-Identifier: MIT */
/* Pools of managed memory: their memory, its place, its end, and refusals. */
#include "tests/softgpu/test.h"
#include "tests/softgpu/test_kernels.h"

static const CUmemLocation on_device = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
static const CUmemLocation on_host = {.type = CU_MEM_LOCATION_TYPE_HOST};
static const CUmemLocation on_node = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA};
static const CUmemLocation anywhere = {.type = CU_MEM_LOCATION_TYPE_NONE};

static CUmemPoolProps managed(CUmemLocation location)
{
	return (CUmemPoolProps){.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = location};
}

static CUmemoryPool pool_on(CUmemLocation location)
{
	const CUmemPoolProps properties = managed(location);
	CUmemoryPool pool;
	OK(cuMemPoolCreate(&pool, &properties));
	return pool;
}

static uint64_t used(CUmemoryPool pool)
{
	cuuint64_t bytes = 0;
	OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &bytes));
	return bytes;
}

static CUfunction fill_of(void)
{
	CUmodule module;
	CUfunction fill;
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&fill, module, "fill"));
	return fill;
}

static void launch(CUfunction fill, CUdeviceptr out, unsigned int value, unsigned int count,
                   CUstream stream)
{
	OK(cuLaunchKernel(fill, (count + 255) / 256, 1, 1, 256, 1, 1, 0, stream,
	                  (void *[]){&out, &value, &count}, NULL));
}

/* Both sides use it in turns; the device has it when a kernel touched it and it may come. */
static void use(CUmemLocation location, bool comes)
{
	CUfunction fill = fill_of();
	CUmemoryPool pool = pool_on(location), of;
	CUstream stream;
	CUdeviceptr memory;
	enum { COUNT = 5 << 18 }; /* 5 MiB */
	uint64_t before = physical_bytes(0);
	int is = 0;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAllocFromPoolAsync(&memory, COUNT * 4, pool, stream));
	CHECK(used(pool) == 6 * MIB && physical_bytes(0) == before);
	OK(cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
	OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, memory + 100));
	CHECK(is && of == pool);
	OK(cuStreamSynchronize(stream));
	unsigned int *on_cpu = (unsigned int *)memory;
	for (unsigned int round = 0; round < 3; round++) {
		unsigned int from = round * COUNT / 3, count = COUNT / 3, value = (unsigned)rand();
		for (unsigned int i = 0; i < COUNT; i++)
			on_cpu[i] = ~i;
		launch(fill, memory + from * 4UL, value, count, stream);
		OK(cuStreamSynchronize(stream));
		for (unsigned int i = 0; i < COUNT; i++)
			CHECK(on_cpu[i] == (i - from < count ? value + i - from : ~i));
	}
	CHECK(physical_bytes(0) - before == (comes ? 6 * MIB : 0));
	/* Until the stream is at the free, kernels before it have the memory. */
	launch(fill, memory, 1, COUNT, stream);
	OK(cuMemFreeAsync(memory, stream));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(memory, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(used(pool) == 0 && physical_bytes(0) == before);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(memory, stream));
	OK(cuMemAllocFromPoolAsync(&memory, 100, pool, stream));
	OK(cuMemFree_v2(memory));
	CHECK(used(pool) == 0);
	/* It lives on while something of it does. */
	OK(cuMemAllocFromPoolAsync(&memory, 100, pool, stream));
	OK(cuMemPoolDestroy(pool));
	launch(fill, memory, 7, 25, stream);
	OK(cuStreamSynchronize(stream));
	CHECK(((unsigned int *)memory)[24] == 31);
	OK(cuMemFreeAsync(memory, stream));
	OK(cuStreamSynchronize(stream));
	/* A kernel that comes after the free finds nothing. */
	launch(fill, memory, 7, 25, stream);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
}

static void device_pool(void)
{
	start();
	use(on_device, true);
}

static void host_pool(void)
{
	start();
	use(on_host, false);
}

static void free_pool(void)
{
	start();
	use(anywhere, true);
}

static int preferred(CUmemoryPool pool)
{
	CUdeviceptr memory;
	int where;
	OK(cuMemAllocFromPoolAsync(&memory, 3 * MIB, pool, NULL));
	OK(cuMemRangeGetAttribute(&where, sizeof(where), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
	                          memory, 3 * MIB));
	OK(cuMemFree_v2(memory));
	return where;
}

static void locations(void)
{
	start();
	CUmemLocation places[] = {on_device, on_host, on_node, anywhere};
	CUmemoryPool first, own, found;
	CHECK(preferred(pool_on(on_device)) == 0);
	CHECK(preferred(pool_on(on_host)) == CU_DEVICE_CPU);
	CHECK(preferred(pool_on(anywhere)) == CU_DEVICE_INVALID);
	for (int i = 0; i < 4; i++) {
		OK(cuMemGetDefaultMemPool(&first, &places[i], CU_MEM_ALLOCATION_TYPE_MANAGED));
		OK(cuMemGetMemPool(&found, &places[i], CU_MEM_ALLOCATION_TYPE_MANAGED));
		CHECK(found == first);
		own = pool_on(places[i]);
		for (int k = 0; k < 4; k++)
			EXPECT(i == k ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
			       cuMemSetMemPool(&places[k], CU_MEM_ALLOCATION_TYPE_MANAGED, own));
		OK(cuMemGetMemPool(&found, &places[i], CU_MEM_ALLOCATION_TYPE_MANAGED));
		CHECK(found == own);
		OK(cuMemPoolDestroy(own));
		OK(cuMemGetMemPool(&found, &places[i], CU_MEM_ALLOCATION_TYPE_MANAGED));
		CHECK(found == first);
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(first));
	}
	/* Plain pools are set as by cuDeviceSetMemPool, and are no managed ones. */
	OK(cuDeviceGetDefaultMemPool(&first, 0));
	OK(cuMemSetMemPool(&places[0], CU_MEM_ALLOCATION_TYPE_PINNED, first));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemSetMemPool(&places[0], CU_MEM_ALLOCATION_TYPE_MANAGED, first));
	own = pool_on(on_device);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuMemSetMemPool(&places[0], CU_MEM_ALLOCATION_TYPE_PINNED, own));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, own));
}

static void refusals(void)
{
	start();
	CUmemPoolProps properties = managed(on_device);
	CUmemoryPool pool;
	CUdeviceptr a, b;
	properties.location.id = 1;
	EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMemPoolCreate(&pool, &properties));
	properties = managed(on_device);
	properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &properties));
	properties = managed(on_device);
	properties.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &properties));
	properties = managed(on_device);
	properties.maxSize = 8 * MIB;
	OK(cuMemPoolCreate(&pool, &properties));
	OK(cuMemAllocFromPoolAsync(&a, 5 * MIB, pool, NULL));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&b, 3 * MIB, pool, NULL));
	OK(cuMemAllocFromPoolAsync(&b, 2 * MIB, pool, NULL));
	OK(cuMemFreeAsync(a, NULL));
	OK(cuMemFreeAsync(b, NULL));
	OK(cuCtxSynchronize());
	CHECK(used(pool) == 0);
}

/* --- nodes of graphs --- */

static uint64_t graph_bytes(CUgraphMem_attribute attribute)
{
	cuuint64_t bytes = 0;
	OK(cuDeviceGetGraphMemAttribute(0, attribute, &bytes));
	return bytes;
}

static CUgraphNode add_fill(CUgraph graph, CUgraphNode after, CUfunction fill, CUdeviceptr out,
                            unsigned int value, unsigned int count)
{
	CUgraphNode node;
	CUDA_KERNEL_NODE_PARAMS_v2 params = {.func = fill,
	                                     .gridDimX = (count + 255) / 256,
	                                     .gridDimY = 1,
	                                     .gridDimZ = 1,
	                                     .blockDimX = 256,
	                                     .blockDimY = 1,
	                                     .blockDimZ = 1,
	                                     .kernelParams = (void *[]){&out, &value, &count}};
	OK(cuGraphAddKernelNode_v2(&node, graph, &after, 1, &params));
	return node;
}

/* A graph allocates managed memory, fills it, and the CPU reads it after the launch. */
static void nodes(void)
{
	start();
	CUfunction fill = fill_of();
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode node;
	enum { COUNT = 3 << 18 }; /* 3 MiB */
	uint64_t before = physical_bytes(0);
	CUDA_MEM_ALLOC_NODE_PARAMS_v1 what = {.poolProps = managed(on_device),
	                                      .bytesize = COUNT * 4};
	int is = 0;
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &what));
	OK(cuPointerGetAttribute(&is, CU_POINTER_ATTRIBUTE_IS_MANAGED, what.dptr));
	CHECK(is && physical_bytes(0) == before);
	add_fill(graph, node, fill, what.dptr, 1000, COUNT);
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	/* Nobody may use it before it is allocated. */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(what.dptr, stream));
	for (int round = 0; round < 3; round++) {
		OK(cuGraphLaunch(exec, stream));
		OK(cuStreamSynchronize(stream));
		CHECK(physical_bytes(0) - before == 4 * MIB);
		CHECK(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 4 * MIB);
		for (unsigned int i = 0; i < COUNT; i++)
			CHECK(((unsigned int *)what.dptr)[i] == 1000 + i);
		memset((void *)what.dptr, 0, COUNT * 4);
		EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream));
		if (round % 2)
			OK(cuMemFree_v2(what.dptr));
		else
			OK(cuMemFreeAsync(what.dptr, stream));
		OK(cuStreamSynchronize(stream));
	}
	CHECK(graph_bytes(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) == 4 * MIB);
	CHECK(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 4 * MIB);
	OK(cuDeviceGraphMemTrim(0));
	CHECK(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);
	CHECK(physical_bytes(0) == before);
	/* A kernel after the free finds nothing. */
	launch(fill, what.dptr, 1, COUNT, stream);
	EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
}

/* In a captured stream an allocation from a managed pool is such a node. */
static void captured(void)
{
	start();
	CUfunction fill = fill_of();
	CUmemoryPool pool = pool_on(anywhere);
	CUdeviceptr memory, out;
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;
	enum { COUNT = 1000 };
	unsigned int got[COUNT];
	OK(cuMemAlloc_v2(&out, sizeof(got)));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuMemAllocFromPoolAsync(&memory, sizeof(got), pool, stream));
	launch(fill, memory, 70, COUNT, stream);
	OK(cuMemcpyDtoDAsync_v2(out, memory, sizeof(got), stream));
	OK(cuMemFreeAsync(memory, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(used(pool) == 0); /* it is the graph's */
	for (int round = 0; round < 3; round++) {
		OK(cuMemsetD8_v2(out, 0, sizeof(got)));
		OK(cuStreamSynchronize(NULL)); /* which the other stream does not wait for */
		OK(cuGraphLaunch(exec, stream));
		OK(cuStreamSynchronize(stream));
		OK(cuMemcpyDtoH_v2(got, out, sizeof(got)));
		for (unsigned int i = 0; i < COUNT; i++)
			CHECK(got[i] == 70 + i);
	}
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	CHECK(graph_bytes(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) == 0);
}

static void older(void)
{
	start();
	const CUmemPoolProps properties = managed(on_device);
	CUmemoryPool pool;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &properties));
}

static void without(void)
{
	start();
	const CUmemPoolProps properties = managed(on_device);
	CUmemoryPool pool;
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&pool, &properties));
}

int main(void)
{
	int failed = 0;
	failed += RUN(device_pool, "SOFTGPU_QUIET=1");
	failed += RUN(host_pool, "SOFTGPU_QUIET=1");
	failed += RUN(free_pool, "SOFTGPU_QUIET=1");
	failed += RUN(locations, NULL);
	failed += RUN(refusals, NULL);
	failed += RUN(nodes, "SOFTGPU_QUIET=1");
	failed += RUN(captured, NULL);
	failed += RUN(older, "SOFTGPU_DRIVER_VERSION=12090");
	failed += RUN(without, "SOFTGPU_ATTRIBUTES=CONCURRENT_MANAGED_ACCESS=0");
	return failed != 0;
}
