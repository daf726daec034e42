/* SPDX-License-Identifier: MIT */
/* Tests of arrays: allowed shapes, their memory, and copies that find each byte again. */
#include "tests/softgpu/test.h"

#define FLOATS(width, height, depth, flags)                                           \
	((CUDA_ARRAY3D_DESCRIPTOR){(width), (height), (depth), CU_AD_FORMAT_FLOAT, 1, \
	                           (unsigned int)(flags)})

/* The answer to a descriptor; what was made is destroyed. */
static CUresult makes(CUDA_ARRAY3D_DESCRIPTOR what)
{
	CUarray array;
	CUresult result = cuArray3DCreate_v2(&array, &what);
	if (result == CUDA_SUCCESS)
		OK(cuArrayDestroy(array));
	return result;
}

static CUresult makes_levels(CUDA_ARRAY3D_DESCRIPTOR what)
{
	CUmipmappedArray array;
	CUresult result = cuMipmappedArrayCreate(&array, &what, 4);
	if (result == CUDA_SUCCESS)
		OK(cuMipmappedArrayDestroy(array));
	return result;
}

static void descriptors(void)
{
	CUarray array;
	CUDA_ARRAY_DESCRIPTOR plane = {64, 32, CU_AD_FORMAT_HALF, 4}, told;
	CUDA_ARRAY3D_DESCRIPTOR whole;
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuArrayCreate_v2(&array, &plane));
	start();
	OK(cuArrayCreate_v2(&array, &plane));
	OK(cuArrayGetDescriptor_v2(&told, array));
	CHECK(memcmp(&told, &plane, sizeof(told)) == 0);
	OK(cuArray3DGetDescriptor_v2(&whole, array));
	CHECK(whole.Width == 64 && whole.Height == 32 && whole.Depth == 0 && whole.Flags == 0 &&
	      whole.Format == CU_AD_FORMAT_HALF && whole.NumChannels == 4);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayGetDescriptor_v2(NULL, array));
	OK(cuArrayDestroy(array));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayGetDescriptor_v2(&told, array));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(NULL));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(NULL, &plane));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayCreate_v2(&array, NULL));

	OK(makes(FLOATS(16, 0, 0, 0)));
	OK(makes(FLOATS(16, 8, 4, 0)));
	OK(makes(FLOATS(16, 0, 4, CUDA_ARRAY3D_LAYERED)));
	OK(makes(FLOATS(16, 8, 4, CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST)));
	OK(makes(FLOATS(16, 16, 6, CUDA_ARRAY3D_CUBEMAP)));
	OK(makes(FLOATS(16, 16, 12, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED)));
	OK(makes(FLOATS(16, 8, 0, CUDA_ARRAY3D_TEXTURE_GATHER)));
	static const CUDA_ARRAY3D_DESCRIPTOR wrong[] = {
	    {0, 0, 0, CU_AD_FORMAT_FLOAT, 1, 0},
	    {0, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0},
	    {16, 0, 4, CU_AD_FORMAT_FLOAT, 1, 0},
	    {16, 8, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED},
	    {16, 8, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP},
	    {16, 16, 5, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP},
	    {16, 16, 12, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP},
	    {16, 16, 8, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED},
	    {16, 8, 4, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_TEXTURE_GATHER},
	    {16, 8, 0, CU_AD_FORMAT_FLOAT, 0, 0},
	    {16, 8, 0, CU_AD_FORMAT_FLOAT, 3, 0},
	    {16, 8, 0, (CUarray_format)0, 1, 0},
	    {16, 8, 0, CU_AD_FORMAT_FLOAT, 1, 0x80000000},
	    {131073, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0},
	    {32769, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_SURFACE_LDST},
	    {32769, 1, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_TEXTURE_GATHER},
	    {1, 65537, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0},
	    {8193, 1, 16385, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0},
	    {1, 0, 2049, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_LAYERED},
	    {SIZE_MAX, SIZE_MAX, SIZE_MAX, CU_AD_FORMAT_FLOAT, 4, 0},
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK(makes(wrong[i]) == CUDA_ERROR_INVALID_VALUE);
		CHECK(makes_levels(wrong[i]) == CUDA_ERROR_INVALID_VALUE);
	}
	/* Of the two bounds of 3D arrays one must be met. */
	OK(makes((CUDA_ARRAY3D_DESCRIPTOR){1, 1, 32768, CU_AD_FORMAT_SIGNED_INT8, 1, 0}));
	OK(makes((CUDA_ARRAY3D_DESCRIPTOR){131072, 0, 0, CU_AD_FORMAT_SIGNED_INT8, 1, 0}));
	EXPECT(CUDA_ERROR_INVALID_VALUE, makes_levels((CUDA_ARRAY3D_DESCRIPTOR){
	                                     131072, 0, 0, CU_AD_FORMAT_SIGNED_INT8, 1, 0}));
	/* Without memory of their own: the attributes say that there are none. */
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, makes(FLOATS(16, 8, 0, CUDA_ARRAY3D_SPARSE)));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, makes(FLOATS(16, 8, 0, CUDA_ARRAY3D_DEFERRED_MAPPING)));
	CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
	OK(cuArrayCreate_v2(&array, &plane));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuArrayGetMemoryRequirements(&needs, array, 0));
	OK(cuArrayDestroy(array));
	CHECK(physical_bytes(0) == 8 * MIB);
}

