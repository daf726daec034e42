/* SPDX-License-Identifier: MIT */
/*
 * calls [NAME...]: calls the entry points of echo_driver.c (all of them without a NAME), each with
 * arguments of its own, which the driver prints; "changed" is added where the answer of a call
 * differs from the driver's, or the call changed errno. Linked to the driver as programs are.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define P(number) ((void *)(0x1234567800000000ull + (number)))

static CUipcMemHandle memory_handle;
static CUipcEventHandle event_handle;
static CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = -5};

#define CALLS(X)                                                                                   \
	X(cuLaunchKernel, P(1), 2, 3, 4, 5, 6, 7, 8, P(9), P(10), P(11))                           \
	X(cuTensorMapEncodeTiled, P(1), 2, 3, P(4), P(5), P(6), P(7), P(8), 9, 10, 11, 12)         \
	X(cuMemsetD2D16_v2, 0xfedcba9876543210, 0x123456789abcdef, 0xfffe, 1ull << 63, 5)          \
	X(cuMemsetD8_v2, 0xfedcba9876543210, 0xfd, 1ull << 62)                                     \
	X(cuStreamWaitValue64_v2, P(1), 0xfedcba9876543210, 0xf00dfacecafebeef, 0xffffffff)        \
	X(cuTexRefSetMipmapLevelBias, P(1), -1.625f)                                               \
	X(cuTexRefSetMipmapLevelClamp, P(1), 0.1f, 3e38f)                                          \
	X(cuParamSetf, P(1), -2, 1e-40f)                                                           \
	X(cuIpcOpenMemHandle_v2, P(1), memory_handle, 0xfffffffe)                                  \
	X(cuIpcOpenEventHandle, P(1), event_handle)                                                \
	X(cuMemAdvise_v2, 0xfedcba9876543210, 1ull << 40, CU_MEM_ADVISE_SET_ACCESSED_BY, location) \
	X(cuMemPrefetchAsync_v2, 0xfedcba9876543210, 1ull << 40, location, 0xfffffffd, P(6))

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], name) == 0)
			return true;
	}
	return argc == 1;
}

static void judge(const char *name, CUresult result)
{
	if (result != CUDA_ERROR_NOT_READY || errno != 4711)
		printf("%s: changed: result %d, errno %d\n", name, (int)result, errno);
}

int main(int argc, char **argv)
{
	memset(&memory_handle, 0x5a, sizeof(memory_handle));
	memset(&event_handle, 0xa5, sizeof(event_handle));
	((char *)&memory_handle)[0] = 1;
	((char *)&memory_handle)[63] = 2;
	((char *)&event_handle)[0] = 3;
	((char *)&event_handle)[63] = 4;
#define X(name, ...)                             \
	if (wanted(#name, argc, argv)) {         \
		errno = 4711;                    \
		judge(#name, name(__VA_ARGS__)); \
	}
	CALLS(X)
#undef X
	return 0;
}
