/* SPDX-License-Identifier: MIT */
/*
 * Takes device memory in every way the software GPU has, one after the other. After each step it
 * names the step and waits for a line on its input, so that the test can look at the books.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

static void check(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS) {
		fprintf(stderr, "counted: %s: error %d\n", what, (int)result);
		exit(2);
	}
}
#define CHECK(call) check(call, #call)

static void step(const char *what)
{
	char line[16];

	printf("%s\n", what);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(3);
}

static void plain(void)
{
	CUdeviceptr a, b;
	size_t pitch;

	CHECK(cuMemAlloc_v2(&a, 6 * MIB));
	CHECK(cuMemAllocPitch_v2(&b, &pitch, 1024, 4096, 4));
	step("plain");
	CHECK(cuMemFree_v2(a));
	CHECK(cuMemFree_v2(b));
	step("plain, freed");
}

/* Whose layout takes more than what they hold, so that small ones share and thin ones are tall. */
static void arrays(void)
{
	CUDA_ARRAY3D_DESCRIPTOR large = {1024, 1000, 2, CU_AD_FORMAT_FLOAT, 1, 0};
	CUDA_ARRAY_DESCRIPTOR small = {16, 16, CU_AD_FORMAT_HALF, 4};
	CUDA_ARRAY_DESCRIPTOR thin = {1, 65536, CU_AD_FORMAT_UNSIGNED_INT8, 1};
	CUmipmappedArray levels;
	CUarray array[3];

	CHECK(cuArray3DCreate_v2(&array[0], &large));
	step("an array");
	CHECK(cuArrayCreate_v2(&array[1], &small));
	step("a small array");
	CHECK(cuArrayCreate_v2(&array[2], &thin));
	step("an array of thin rows");
	CHECK(cuMipmappedArrayCreate(&levels, &large, 5));
	step("a mipmapped array");
	for (int i = 0; i < 3; i++)
		CHECK(cuArrayDestroy(array[i]));
	step("arrays, destroyed");
	CHECK(cuMipmappedArrayDestroy(levels));
	step("mipmapped array, destroyed");
}

static void virtual_memory(CUdevice device)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;

	prop.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	CHECK(cuMemCreate(&handle, 8 * MIB, &prop, 0));
	CHECK(cuMemAddressReserve(&address, 8 * MIB, 0, 0, 0));
	CHECK(cuMemMap(address, 8 * MIB, 0, handle, 0));
	CHECK(cuMemRelease(handle));
	step("physical, held by its mapping");
	CHECK(cuMemUnmap(address, 8 * MIB));
	CHECK(cuMemAddressFree(address, 8 * MIB));
	step("physical, unmapped");
}

static void pools(CUdevice device)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
	cuuint64_t all = UINT64_MAX;
	CUmemoryPool pool;
	CUdeviceptr a, b;

	CHECK(cuMemAllocAsync(&a, 3 * MIB, NULL));
	step("default pool");
	CHECK(cuMemFreeAsync(a, NULL));
	step("default pool, freed but not waited for");
	CHECK(cuStreamSynchronize(NULL));
	step("default pool, waited for");
	props.location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	CHECK(cuMemPoolCreate(&pool, &props));
	CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	CHECK(cuMemAllocFromPoolAsync(&a, 5 * MIB, pool, NULL));
	CHECK(cuMemAllocFromPoolAsync(&b, 4 * MIB, pool, NULL));
	step("own pool");
	CHECK(cuMemFreeAsync(a, NULL));
	CHECK(cuCtxSynchronize());
	step("own pool, keeps what is freed");
	CHECK(cuMemPoolTrimTo(pool, 0));
	step("own pool, trimmed");
	CHECK(cuMemFree_v2(b));
	CHECK(cuMemPoolDestroy(pool));
	CHECK(cuCtxSynchronize());
	step("own pool, destroyed");
}

static void managed(CUdevice device)
{
	CUdeviceptr address;

	CHECK(cuMemAllocManaged(&address, 10 * MIB, CU_MEM_ATTACH_GLOBAL));
	CHECK(cuMemPrefetchAsync(address, 10 * MIB, device, NULL));
	CHECK(cuCtxSynchronize());
	step("managed, prefetched");
	CHECK(cuMemFree_v2(address));
	step("managed, freed");
}

static void graph_memory(CUdevice device)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = 7 * MIB};
	CUgraphNode node, gone;
	CUgraphExec exec;
	CUgraph graph;
	CUstream stream;
	CUdeviceptr captured;

	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location =
	    (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	CHECK(cuGraphAddMemFreeNode(&gone, graph, &node, 1, params.dptr));
	CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(cuGraphLaunch(exec, NULL));
	CHECK(cuCtxSynchronize());
	step("graph memory");
	CHECK(cuDeviceGraphMemTrim(device));
	step("graph memory, trimmed");
	CHECK(cuGraphUpload(exec, NULL));
	CHECK(cuGraphLaunch(exec, NULL));
	CHECK(cuCtxSynchronize());
	step("graph memory, again");
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	step("graph memory, graph destroyed");
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuMemAllocAsync(&captured, 5 * MIB, stream));
	CHECK(cuMemFreeAsync(captured, stream));
	CHECK(cuStreamEndCapture(stream, &graph));
	CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	CHECK(cuGraphLaunch(exec, stream));
	CHECK(cuStreamSynchronize(stream));
	step("captured allocation");
	CHECK(cuGraphExecDestroy(exec));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuStreamDestroy_v2(stream));
	step("captured allocation, graph destroyed");
}

static void module(void)
{
	static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
	                          ".visible .global .align 8 .b8 table[12582912];\n"
	                          ".visible .entry nothing()\n{\n\tret;\n}\n";
	CUmodule loaded;

	CHECK(cuModuleLoadData(&loaded, ptx));
	step("module");
	CHECK(cuModuleUnload(loaded));
	step("module, unloaded");
}

static void contexts(CUdevice device)
{
	CUdeviceptr left;
	CUcontext own;

	CHECK(cuCtxCreate_v2(&own, 0, device));
	step("second context");
	CHECK(cuMemAlloc_v2(&left, 4 * MIB));
	CHECK(cuMemAllocAsync(&left, 2 * MIB, NULL));
	step("second context with memory");
	CHECK(cuCtxDestroy_v2(own));
	step("second context, destroyed with its memory");
}

static void host_memory(void)
{
	static char own[8192] __attribute__((aligned(4096)));
	void *pinned;

	CHECK(cuMemHostAlloc(&pinned, 3 * MIB, 0));
	CHECK(cuMemHostRegister_v2(own, sizeof(own), 0));
	step("pinned host memory");
	CHECK(cuMemHostUnregister(own));
	CHECK(cuMemFreeHost(pinned));
	step("pinned host memory, freed");
}

int main(void)
{
	CUcontext primary;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	step("no context");
	CHECK(cuDevicePrimaryCtxRetain(&primary, device));
	CHECK(cuCtxSetCurrent(primary));
	step("primary context");
	plain();
	arrays();
	virtual_memory(device);
	pools(device);
	managed(device);
	graph_memory(device);
	module();
	contexts(device);
	host_memory();
	CHECK(cuDevicePrimaryCtxRelease_v2(device));
	step("no context any more");
	return 0;
}
