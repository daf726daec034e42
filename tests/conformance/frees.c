/* SPDX-License-Identifier: MIT */
/* Freeing: which call may free which memory, the work that it waits for, and calls afterwards. */
#include "tests/conformance/transcript.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static CUfunction store; /* writes one word */
static CUstream stream;

static void ask_mistakes(void)
{
	CUdeviceptr memory, second;
	void *pinned, *plain = NULL;

	tell_status("free address 0", cuMemFree(0));
	tell_status("free an address nobody gave", cuMemFree(4096));
	CU(cuMemAlloc(&memory, 4 * MIB));
	tell_status("free from the middle", cuMemFree(memory + 256));
	tell_status("free", cuMemFree(memory));
	tell_status("free again", cuMemFree(memory));
	CU(cuMemAlloc(&memory, 1024));
	CU(cuMemAlloc(&second, 1024));
	tell_status("free small memory", cuMemFree(memory));
	tell_status("free small memory again", cuMemFree(memory));
	CU(cuMemFree(second));

	CU(cuMemHostAlloc(&pinned, 4096, 0));
	tell_status("free pinned memory as device memory", cuMemFree((CUdeviceptr)pinned));
	tell_status("free pinned memory from its middle", cuMemFreeHost((char *)pinned + 64));
	tell_status("unregister pinned memory", cuMemHostUnregister(pinned));
	tell_status("free pinned memory", cuMemFreeHost(pinned));
	tell_status("free pinned memory again", cuMemFreeHost(pinned));
	tell_status("free no pinned memory", cuMemFreeHost(NULL));

	if (posix_memalign(&plain, 4096, 8192))
		program_die("no memory");
	memset(plain, 0, 8192);
	tell_status("unregister what is not registered", cuMemHostUnregister(plain));
	CU(cuMemHostRegister(plain, 8192, 0));
	tell_status("register again", cuMemHostRegister(plain, 8192, 0));
	tell_status("register a part", cuMemHostRegister((char *)plain + 4096, 4096, 0));
	tell_status("unregister from the middle", cuMemHostUnregister((char *)plain + 4096));
	tell_status("free registered memory as pinned memory", cuMemFreeHost(plain));
	tell_status("unregister", cuMemHostUnregister(plain));
	tell_status("unregister again", cuMemHostUnregister(plain));
	tell_status("register 0 bytes", cuMemHostRegister(plain, 0, 0));
	tell_status("register NULL", cuMemHostRegister(NULL, 4096, 0));
	free(plain);
}

static void *end_later(void *hold)
{
	usleep(50000);
	hold_end(hold);
	return NULL;
}

/* The classic promise: when cuMemFree is back, earlier work on the memory has ended. */
static void ask_waiting(void)
{
	CUdeviceptr memory;
	CUevent event;
	pthread_t thread;
	struct hold hold;

	CU(cuMemAlloc(&memory, 4 * MIB));
	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	hold_stream(&hold, stream);
	CLIENT_LAUNCH(store, 1, 1, 1, stream, &memory);
	CU(cuEventRecord(event, stream));
	if (pthread_create(&thread, NULL, end_later, &hold))
		program_die("no thread");
	tell_status("free what a kernel will write to", cuMemFree(memory));
	tell_bool("the free waited for what is before the kernel", atomic_load(&hold.ended));
	tell_status("the kernel after the free", cuEventQuery(event));
	tell_status("the stream after the free", cuStreamSynchronize(stream));
	pthread_join(thread, NULL);
	CU(cuEventDestroy(event));
}

static void ask_stream_ordered(void)
{
	CUdeviceptr memory, plain, managed;
	CUevent event;
	struct hold hold;
	int pools = 0;

	CU(cuDeviceGetAttribute(&pools, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
	if (!pools)
		cannot_ask("this device has no memory pools");
	CU(cuMemAllocAsync(&memory, 4 * MIB, stream));
	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	hold_stream(&hold, stream);
	CLIENT_LAUNCH(store, 1, 1, 1, stream, &memory);
	tell_status("cuMemFreeAsync behind a kernel", cuMemFreeAsync(memory, stream));
	CU(cuEventRecord(event, stream));
	tell_status("the event behind it", cuEventQuery(event));
	hold_end(&hold);
	CU(cuStreamSynchronize(stream));

	CU(cuMemAllocAsync(&memory, 4 * MIB, stream));
	CU(cuStreamSynchronize(stream));
	tell_status("cuMemFree of memory from a pool", cuMemFree(memory));
	CU(cuMemAlloc(&plain, 4 * MIB));
	tell_status("cuMemFreeAsync of memory from cuMemAlloc", cuMemFreeAsync(plain, stream));
	tell_status("and the stream", cuStreamSynchronize(stream));
	CU(cuMemAllocManaged(&managed, 64 * KIB, CU_MEM_ATTACH_GLOBAL));
	tell_status("cuMemFree of managed memory", cuMemFree(managed));
	tell_status("cuMemFreeAsync of address 0", cuMemFreeAsync(0, stream));
	CU(cuEventDestroy(event));
}

static void ask_pools(void)
{
	CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
	                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemoryPool pool, own;
	CUdeviceptr memory;
	cuuint64_t value = 99;

	CU(cuDeviceGetDefaultMemPool(&own, 0));
	tell_status("destroy the default pool", cuMemPoolDestroy(own));
	TELL_VALUE("release threshold of the default pool",
	           cuMemPoolGetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value), "%llu",
	           (unsigned long long)value);
	CU(cuMemPoolCreate(&pool, &properties));
	CU(cuMemAllocFromPoolAsync(&memory, MIB, pool, stream));
	CU(cuStreamSynchronize(stream));
	TELL_VALUE("in use", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value),
	           "%llu", (unsigned long long)value);
	CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
	tell_bool("reserved is at least in use", value >= MIB);
	tell_status("destroy a pool in use", cuMemPoolDestroy(pool));
	tell_status("fill its memory afterwards", cuMemsetD8Async(memory, 1, MIB, stream));
	tell_status("free its memory afterwards", cuMemFreeAsync(memory, stream));
	tell_status("and the stream then", cuStreamSynchronize(stream));
	properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	tell_status("pool on the current NUMA node", cuMemPoolCreate(&pool, &properties));
}

int main(void)
{
	char name[256];

	client_open_device(name);
	CUmodule module = client_load_module("kernels.ptx");
	store = client_function(module, "store");
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ask_mistakes();
	ask_waiting();
	ask_stream_ordered();
	ask_pools();
	CU(cuStreamDestroy(stream));
	CU(cuModuleUnload(module));
	client_close_device(0);
	return 0;
}