static void books(void)
{
	CUcontext context = start();
	CUarray arrays[32], more;
	CUmipmappedArray levels;
	size_t available, total;
	CUDA_ARRAY3D_DESCRIPTOR large = FLOATS(1024, 1024, 0, 0), small = FLOATS(16, 16, 0, 0);
	OK(cuArray3DCreate_v2(&arrays[0], &large));
	CHECK(physical_bytes(0) == 12 * MIB);
	OK(cuMemGetInfo_v2(&available, &total));
	CHECK(available == 52 * MIB && total == 64 * MIB);
	/* Small ones share a block, with other memory too. */
	CUdeviceptr memory;
	OK(cuArray3DCreate_v2(&arrays[1], &small));
	OK(cuArray3DCreate_v2(&arrays[2], &small));
	OK(cuMemAlloc_v2(&memory, 1000));
	CHECK(physical_bytes(0) == 14 * MIB);
	OK(cuArrayDestroy(arrays[1]));
	OK(cuMemFree_v2(memory));
	OK(cuArrayDestroy(arrays[2]));
	CHECK(physical_bytes(0) == 12 * MIB);
	/* A row of one byte takes a tile's width, eight rows at a time. */
	OK(cuArray3DCreate_v2(
	    &arrays[1], &(CUDA_ARRAY3D_DESCRIPTOR){1, 65536, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0}));
	CHECK(physical_bytes(0) == 16 * MIB);
	OK(cuArrayDestroy(arrays[1]));
	/* Planes: six bytes to 2 by 2 pixels; compressed: 16 to 4 by 4. Each has its channels. */
	OK(cuArray3DCreate_v2(&arrays[1],
	                      &(CUDA_ARRAY3D_DESCRIPTOR){4096, 1024, 0, CU_AD_FORMAT_NV12, 3, 0}));
	CHECK(physical_bytes(0) == 18 * MIB);
	OK(cuArrayDestroy(arrays[1]));
	OK(cuArray3DCreate_v2(
	    &arrays[1], &(CUDA_ARRAY3D_DESCRIPTOR){4096, 1024, 0, CU_AD_FORMAT_BC7_UNORM, 4, 0}));
	CHECK(physical_bytes(0) == 16 * MIB);
	OK(cuArrayDestroy(arrays[1]));
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       makes((CUDA_ARRAY3D_DESCRIPTOR){16, 8, 0, CU_AD_FORMAT_NV12, 1, 0}));
	/* All levels: a third more. */
	OK(cuMipmappedArrayCreate(&levels, &large, 100));
	CHECK(physical_bytes(0) == 18 * MIB);
	OK(cuMipmappedArrayDestroy(levels));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(levels));

	int count = 1;
	while (count < 32 && cuArray3DCreate_v2(&arrays[count], &large) == CUDA_SUCCESS)
		count++;
	CHECK(count == 14 && physical_bytes(0) == 64 * MIB);
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuArray3DCreate_v2(&more, &small));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMipmappedArrayCreate(&levels, &small, 1));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, makes(FLOATS(16384, 16384, 16384, 0)));
	OK(cuArrayDestroy(arrays[3]));
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	/* What is left goes with its context. */
	OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK(physical_bytes(0) == 0);
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(arrays[0]));
}

