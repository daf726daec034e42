/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 that prints the arguments of a call as it received them, for calls.c. Its calls
 * have every way in which an argument can be passed on the machines of Spillway. Each call answers
 * 600, which no caller expects by chance. A library in front of it has no object to keep books of.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdio.h>

#define CALL(name, ...)                                                            \
	__attribute__((visibility("default"))) CUresult CUDAAPI name(__VA_ARGS__); \
	CUresult CUDAAPI name(__VA_ARGS__)

static CUresult received(const char *name)
{
	printf("%s\n", name);
	return CUDA_ERROR_NOT_READY;
}

static void print_bytes(const void *bytes, size_t size)
{
	const unsigned char *b = bytes;

	for (size_t i = 0; i < size; i++)
		printf("%02x", b[i]);
	printf(" ");
}

/* Integers, pointers and a stream; more of them than there are argument registers */
CALL(cuLaunchKernel, CUfunction f, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
     unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
     CUstream stream, void **parameters, void **extra)
{
	printf("%p %u %u %u %u %u %u %u %p %p %p ", (void *)f, grid_x, grid_y, grid_z, block_x,
	       block_y, block_z, shared, (void *)stream, (void *)parameters, (void *)extra);
	return received("cuLaunchKernel");
}

CALL(cuTensorMapEncodeTiled, CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
     void *address, const cuuint64_t *dimensions, const cuuint64_t *strides, const cuuint32_t *box,
     const cuuint32_t *element, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
     CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
	printf("%p %d %u %p %p %p %p %p %d %d %d %d ", (void *)map, (int)type, rank, address,
	       (const void *)dimensions, (const void *)strides, (const void *)box,
	       (const void *)element, (int)interleave, (int)swizzle, (int)promotion, (int)fill);
	return received("cuTensorMapEncodeTiled");
}

/* Narrow and wide integers */
CALL(cuMemsetD2D16_v2, CUdeviceptr address, size_t pitch, unsigned short value, size_t width,
     size_t height)
{
	printf("%llx %zx %x %zx %zx ", address, pitch, value, width, height);
	return received("cuMemsetD2D16_v2");
}

CALL(cuMemsetD8_v2, CUdeviceptr address, unsigned char value, size_t count)
{
	printf("%llx %x %zx ", address, value, count);
	return received("cuMemsetD8_v2");
}

CALL(cuStreamWaitValue64_v2, CUstream stream, CUdeviceptr address, cuuint64_t value,
     unsigned int flags)
{
	printf("%p %llx %llx %u ", (void *)stream, address, (unsigned long long)value, flags);
	return received("cuStreamWaitValue64_v2");
}

/* Floating point registers */
CALL(cuTexRefSetMipmapLevelBias, CUtexref texture, float bias)
{
	printf("%p %a ", (void *)texture, (double)bias);
	return received("cuTexRefSetMipmapLevelBias");
}

CALL(cuTexRefSetMipmapLevelClamp, CUtexref texture, float least, float most)
{
	printf("%p %a %a ", (void *)texture, (double)least, (double)most);
	return received("cuTexRefSetMipmapLevelClamp");
}

CALL(cuParamSetf, CUfunction f, int offset, float value)
{
	printf("%p %d %a ", (void *)f, offset, (double)value);
	return received("cuParamSetf");
}

/* Structures by value: in registers, on the stack, or by a hidden address */
CALL(cuIpcOpenMemHandle_v2, CUdeviceptr *address, CUipcMemHandle handle, unsigned int flags)
{
	printf("%p %u ", (void *)address, flags);
	print_bytes(&handle, sizeof(handle));
	return received("cuIpcOpenMemHandle_v2");
}

CALL(cuIpcOpenEventHandle, CUevent *event, CUipcEventHandle handle)
{
	printf("%p ", (void *)event);
	print_bytes(&handle, sizeof(handle));
	return received("cuIpcOpenEventHandle");
}

CALL(cuMemAdvise_v2, CUdeviceptr address, size_t size, CUmem_advise advice, CUmemLocation location)
{
	printf("%llx %zx %d %d %d ", address, size, (int)advice, (int)location.type, location.id);
	return received("cuMemAdvise_v2");
}

CALL(cuMemPrefetchAsync_v2, CUdeviceptr address, size_t size, CUmemLocation location,
     unsigned int flags, CUstream stream)
{
	printf("%llx %zx %d %d %u %p ", address, size, (int)location.type, location.id, flags,
	       (void *)stream);
	return received("cuMemPrefetchAsync_v2");
}
