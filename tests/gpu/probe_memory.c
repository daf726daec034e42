/* SPDX-License-Identifier: MIT */
/*
 * Questions on the memory that there is, and the processes that may see it: device, providers,
 * sharing, peers, reset.
 */
#include "tests/gpu/probe.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int attribute(CUdevice_attribute which)
{
	int value = 0;

	return gpu.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : -1;
}

static void ask_granularity(const char *question, CUmemLocationType type)
{
	CUmemAllocationProp properties = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .location = {.type = type,
	                 .id = type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? gpu_host_node() : 0}};
	size_t minimum = 0, recommended = 0;

	attempt_begin();
	ATTEMPT(
	    cuMemGetAllocationGranularity(&minimum, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ATTEMPT(cuMemGetAllocationGranularity(&recommended, &properties,
	                                      CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	if (attempt_failed(question))
		return;
	char reply[64];
	snprintf(reply, sizeof(reply), "%zu", minimum);
	answer(question, reply, "bytes at least, %zu recommended", recommended);
}

static void answer_device(void)
{
	char name[256] = "";
	int version = 0;

	gpu.cuDeviceGetName(name, sizeof(name), device);
	gpu.cuDriverGetVersion(&version);
	answer("device", name, "driver %d.%d, compute capability %d.%d", version / 1000,
	       version % 1000 / 10, attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
	       attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

static void answer_virtual_memory(void)
{
	answer("virtual_memory",
	       attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 1 ? "yes"
	                                                                               : "no",
	       "host NUMA memory %d, nearest node %d (1 yes, -1 unknown)",
	       attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED),
	       attribute(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID));
}

bool ask_device(void)
{
	static const struct {
		const char *question;
		CUmemLocationType type;
	} asked[] = {
	    {"granularity_device", CU_MEM_LOCATION_TYPE_DEVICE},
	    {"granularity_host_numa", CU_MEM_LOCATION_TYPE_HOST_NUMA},
	    {"granularity_host", CU_MEM_LOCATION_TYPE_HOST},
	};

	ASK("device", answer_device());
	if (!gpu_was_there())
		return false;
	ASK("virtual_memory", answer_virtual_memory());
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		ASK(asked[i].question, ask_granularity(asked[i].question, asked[i].type));
	return true;
}

/* One attribute as text: "pointer" and "current" stand for the pointer asked about and the current
 * context, whose numbers differ from run to run. */
static void attribute_text(CUdeviceptr pointer, CUpointer_attribute which, char text[32])
{
	uint64_t value = 0; /* large enough for each; shorter ones fill its low bytes */
	CUresult result = gpu.cuPointerGetAttribute(&value, which, pointer);

	if (result != CUDA_SUCCESS)
		snprintf(text, 32, "%s", gpu_error_name(result));
	else if (value == pointer)
		strcpy(text, "pointer");
	else if (value == (uintptr_t)context)
		strcpy(text, "current");
	else if (value == UINT32_MAX)
		strcpy(text, "-1");
	else
		snprintf(text, 32, "%llu", (unsigned long long)value);
}

/* All attributes, as "memory_type=1 context=current ...". */
static void describe_pointer(CUdeviceptr pointer, char *text, size_t size)
{
	static const struct {
		const char *name;
		CUpointer_attribute attribute;
	} asked[] = {
	    {"memory_type", CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
	    {"context", CU_POINTER_ATTRIBUTE_CONTEXT},
	    {"device_pointer", CU_POINTER_ATTRIBUTE_DEVICE_POINTER},
	    {"host_pointer", CU_POINTER_ATTRIBUTE_HOST_POINTER},
	    {"managed", CU_POINTER_ATTRIBUTE_IS_MANAGED},
	    {"ordinal", CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL},
	    {"range_start", CU_POINTER_ATTRIBUTE_RANGE_START_ADDR},
	    {"range_size", CU_POINTER_ATTRIBUTE_RANGE_SIZE},
	};
	size_t used = 0;

	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked) && used < size; i++) {
		char value[32];
		attribute_text(pointer, asked[i].attribute, value);
		used += snprintf(text + used, size - used, "%s%s=%s", i ? " " : "", asked[i].name,
		                 value);
	}
}

/* Does a kernel write it, and what do the attributes say? The attempt made the pointer. */
static void ask_pointer(const char *question, CUdeviceptr pointer)
{
	char text[512];
	unsigned count = 1024, one = 1, word = 0;
	CUfunction add = gpu_kernel("add_to_words");

	ATTEMPT(cuMemsetD32(pointer, 41, count));
	ATTEMPT(cuLaunchKernel(add, 8, 1, 1, 128, 1, 1, 0, NULL, (void *[]){&pointer, &count, &one},
	                       NULL));
	ATTEMPT(cuMemcpyDtoH(&word, pointer + (count - 1) * sizeof(word), sizeof(word)));
	if (attempt_failed(question))
		return;
	describe_pointer(pointer, text, sizeof(text));
	answer(question, word == 42 ? "works" : "wrong bytes", "%s", text);
}

static void ask_vmm_provider(const char *question, CUmemLocationType type)
{
	CUmemAllocationProp properties = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .location = {.type = type,
	                 .id = type == CU_MEM_LOCATION_TYPE_HOST_NUMA ? gpu_host_node() : 0}};
	CUmemAccessDesc access = range_access();
	struct range range = {.reserved = small_chunk, .chunk = small_chunk};

	attempt_begin();
	ATTEMPT(cuMemAddressReserve(&range.base, range.reserved, 0, 0, 0));
	ATTEMPT(cuMemCreate(&range.handles[0], small_chunk, &properties, 0));
	ATTEMPT(cuMemMap(range.base, small_chunk, 0, range.handles[0], 0));
	range.count = !attempt_failed(NULL);
	ATTEMPT(cuMemSetAccess(range.base, small_chunk, &access, 1));
	ask_pointer(question, range.base);
	range_free(&range);
}

/* Does host backing cost device memory? */
static void ask_footprint(void)
{
	struct range range;
	size_t before = 0, after = 0, total;

	attempt_begin();
	ATTEMPT(cuMemGetInfo(&before, &total));
	range_make(&range, "hhhhhhhh", small_chunk);
	ATTEMPT(cuMemGetInfo(&after, &total));
	if (!attempt_failed("host_backing_takes_device_memory"))
		answer("host_backing_takes_device_memory", before > after ? "yes" : "no",
		       "%lld bytes for 8 chunks of 2 MiB", (long long)before - (long long)after);
	range_free(&range);
}

static void ask_plain(const char *question)
{
	CUdeviceptr pointer = 0;

	attempt_begin();
	ATTEMPT(cuMemAlloc(&pointer, small_chunk));
	ask_pointer(question, pointer);
	gpu.cuMemFree(pointer);
}

static void ask_managed(const char *question)
{
	CUdeviceptr pointer = 0;

	attempt_begin();
	ATTEMPT(cuMemAllocManaged(&pointer, small_chunk, CU_MEM_ATTACH_GLOBAL));
	ask_pointer(question, pointer);
	gpu.cuMemFree(pointer);
}

static void ask_pinned(const char *question)
{
	CUdeviceptr pointer = 0;
	void *host = NULL;

	attempt_begin();
	ATTEMPT(cuMemHostAlloc(&host, small_chunk, CU_MEMHOSTALLOC_DEVICEMAP));
	ATTEMPT(cuMemHostGetDevicePointer(&pointer, host, 0));
	ask_pointer(question, pointer);
	gpu.cuMemFreeHost(host);
}

static void ask_access_over_mixed(const char *question)
{
	struct range range;

	attempt_begin();
	range_make(&range, "dhdh", small_chunk);
	if (!attempt_failed(question))
		answer(question, "yes", "chunks dhdh");
	range_free(&range);
}

void ask_providers(void)
{
	static const struct {
		const char *question;
		CUmemLocationType type;
	} asked[] = {
	    {"pointer_vmm_device", CU_MEM_LOCATION_TYPE_DEVICE},
	    {"provider_vmm_host_numa", CU_MEM_LOCATION_TYPE_HOST_NUMA},
	    {"provider_vmm_host", CU_MEM_LOCATION_TYPE_HOST},
	};

	ASK("pointer_plain", ask_plain("pointer_plain"));
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		ASK(asked[i].question, ask_vmm_provider(asked[i].question, asked[i].type));
	ASK("provider_managed", ask_managed("provider_managed"));
	ASK("provider_pinned", ask_pinned("provider_pinned"));
	ASK("access_set_once_over_mixed_chunks",
	    ask_access_over_mixed("access_set_once_over_mixed_chunks"));
	ASK("host_backing_takes_device_memory", ask_footprint());
}

static void ask_dma_buf(const char *question, CUdeviceptr pointer, size_t size)
{
	int descriptor = -1;

	ATTEMPT(cuMemGetHandleForAddressRange(&descriptor, pointer, size,
	                                      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	if (attempt_failed(question))
		return;
	answer(question, "yes", "a DMA-BUF descriptor for %zu bytes", size);
	close(descriptor);
}

static void ask_ipc(const char *question, CUdeviceptr pointer)
{
	CUipcMemHandle handle;

	ATTEMPT(cuIpcGetMemHandle(&handle, pointer));
	if (!attempt_failed(question))
		answer(question, "yes", "cuIpcGetMemHandle gave a handle");
}

static void ask_export(const char *question, char backing)
{
	CUmemAllocationProp properties = range_properties(backing);
	CUmemGenericAllocationHandle handle = 0;
	int descriptor = -1;

	properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	attempt_begin();
	ATTEMPT(cuMemCreate(&handle, small_chunk, &properties, 0));
	ATTEMPT(cuMemExportToShareableHandle(&descriptor, handle,
	                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	if (!attempt_failed(question)) {
		answer(question, "yes", "a file descriptor for a chunk of 2 MiB");
		close(descriptor);
	}
	if (handle)
		gpu.cuMemRelease(handle);
}

static void ask_plain_shared(const char *question, bool dma_buf)
{
	CUdeviceptr plain = 0;

	attempt_begin();
	ATTEMPT(cuMemAlloc(&plain, small_chunk));
	if (dma_buf)
		ask_dma_buf(question, plain, small_chunk);
	else
		ask_ipc(question, plain);
	gpu.cuMemFree(plain);
}

static void ask_range_shared(const char *question, const char *backings, bool dma_buf)
{
	struct range range;

	attempt_begin();
	range_make(&range, backings, small_chunk);
	if (dma_buf)
		ask_dma_buf(question, range.base, range.reserved);
	else
		ask_ipc(question, range.base);
	range_free(&range);
}

void ask_sharing(void)
{
	static const struct {
		const char *question, *backings;
		bool dma_buf;
	} asked[] = {
	    {"ipc_vmm_device", "d", false}, {"dma_buf_vmm_device", "d", true},
	    {"ipc_vmm_host", "h", false},   {"dma_buf_vmm_host", "h", true},
	    {"ipc_vmm_mixed", "dh", false}, {"dma_buf_vmm_mixed", "dh", true},
	};

	ASK("ipc_plain", ask_plain_shared("ipc_plain", false));
	ASK("dma_buf_plain", ask_plain_shared("dma_buf_plain", true));
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		ASK(asked[i].question,
		    ask_range_shared(asked[i].question, asked[i].backings, asked[i].dma_buf));
	ASK("export_device", ask_export("export_device", 'd'));
	ASK("export_host", ask_export("export_host", 'h'));
}

/* A second device writes a mixed range of the first. */
static void ask_peer(void)
{
	int devices = 0, can = 0;
	CUdevice second = 0;
	CUcontext other = NULL;
	CUmemAccessDesc access[2] = {range_access(), range_access()};
	struct range range;
	unsigned char byte = 0;

	gpu.cuDeviceGetCount(&devices);
	if (devices < 2) {
		answer("peer_access_to_mixed_chunks", "not asked", "one device");
		return;
	}
	attempt_begin();
	ATTEMPT(cuDeviceGet(&second, 1));
	ATTEMPT(cuDeviceCanAccessPeer(&can, second, device));
	if (!attempt_failed(NULL) && !can) {
		answer("peer_access_to_mixed_chunks", "no", "cuDeviceCanAccessPeer says no");
		return;
	}
	range_make(&range, "dh", small_chunk);
	access[1].location.id = second;
	ATTEMPT(cuMemSetAccess(range.base, range.reserved, access, 2));
	ATTEMPT(cuDevicePrimaryCtxRetain(&other, second));
	ATTEMPT(cuCtxSetCurrent(other));
	ATTEMPT(cuMemsetD8(range.base, 0x5a, range.reserved));
	ATTEMPT(cuMemcpyDtoH(&byte, range.base + range.reserved - 1, 1));
	if (!attempt_failed("peer_access_to_mixed_chunks"))
		answer("peer_access_to_mixed_chunks", byte == 0x5a ? "yes" : "wrong bytes",
		       "device 1 filled chunks dh of device 0");
	gpu.cuCtxSetCurrent(context);
	range_free(&range);
}

void ask_peers(void)
{
	ASK("peer_access_to_mixed_chunks", ask_peer());
}

static void ask_mapping_after_reset(void)
{
	static const char question[] = "mapping_survives_context_reset";
	struct range range;
	unsigned char bytes[2] = {0};

	attempt_begin();
	range_make(&range, "dh", small_chunk);
	ATTEMPT(cuMemsetD8(range.base, 0x5a, range.reserved));
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuDevicePrimaryCtxReset(device));
	ATTEMPT(cuDevicePrimaryCtxRetain(&context, device));
	ATTEMPT(cuCtxSetCurrent(context));
	ATTEMPT(cuMemcpyDtoH(&bytes[0], range.base, 1));
	ATTEMPT(cuMemcpyDtoH(&bytes[1], range.base + small_chunk, 1));
	if (!attempt_failed(question))
		answer(question, bytes[0] == 0x5a && bytes[1] == 0x5a ? "yes" : "wrong bytes",
		       "device chunk %#x, host chunk %#x, written as 0x5a", bytes[0], bytes[1]);
}

void ask_reset(void)
{
	ASK("mapping_survives_context_reset", ask_mapping_after_reset());
}