static void mipmaps(void)
{
	start();
	CUmipmappedArray levels;
	CUarray level, again;
	CUDA_ARRAY3D_DESCRIPTOR what = FLOATS(40, 10, 3, 0), told;
	OK(cuMipmappedArrayCreate(&levels, &what, 100));
	static const size_t extents[][3] = {{40, 10, 3}, {20, 5, 1}, {10, 2, 1},
	                                    {5, 1, 1},   {2, 1, 1},  {1, 1, 1}};
	for (unsigned int i = 0; i < 6; i++) {
		OK(cuMipmappedArrayGetLevel(&level, levels, i));
		OK(cuMipmappedArrayGetLevel(&again, levels, i));
		OK(cuArray3DGetDescriptor_v2(&told, level));
		CHECK(level == again && told.Width == extents[i][0] &&
		      told.Height == extents[i][1] && told.Depth == extents[i][2]);
		EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(level));
	}
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, levels, 6));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(NULL, levels, 0));
	EXPECT(CUDA_ERROR_INVALID_HANDLE,
	       cuMipmappedArrayGetLevel(&level, (CUmipmappedArray)level, 0));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy((CUmipmappedArray)level));
	/* Levels lie apart: what one holds is not another's. */
	float values[6][40 * 10 * 3], back[40 * 10 * 3];
	for (int write = 1; write >= 0; write--) {
		for (unsigned int i = 0; i < 6; i++) {
			size_t count = extents[i][0] * extents[i][1] * extents[i][2];
			OK(cuMipmappedArrayGetLevel(&level, levels, i));
			CUDA_MEMCPY3D copy = {.WidthInBytes = extents[i][0] * sizeof(float),
			                      .Height = extents[i][1],
			                      .Depth = extents[i][2]};
			if (write) {
				for (size_t k = 0; k < count; k++)
					values[i][k] = (float)(1000 * i + k);
				copy.srcMemoryType = CU_MEMORYTYPE_HOST;
				copy.srcHost = values[i];
				copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
				copy.dstArray = level;
			} else {
				copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
				copy.srcArray = level;
				copy.dstMemoryType = CU_MEMORYTYPE_HOST;
				copy.dstHost = back;
			}
			OK(cuMemcpy3D_v2(&copy));
			CHECK(write || memcmp(values[i], back, count * sizeof(float)) == 0);
		}
	}
	OK(cuMipmappedArrayDestroy(levels));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuArray3DGetDescriptor_v2(&told, level));
	/* Layers are as many in each level; none wanted is one. */
	what = FLOATS(8, 8, 5, CUDA_ARRAY3D_LAYERED);
	OK(cuMipmappedArrayCreate(&levels, &what, 2));
	OK(cuMipmappedArrayGetLevel(&level, levels, 1));
	OK(cuArray3DGetDescriptor_v2(&told, level));
	CHECK(told.Width == 4 && told.Height == 4 && told.Depth == 5);
	OK(cuMipmappedArrayDestroy(levels));
	OK(cuMipmappedArrayCreate(&levels, &what, 0));
	OK(cuMipmappedArrayGetLevel(&level, levels, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, levels, 1));
	OK(cuMipmappedArrayDestroy(levels));
}

