/* SPDX-License-Identifier: MIT */
/*
 * books [open HANDLE|refused]: takes device memory in many ways, each in its own scenario, and
 * gives it back. It stops at each step. Or it opens the memory that another process shares.
 *
 * A step is a line "SCENARIO STEP GROWTH SLACK" on stdout, answered by a line on stdin. Since
 * "begin" the process should hold GROWTH more bytes on the device (-1: any amount that the device
 * says). Spillway may know SLACK less of them.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB   ((size_t)1 << 20)
#define BLOCK (2 * MIB) /* the driver's unit */
#define ANY   SIZE_MAX  /* as much as the device takes */

static CUdevice device;
static CUcontext context;
static const char *scenario;

static void check(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS) {
		fprintf(stderr, "books: %s: %s: error %d\n", scenario, what, (int)result);
		exit(1);
	}
}
#define CHECK(call) check(call, #call)

static void wait_for_answer(void)
{
	char line[16];

	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

/* growth: bytes; slack: what is below the driver's unit. */
static void step_with(const char *name, size_t growth, size_t slack)
{
	printf("%s %s %zd %zu\n", scenario, name, (ssize_t)growth, slack);
	wait_for_answer();
}

static void step(const char *name, size_t growth)
{
	step_with(name, growth, 0);
}

static void begin(void)
{
	CHECK(cuCtxSynchronize());
	step("begin", 0);
}

static void end(void)
{
	CHECK(cuCtxSynchronize());
	step("end", 0);
}

/* --- each way --- */

static void plain(void)
{
	CUdeviceptr large, odd, small;

	CHECK(cuMemAlloc_v2(&large, 8 * MIB));
	step("large", 8 * MIB);
	CHECK(cuMemAlloc_v2(&odd, 3 * MIB));
	step("odd", 12 * MIB);
	CHECK(cuMemAlloc_v2(&small, 700));
	step_with("small", 14 * MIB, BLOCK);
	CHECK(cuMemFree_v2(odd));
	CHECK(cuMemFree_v2(small));
	step("two_freed", 8 * MIB);
	CHECK(cuMemFree_v2(large));
}

static void pitch(void)
{
	CUdeviceptr address;
	size_t bytes;

	CHECK(cuMemAllocPitch_v2(&address, &bytes, 1000, 8192, 4));
	step("made", 8 * MIB);
	CHECK(cuMemFree_v2(address));
}

static const CUmemAccessDesc *access_of_device(void)
{
	static CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = device;
	return &access;
}

static void vmm(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr address;

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	CHECK(cuMemAddressReserve(&address, 8 * MIB, 0, 0, 0));
	step("reserved", 0);
	CHECK(cuMemCreate(&handle, 8 * MIB, &prop, 0));
	step("created", 8 * MIB);
	CHECK(cuMemMap(address, 8 * MIB, 0, handle, 0));
	CHECK(cuMemSetAccess(address, 8 * MIB, access_of_device(), 1));
	CHECK(cuMemRelease(handle));
	step("mapped_alone", 8 * MIB);
	CHECK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)address));
	CHECK(cuMemUnmap(address, 8 * MIB));
	step("retained_alone", 8 * MIB);
	CHECK(cuMemRelease(again));
	CHECK(cuMemAddressFree(address, 8 * MIB));
}

/* A second handle to memory of this process. */
static void imported(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .requestedHandleTypes =
	                                CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
	CUmemGenericAllocationHandle handle, again;
	int file;

	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.location.id = device;
	CHECK(cuMemCreate(&handle, 8 * MIB, &prop, 0));
	CHECK(cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                   0));
	step("exported", 8 * MIB);
	CHECK(cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)file,
	                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(file);
	step("imported", 8 * MIB);
	CHECK(cuMemRelease(again));
	step("released_once", 8 * MIB);
	CHECK(cuMemRelease(handle));
}

