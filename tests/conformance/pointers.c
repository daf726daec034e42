/* SPDX-License-Identifier: MIT */
/* The driver's answers about an address, by each kind of memory behind it. */
#include "tests/conformance/transcript.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUcontext context;

/* "device.context: own", as QUESTION names it. */
static const char *about(const char *kind, const char *attribute)
{
	static char question[128];

	snprintf(question, sizeof(question), "%s.%s", kind, attribute);
	return question;
}

static void tell_pointer(const char *question, CUresult status, uint64_t got, uint64_t asked)
{
	if (status != CUDA_SUCCESS)
		tell_status(question, status);
	else
		tell(question, got == asked ? "the same" : got ? "another" : "none");
}

static void tell_flag(const char *question, CUpointer_attribute attribute, CUdeviceptr pointer)
{
	unsigned long long value = 0;
	int flag = -1;

	if (attribute == CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES)
		TELL_VALUE(question, cuPointerGetAttribute(&value, attribute, pointer), "%llu",
		           value);
	else
		TELL_VALUE(question, cuPointerGetAttribute(&flag, attribute, pointer), "%d", flag);
}

/* The attributes of an address, `offset` bytes into `size` bytes of allocated memory. */
static void ask(const char *kind, CUdeviceptr pointer, size_t offset, size_t size)
{
	unsigned type = 0;
	CUcontext of = NULL;
	CUdeviceptr device = 0, start = 0, base = 0;
	void *host = NULL;
	CUmemoryPool pool = NULL;
	size_t bytes = 0;
	unsigned long long id = 0;
	int ordinal = -1;
	CUresult status;

	status = cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, pointer);
	if (status != CUDA_SUCCESS)
		tell_status(about(kind, "context"), status);
	else
		tell(about(kind, "context"), of == context ? "own" : of ? "another" : "none");
	TELL_VALUE(about(kind, "type"),
	           cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer), "%s",
	           type == CU_MEMORYTYPE_HOST     ? "host"
	           : type == CU_MEMORYTYPE_DEVICE ? "device"
	                                          : "neither");
	status = cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, pointer);
	tell_pointer(about(kind, "device_pointer"), status, device, pointer);
	status = cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, pointer);
	tell_pointer(about(kind, "host_pointer"), status, (uint64_t)host, pointer);
	tell_flag(about(kind, "managed"), CU_POINTER_ATTRIBUTE_IS_MANAGED, pointer);
	tell_flag(about(kind, "sync_memops"), CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, pointer);
	tell_flag(about(kind, "mapped"), CU_POINTER_ATTRIBUTE_MAPPED, pointer);
	tell_flag(about(kind, "handle_types"), CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, pointer);
	TELL_VALUE(about(kind, "ordinal"),
	           cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer),
	           "%d", ordinal);
	TELL_VALUE(about(kind, "buffer_id"),
	           cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer), "%s",
	           id ? "some" : "none");
	status = cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer);
	TELL_VALUE(about(kind, "pool"), status, "%s", pool ? "some" : "none");
	status = cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, pointer);
	TELL_VALUE(about(kind, "range_start"), status, "%s",
	           start == pointer - offset ? "the start" : "another address");
	status = cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, pointer);
	TELL_VALUE(about(kind, "range_size"), status, "%s",
	           bytes == size  ? "as asked"
	           : bytes > size ? "more"
	                          : "less");
	status = cuMemGetAddressRange(&base, &bytes, pointer);
	TELL_VALUE(about(kind, "address_range"), status, "%s, %s",
	           base == pointer - offset ? "the start" : "another address",
	           bytes == size  ? "as asked"
	           : bytes > size ? "more"
	                          : "less");
}

/* The form with many attributes at once, which answers for any address. */
static void ask_many(const char *kind, CUdeviceptr pointer)
{
	CUcontext of = (CUcontext)&of;
	unsigned type = 99;
	CUdeviceptr device = 99;
	void *host = &host;
	int managed = 99;
	CUpointer_attribute attributes[] = {
	    CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	    CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
	    CU_POINTER_ATTRIBUTE_IS_MANAGED};
	void *data[] = {&of, &type, &device, &host, &managed};

	TELL_VALUE(about(kind, "many"), cuPointerGetAttributes(5, attributes, data, pointer),
	           "context %s, type %u, device pointer %s, host pointer %s, managed %d",
	           of == context ? "own"
	           : of          ? "another"
	                         : "none",
	           type,
	           device == pointer ? "the same"
	           : device          ? "another"
	                             : "none",
	           (CUdeviceptr)host == pointer ? "the same"
	           : host                       ? "another"
	                                        : "none",
	           managed);
}