static void rows_of_bytes(void)
{
	start();
	CUarray a, b, bytes, plane;
	CUdeviceptr memory;
	CUstream stream;
	int out[1000], back[1000] = {0};
	for (int i = 0; i < 1000; i++)
		out[i] = i * 7;
	CUDA_ARRAY_DESCRIPTOR line = {1000, 0, CU_AD_FORMAT_SIGNED_INT32, 1};
	OK(cuArrayCreate_v2(&a, &line));
	OK(cuArrayCreate_v2(&b, &line));
	OK(cuMemAlloc_v2(&memory, sizeof(out)));
	OK(cuMemcpyHtoA_v2(a, 0, out, sizeof(out)));
	OK(cuMemcpyAtoA_v2(b, 0, a, 400, 3600));
	OK(cuMemcpyAtoA_v2(b, 3600, a, 0, 400));
	OK(cuMemcpyAtoD_v2(memory, b, 3600, 400));
	OK(cuMemcpyAtoD_v2(memory + 400, b, 0, 3600));
	OK(cuMemcpyDtoH_v2(back, memory, sizeof(back)));
	CHECK(memcmp(out, back, sizeof(out)) == 0);
	OK(cuMemcpyDtoA_v2(b, 0, memory, sizeof(out)));
	memset(back, 0, sizeof(back));
	OK(cuMemcpyAtoH_v2(back, b, 0, sizeof(back)));
	CHECK(memcmp(out, back, sizeof(out)) == 0);
	/* In the order of a stream. */
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemcpyHtoAAsync_v2(a, 0, out + 1, 400, stream));
	OK(cuMemcpyAtoHAsync_v2(back, a, 0, 400, stream));
	OK(cuStreamSynchronize(stream));
	CHECK(memcmp(out + 1, back, 400) == 0);
	/* Past an end, parts of elements, elements of another size, what has rows, and none. */
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA_v2(a, 4, out, sizeof(out)));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA_v2(a, SIZE_MAX - 3, out, 4));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA_v2(a, 2, out, 4));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoH_v2(back, a, 0, 3));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoD_v2(memory + 4, a, 0, sizeof(out)));
	OK(cuMemcpyAtoH_v2(back, a, 0, 0));
	line = (CUDA_ARRAY_DESCRIPTOR){4000, 0, CU_AD_FORMAT_SIGNED_INT8, 1};
	OK(cuArrayCreate_v2(&bytes, &line));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyAtoA_v2(bytes, 0, a, 0, 400));
	line = (CUDA_ARRAY_DESCRIPTOR){100, 10, CU_AD_FORMAT_SIGNED_INT32, 1};
	OK(cuArrayCreate_v2(&plane, &line));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA_v2(plane, 0, out, 400));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoA_v2(NULL, 0, out, 4));
	OK(cuArrayDestroy(a));
	EXPECT(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoA_v2(a, 0, out, 4));
	/* A stream's capture would name memory: it is refused, and what is captured goes on. */
	CUgraph graph;
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMemcpyAtoHAsync_v2(back, b, 0, 400, stream));
	OK(cuStreamEndCapture(stream, &graph));
}