static void async(void)
{
	cuuint64_t threshold = UINT64_MAX, none = 0;
	CUmemoryPool pool;
	CUdeviceptr address;

	CHECK(cuMemAllocAsync(&address, 8 * MIB, NULL));
	CHECK(cuCtxSynchronize());
	step("made", ANY);
	CHECK(cuMemFreeAsync(address, NULL));
	CHECK(cuCtxSynchronize());
	step("freed", 0);
	CHECK(cuDeviceGetDefaultMemPool(&pool, device));
	CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	CHECK(cuMemAllocAsync(&address, 8 * MIB, NULL));
	CHECK(cuMemFreeAsync(address, NULL));
	CHECK(cuCtxSynchronize());
	step("kept_by_threshold", ANY);
	CHECK(cuMemPoolTrimTo(pool, 0));
	step("trimmed", 0);
	CHECK(cuMemAllocAsync(&address, 8 * MIB, NULL));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemFree_v2(address));
	CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none));
}

static void pools(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemoryPool pool;
	CUdeviceptr one, other;

	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.location.id = device;
	CHECK(cuMemPoolCreate(&pool, &props));
	step("empty", 0);
	CHECK(cuMemAllocFromPoolAsync(&one, 8 * MIB, pool, NULL));
	CHECK(cuMemAllocFromPoolAsync(&other, 4096, pool, NULL));
	CHECK(cuCtxSynchronize());
	step("two", ANY);
	CHECK(cuMemFreeAsync(one, NULL));
	CHECK(cuCtxSynchronize());
	step("one", ANY);
	CHECK(cuMemPoolDestroy(pool));
	step("destroyed_in_use", ANY);
	CHECK(cuMemFreeAsync(other, NULL));
}

/* The first of the process. */
static void first(void)
{
	scenario = "first";
	step("begin", 0);
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	step("retained", ANY);
	CHECK(cuDevicePrimaryCtxRelease_v2(device));
	step("end", 0);
	CHECK(cuCtxCreate_v2(&context, 0, device));
	step("created", ANY);
	CHECK(cuCtxDestroy_v2(context));
	step("end", 0);
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
}

#define VARIABLE(size)                                                                             \
	".version 6.4\n.target sm_50\n.address_size 64\n.visible .global .align 8 .b8 table[" size \
	"];\n.visible .entry nothing()\n{\nret;\n}\n"

/* Asks something of a library: then the driver makes a module of it in this context. */
static void library(void)
{
	CUlibrary made;
	CUkernel kernel;
	CUfunction function;
	CUmodule of_it;
	CUdeviceptr address;
	size_t bytes;

	for (int way = 0; way < 3; way++) {
		CHECK(
		    cuLibraryLoadData(&made, VARIABLE("314572800"), NULL, NULL, 0, NULL, NULL, 0));
		step("loaded", ANY);
		if (way == 0) {
			CHECK(cuLibraryGetModule(&of_it, made));
		} else if (way == 1) {
			CHECK(cuLibraryGetGlobal(&address, &bytes, made, "table"));
		} else {
			CHECK(cuLibraryGetKernel(&kernel, made, "nothing"));
			CHECK(cuKernelGetFunction(&function, kernel));
		}
		step(way == 0 ? "module" : way == 1 ? "global" : "function", 300 * MIB);
		CHECK(cuLibraryUnload(made));
		step("unloaded", 0);
	}
}

/* Returns whether the shim has the module that gives memory to other processes. */
static bool gives_memory(void)
{
	return !getenv("GIVES_MEMORY");
}

static void ipc(void)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	CHECK(cuMemAlloc_v2(&address, 8 * MIB));
	CHECK(cuIpcGetMemHandle(&handle, address));
	step("shared", 8 * MIB);
	fputs("handle ", stdout);
	for (size_t i = 0; i < sizeof(handle); i++)
		printf("%02x", (unsigned char)handle.reserved[i]);
	putchar('\n');
	wait_for_answer();
	step("closed_by_the_other", 8 * MIB);
	CHECK(cuMemFree_v2(address));
}