static void ask_plain(void)
{
	const size_t size = 4 * MIB;
	CUdeviceptr device, again;
	size_t pitch;
	unsigned long long id = 0, next_id = 0;

	CU(cuMemAlloc(&device, size));
	ask("device", device, 0, size);
	ask_many("device", device);
	ask("inside", device + 12345, 12345, size);
	CU(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, device));
	CU(cuMemFree(device));
	ask("freed", device, 0, size);
	ask_many("freed", device);
	CU(cuMemAlloc(&again, size));
	CU(cuPointerGetAttribute(&next_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, again));
	tell_bool("buffer ids are not used again", id != next_id);
	CU(cuMemFree(again));

	CU(cuMemAllocPitch(&device, &pitch, 1000, 1000, 4));
	ask("pitched", device, 0, pitch * 1000);
	CU(cuMemFree(device));
}

static void ask_managed(void)
{
	CUdeviceptr managed;
	int supported = 0;

	CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0));
	if (!supported)
		cannot_ask("this device has no managed memory");
	CU(cuMemAllocManaged(&managed, 2 * MIB, CU_MEM_ATTACH_GLOBAL));
	ask("managed", managed, 0, 2 * MIB);
	ask_many("managed", managed);
	CU(cuMemFree(managed));
}

static void ask_host(void)
{
	const size_t size = MIB;
	void *pinned, *registered = NULL, *unknown;

	CU(cuMemHostAlloc(&pinned, size, CU_MEMHOSTALLOC_DEVICEMAP));
	ask("pinned", (CUdeviceptr)pinned, 0, size);
	ask_many("pinned", (CUdeviceptr)pinned);
	CU(cuMemFreeHost(pinned));

	/* Where the device cannot use the host's addresses there is another one for it. */
	int same = 0;
	CU(cuDeviceGetAttribute(&same, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
	                        0));
	if (posix_memalign(&registered, 4096, size))
		program_die("no memory");
	memset(registered, 0, size);
	if (same) {
		CU(cuMemHostRegister(registered, size, CU_MEMHOSTREGISTER_DEVICEMAP));
		ask("registered", (CUdeviceptr)registered, 0, size);
		CU(cuMemHostUnregister(registered));
	}
	unknown = malloc(100);
	unsigned type;
	tell_status("unknown.type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	                                                  (CUdeviceptr)unknown));
	tell_status("unknown.managed", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_IS_MANAGED,
	                                                     (CUdeviceptr)unknown));
	ask_many("unknown", (CUdeviceptr)unknown);
	free(unknown);
	free(registered);
}

static void ask_pool(void)
{
	CUdeviceptr pooled;
	CUmemoryPool own, pool;
	int supported = 0;

	CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 0));
	if (!supported)
		cannot_ask("this device has no memory pools");
	CU(cuMemAllocAsync(&pooled, 2 * MIB, NULL));
	CU(cuStreamSynchronize(NULL));
	ask("pooled", pooled, 0, 2 * MIB);
	CU(cuDeviceGetDefaultMemPool(&own, 0));
	CU(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pooled));
	tell_bool("pooled memory names the default pool", pool == own);
	CU(cuMemFreeAsync(pooled, NULL));
	CU(cuStreamSynchronize(NULL));
}

static void ask_module(void)
{
	CUmodule module = client_load_module("kernels.ptx");
	CUdeviceptr variable;
	size_t bytes;
	unsigned type = 0;

	CU(cuModuleGetGlobal(&variable, &bytes, module, "variable"));
	TELL_VALUE("variable.type",
	           cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, variable), "%s",
	           type == CU_MEMORYTYPE_DEVICE ? "device" : "another");
	ask_many("variable", variable);
	CU(cuModuleUnload(module));
}

static void ask_set(void)
{
	CUdeviceptr memory;
	int on = 1, value = 0;

	CU(cuMemAlloc(&memory, MIB));
	tell_status("set SYNC_MEMOPS",
	            cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory));
	TELL_VALUE("SYNC_MEMOPS after setting it",
	           cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory), "%d",
	           value);
	tell_status("set a read-only attribute",
	            cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
	tell_status("attribute into NULL",
	            cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
	tell_status("attribute 0", cuPointerGetAttribute(&value, (CUpointer_attribute)0, memory));
	tell_status("attributes, none of them", cuPointerGetAttributes(0, NULL, NULL, memory));
	CU(cuMemFree(memory));
}

int main(void)
{
	char name[256];

	client_open_device(name);
	CU(cuCtxGetCurrent(&context));
	ask_plain();
	ask_managed();
	ask_host();
	ask_pool();
	ask_module();
	ask_set();
	client_close_device(0);
	return 0;
}