static void rows_and_planes(void)
{
	CUcontext context = start();
	CUarray array;
	CUdeviceptr memory;
	unsigned char out[7 * 5 * 3 * 4], back[sizeof(out)];
	for (size_t i = 0; i < sizeof(out); i++)
		out[i] = (unsigned char)(i * 11);
	/* Seven elements of 4 bytes, five rows, three planes, at (2, 1, 1) of what is larger. */
	CUDA_ARRAY3D_DESCRIPTOR what = {9, 6, 4, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0};
	OK(cuArray3DCreate_v2(&array, &what));
	OK(cuMemAlloc_v2(&memory, sizeof(out)));
	CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
	                    .srcHost = out,
	                    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
	                    .dstArray = array,
	                    .dstXInBytes = 8,
	                    .dstY = 1,
	                    .dstZ = 1,
	                    .dstPitch = 1, /* ignored */
	                    .dstHeight = 1,
	                    .WidthInBytes = 28,
	                    .Height = 5,
	                    .Depth = 3};
	CUDA_MEMCPY3D to_memory = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
	                           .srcArray = array,
	                           .srcXInBytes = 8,
	                           .srcY = 1,
	                           .srcZ = 1,
	                           .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                           .dstDevice = memory,
	                           .WidthInBytes = 28,
	                           .Height = 5,
	                           .Depth = 3};
	OK(cuMemcpy3D_v2(&in));
	OK(cuMemcpy3D_v2(&to_memory));
	OK(cuMemcpyDtoH_v2(back, memory, sizeof(back)));
	CHECK(memcmp(out, back, sizeof(out)) == 0);
	/* One plane of it, as rows. */
	CUarray plane;
	CUDA_ARRAY_DESCRIPTOR flat = {7, 5, CU_AD_FORMAT_UNSIGNED_INT8, 4};
	OK(cuArrayCreate_v2(&plane, &flat));
	CUDA_MEMCPY3D across = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
	                        .srcArray = array,
	                        .srcXInBytes = 8,
	                        .srcY = 1,
	                        .srcZ = 2,
	                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
	                        .dstArray = plane,
	                        .WidthInBytes = 28,
	                        .Height = 5,
	                        .Depth = 1};
	OK(cuMemcpy3D_v2(&across));
	CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
	                      .srcArray = plane,
	                      .srcXInBytes = 4,
	                      .srcY = 2,
	                      .dstMemoryType = CU_MEMORYTYPE_HOST,
	                      .dstHost = back,
	                      .dstPitch = 28,
	                      .WidthInBytes = 24,
	                      .Height = 3};
	memset(back, 0, sizeof(back));
	OK(cuMemcpy2D_v2(&rows));
	for (size_t y = 0; y < 3; y++)
		CHECK(memcmp(back + y * 28, out + 140 + (y + 2) * 28 + 4, 24) == 0);
	rows.Height = 4;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&rows));
	rows.Height = 3;
	rows.srcXInBytes = 2;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy2D_v2(&rows));
	in.dstZ = 2;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&in));
	in.dstZ = 1;
	in.dstLOD = 1;
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D_v2(&in));
	in.dstLOD = 0;
	/* As a node of a graph; what is gone when it is launched is said. */
	CUgraph graph;
	CUgraphNode node;
	CUgraphExec exec;
	OK(cuMemsetD8_v2(memory, 0, sizeof(out)));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemcpyNode(&node, graph, NULL, 0, &to_memory, context));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(back, memory, sizeof(back)));
	CHECK(memcmp(out, back, sizeof(out)) == 0);
	OK(cuArrayDestroy(array));
	CHECK(cuGraphLaunch(exec, NULL) != CUDA_SUCCESS);
	OK(cuArrayDestroy(plane));
	OK(cuMemFree_v2(memory));
}

/* Who destroys an array waits for what still copies to it. */
static void destroyed_in_use(void)
{
	start();
	CUarray array;
	CUDA_ARRAY_DESCRIPTOR what = {1024, 1024, CU_AD_FORMAT_FLOAT, 1};
	size_t size = 4 * MIB;
	void *out, *back;
	CUstream stream;
	OK(cuMemAllocHost_v2(&out, size));
	OK(cuMemAllocHost_v2(&back, size));
	memset(out, 5, size);
	memset(back, 0, size);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuArrayCreate_v2(&array, &what));
	CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
	                    .srcHost = out,
	                    .dstMemoryType = CU_MEMORYTYPE_ARRAY,
	                    .dstArray = array,
	                    .WidthInBytes = 4096,
	                    .Height = 1024};
	CUDA_MEMCPY2D from = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
	                      .srcArray = array,
	                      .dstMemoryType = CU_MEMORYTYPE_HOST,
	                      .dstHost = back,
	                      .WidthInBytes = 4096,
	                      .Height = 1024};
	OK(cuMemcpy2DAsync_v2(&in, stream));
	OK(cuMemcpy2DAsync_v2(&from, stream));
	OK(cuArrayDestroy(array));
	CHECK(memcmp(out, back, size) == 0 && physical_bytes(0) == 8 * MIB);
}

int main(void)
{
	int failed = 0;
	failed += RUN(descriptors, NULL);
	failed += RUN(books, "SOFTGPU_MEMORY=64M");
	failed += RUN(mipmaps, NULL);
	failed += RUN(rows_of_bytes, NULL);
	failed += RUN(rows_and_planes, NULL);
	failed += RUN(destroyed_in_use, NULL);
	return failed != 0;
}