/* In a second process, of another job. */
static void open_ipc(const char *text)
{
	CUipcMemHandle handle;
	CUdeviceptr address;

	for (size_t i = 0; i < sizeof(handle); i++) {
		char byte[3] = {text[2 * i], text[2 * i + 1], 0};

		handle.reserved[i] = (char)strtoul(byte, NULL, 16);
	}
	CHECK(cuIpcOpenMemHandle_v2(&address, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	step("opened", 0);
	CHECK(cuMemsetD8_v2(address, 1, 8 * MIB));
	CHECK(cuIpcCloseMemHandle(address));
}

static void expect(const char *what, CUresult wanted, CUresult got)
{
	if (wanted == got)
		return;
	printf("%s: expected %d, got %d\n", what, wanted, got);
	exit(1);
}

static void is_usable(CUdeviceptr address)
{
	unsigned int word = 0;

	CHECK(cuMemsetD32_v2(address, 4711, 1));
	CHECK(cuMemcpyDtoH_v2(&word, address, sizeof(word)));
	expect("a word", 4711, word);
}

/*
 * Under a limit of 4 MiB: what can be on the host is, the rest is out of memory, and all goes on.
 */
static void refused(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                        .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemGenericAllocationHandle handle;
	CUipcMemHandle shared;
	CUmemoryPool pool;
	CUmodule loaded;
	CUdeviceptr spilled, fits;
	int file;

	props.location.type = prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.location.id = prop.location.id = device;
	expect("spilled", CUDA_SUCCESS, cuMemAlloc_v2(&spilled, 8 * MIB));
	expect("a handle of spilled memory",
	       gives_memory() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_MAP_FAILED,
	       cuIpcGetMemHandle(&shared, spilled));
	is_usable(spilled);
	expect("physical memory", CUDA_SUCCESS, cuMemCreate(&handle, 8 * MIB, &prop, 0));
	CHECK(cuMemRelease(handle));
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	expect("physical memory that may be exported", CUDA_SUCCESS,
	       cuMemCreate(&handle, 8 * MIB, &prop, 0));
	expect("its export", CUDA_ERROR_OUT_OF_MEMORY,
	       cuMemExportToShareableHandle(&file, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                    0));
	CHECK(cuMemRelease(handle));
	CHECK(cuMemPoolCreate(&pool, &props));
	expect("a pool to be exported", CUDA_ERROR_OUT_OF_MEMORY,
	       cuMemAllocFromPoolAsync(&fits, 8 * MIB, pool, NULL));
	expect("that pool, less", CUDA_SUCCESS,
	       cuMemAllocFromPoolAsync(&fits, 1 * MIB, pool, NULL));
	is_usable(fits);
	CHECK(cuMemFreeAsync(fits, NULL));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemPoolDestroy(pool));
	expect("a module", CUDA_SUCCESS, cuModuleLoadData(&loaded, VARIABLE("8388608")));
	expect("what now cannot be on the device", CUDA_SUCCESS, cuMemAlloc_v2(&fits, MIB));
	is_usable(fits);
	CHECK(cuMemFree_v2(fits));
	CHECK(cuModuleUnload(loaded));
	expect("what fits again", CUDA_SUCCESS, cuMemAlloc_v2(&fits, 4 * MIB));
	step("what_fits", 4 * MIB);
	CHECK(cuMemFree_v2(fits));
	CHECK(cuMemFree_v2(spilled));
}

static const struct {
	const char *name;
	void (*run)(void);
} scenarios[] = {{"plain", plain}, {"pitch", pitch}, {"vmm", vmm},         {"imported", imported},
                 {"async", async}, {"pools", pools}, {"library", library}, {"ipc", ipc}};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("pid %d\n", (int)getpid());
	wait_for_answer();
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	first();
	if (argc > 2 && strcmp(argv[1], "open") == 0) {
		scenario = "open";
		begin();
		open_ipc(argv[2]);
		end();
		return 0;
	}
	if (argc > 1) {
		scenario = "refused";
		begin();
		refused();
		end();
		return 0;
	}
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (scenarios[i].run == ipc && !gives_memory())
			continue;
		scenario = scenarios[i].name;
		begin();
		scenarios[i].run();
		end();
	}
	return 0;
}
