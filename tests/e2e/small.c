/* SPDX-License-Identifier: MIT */
/*
 * small hold KIB COUNT READY END: takes COUNT allocations of KIB KiB in turn, and writes how many
 * it got to the file READY. It keeps them until there is a file END.
 *
 * small arrays KIB COUNT READY END: likewise, arrays.
 *
 * small check: small allocations look like the driver's own. Ends with 1 where one does not.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)

static int failed;

#define EXPECT(condition)                                                       \
	do {                                                                    \
		if (!(condition)) {                                             \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
			failed = 1;                                             \
		}                                                               \
	} while (0)
#define CHECK(call) EXPECT((call) == CUDA_SUCCESS)

static CUresult take_memory(size_t size)
{
	CUdeviceptr address;

	return cuMemAlloc_v2(&address, size);
}

static CUresult take_array(size_t size)
{
	const CUDA_ARRAY_DESCRIPTOR plane = {64, size / 64, CU_AD_FORMAT_UNSIGNED_INT8, 1};
	CUarray array;

	return cuArrayCreate_v2(&array, &plane);
}

static void hold(CUresult (*take)(size_t size), char **words)
{
	size_t size = strtoul(words[0], NULL, 10) * KIB;
	int count = atoi(words[1]), got = 0;
	const char *ready = words[2], *end = words[3];
	FILE *file;

	while (got < count && take(size) == CUDA_SUCCESS)
		got++;
	file = fopen(ready, "w");
	fprintf(file, "%d\n", got);
	fclose(file);
	while (access(end, F_OK) != 0)
		nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* Each has bytes, a range and a number of its own. */
static void check_queries(void)
{
	enum { COUNT = 64 };
	CUdeviceptr address[COUNT], base;
	unsigned long long id[COUNT];
	unsigned int word;
	size_t size;

	for (unsigned int i = 0; i < COUNT; i++) {
		CHECK(cuMemAlloc_v2(&address[i], 1000));
		EXPECT(address[i] % 256 == 0);
		CHECK(cuMemsetD32_v2(address[i], i, 250));
	}
	for (unsigned int i = 0; i < COUNT; i++) {
		CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
		                               CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		                               CU_POINTER_ATTRIBUTE_BUFFER_ID};
		void *data[] = {&base, &size, &id[i]};

		CHECK(cuPointerGetAttributes(3, names, data, address[i] + 999));
		EXPECT(base == address[i] && size == 1000);
		EXPECT(i == 0 || id[i] != id[i - 1]);
		base = size = 0;
		CHECK(cuMemGetAddressRange_v2(&base, &size, address[i] + 999));
		EXPECT(base == address[i] && size == 1000);
		CHECK(cuMemcpyDtoH_v2(&word, address[i] + 996, 4));
		EXPECT(word == i);
	}
	/* The first block's address is that of the driver's allocation, which holds all of them. */
	CHECK(cuMemFree_v2(address[0]));
	EXPECT(cuMemFree_v2(address[0]) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemGetAddressRange_v2(&base, &size, address[0]) == CUDA_ERROR_NOT_FOUND);
	EXPECT(cuMemFree_v2(address[1] + 512) == CUDA_ERROR_INVALID_VALUE);
	EXPECT(cuMemFreeAsync(address[1], NULL) == CUDA_ERROR_INVALID_VALUE);
	for (unsigned int i = 1; i < COUNT; i++) {
		CHECK(cuMemcpyDtoH_v2(&word, address[i], 4));
		EXPECT(word == i);
		CHECK(cuMemFree_v2(address[i]));
	}
	CHECK(cuMemAllocPitch_v2(&address[0], &size, 100, 7, 4));
	EXPECT(size >= 100 && size % 32 == 0);
	CHECK(cuMemsetD32_v2(address[0] + 6 * size, 1, 25));
	CHECK(cuMemFree_v2(address[0]));
}

/* Memory goes with its context, is freed under another one, and two contexts share none. */
static void check_contexts(CUcontext first)
{
	CUcontext second, current;
	CUdeviceptr one, two, owned;

	CHECK(cuMemAlloc_v2(&one, 4 * KIB));
	CHECK(cuCtxCreate_v2(&second, 0, 0));
	CHECK(cuMemAlloc_v2(&two, 4 * KIB));
	EXPECT(one >> 21 != two >> 21);
	CHECK(cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_CONTEXT, two));
	EXPECT(current == second);
	CHECK(cuMemFree_v2(one));
	CHECK(cuMemAlloc_v2(&owned, 4 * KIB));
	CHECK(cuCtxDestroy_v2(second));
	CHECK(cuCtxSetCurrent(first));
	EXPECT(cuMemFree_v2(two) != CUDA_SUCCESS);
	CHECK(cuMemAlloc_v2(&one, 4 * KIB));
	CHECK(cuMemsetD8_v2(one, 1, 4 * KIB));
	CHECK(cuMemFree_v2(one));
}

/*
 * What a process gives to others: the first in a slab, then the driver's own. Without the module
 * that gives nothing of a slab is given.
 */
static void check_shared(void)
{
	CUipcMemHandle handle;
	CUdeviceptr first, second;

	CHECK(cuMemAlloc_v2(&first, 4 * KIB));
	if (getenv("GIVES_MEMORY")) {
		EXPECT(cuIpcGetMemHandle(&handle, first) == CUDA_ERROR_MAP_FAILED);
		CHECK(cuMemFree_v2(first));
		return;
	}
	CHECK(cuIpcGetMemHandle(&handle, first));
	CHECK(cuMemAlloc_v2(&second, 4 * KIB));
	CHECK(cuIpcGetMemHandle(&handle, second));
	CHECK(cuMemFree_v2(first));
	CHECK(cuMemFree_v2(second));
}

int main(int argc, char **argv)
{
	CUcontext context;

	if (cuInit(0) != CUDA_SUCCESS || cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS)
		return 2;
	if (argc == 6) {
		hold(strcmp(argv[1], "arrays") == 0 ? take_array : take_memory, argv + 2);
		return 0;
	}
	check_queries();
	check_contexts(context);
	check_shared();
	CHECK(cuCtxDestroy_v2(context));
	return failed;
}
