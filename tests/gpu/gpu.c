/* SPDX-License-Identifier: MIT */
/* The driver's functions, attempts, and ranges of chunks. See gpu.h. */
#include "tests/gpu/gpu.h"

#include "tests/clients/program.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu gpu;
CUdevice device;
CUcontext context;
CUstream stream;
struct attempt attempt;
const size_t small_chunk = (size_t)2 << 20;

static CUmemLocationType host_kind = CU_MEM_LOCATION_TYPE_HOST_NUMA;

static CUresult missing(void)
{
	return CUDA_ERROR_NOT_SUPPORTED;
}

static void find_calls(void *library)
{
	void *found;

	/* TEXT sees the name as cuda.h's macros left it, which is the versioned, exported one. */
#define FIND(symbol, slot)               \
	found = dlsym(library, symbol);  \
	if (!found)                      \
		found = (void *)missing; \
	memcpy(&(slot), &found, sizeof(found));
#define TEXT(name) #name
#define CALL(name) FIND(TEXT(name), gpu.name)
	GPU_CALLS(CALL)
#undef CALL
#undef TEXT
#undef FIND
}

const char *gpu_error_name(CUresult result)
{
	static char unnamed[32];
	const char *name = NULL;

	if (gpu.cuGetErrorName(result, &name) == CUDA_SUCCESS && name)
		return name;
	snprintf(unnamed, sizeof(unnamed), "CUresult %d", (int)result);
	return unnamed;
}

void attempt_begin(void)
{
	attempt = (struct attempt){CUDA_SUCCESS, ""};
}

bool attempt_failed(const char *question)
{
	if (attempt.result == CUDA_SUCCESS)
		return false;
	if (question)
		answer(question, "no", "%.*s: %s", (int)strcspn(attempt.call, "("), attempt.call,
		       gpu_error_name(attempt.result));
	return true;
}

int gpu_host_node(void)
{
	int node = -1;

	if (gpu.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device) !=
	    CUDA_SUCCESS)
		node = -1;
	return node < 0 ? 0 : node;
}

/* One kind of memory of the host, made and written by the device. */
static void try_host(const char *question, CUmemLocationType type)
{
	struct range range;

	host_kind = type;
	attempt_begin();
	range_make(&range, "h", small_chunk);
	ATTEMPT(cuMemsetD8(range.base, 1, small_chunk));
	ATTEMPT(cuCtxSynchronize());
	if (!attempt_failed(question))
		answer(question, "yes", "location type %d, node %d", (int)type, gpu_host_node());
	range_free(&range);
}

void gpu_choose_host(void)
{
	static const struct {
		const char *question;
		CUmemLocationType type;
	} kinds[] = {{"host_memory_of_node", CU_MEM_LOCATION_TYPE_HOST_NUMA},
	             {"host_memory_of_no_node", CU_MEM_LOCATION_TYPE_HOST}};
	bool chosen = false;

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		const char *question = kinds[i].question;

		if (apart_begin(question)) {
			if (gpu_open(question))
				try_host(question, kinds[i].type);
			apart_end();
		}
		if (!chosen && strcmp(apart_last_reply(), "yes") == 0) {
			host_kind = kinds[i].type;
			chosen = true;
		}
	}
}

static const char no_driver[] = "no driver", no_device[] = "no device";

bool gpu_was_there(void)
{
	return strcmp(apart_last_reply(), no_driver) != 0 &&
	       strcmp(apart_last_reply(), no_device) != 0;
}

bool gpu_open(const char *question)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		answer(question, no_driver, "%s", dlerror());
		return false;
	}
	find_calls(library);
	attempt_begin();
	ATTEMPT(cuInit(0));
	ATTEMPT(cuDeviceGet(&device, 0));
	ATTEMPT(cuDevicePrimaryCtxRetain(&context, device));
	ATTEMPT(cuCtxSetCurrent(context));
	ATTEMPT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	if (attempt.result == CUDA_SUCCESS)
		return true;
	answer(question, no_device, "%.*s: %s", (int)strcspn(attempt.call, "("), attempt.call,
	       gpu_error_name(attempt.result));
	return false;
}

CUfunction gpu_kernel_of(const char *file, const char *name)
{
	static CUmodule module;
	static const char *loaded;
	CUfunction function = NULL;

	if (!loaded || strcmp(loaded, file) != 0) {
		char *ptx = program_read_beside(file);
		ATTEMPT(cuModuleLoadData(&module, ptx));
		free(ptx);
		loaded = file;
	}
	ATTEMPT(cuModuleGetFunction(&function, module, name));
	return function;
}

CUmemAllocationProp range_properties(char backing)
{
	CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};

	if (backing == 'd')
		properties.location =
		    (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	else
		properties.location = (CUmemLocation){
		    .type = host_kind,
		    .id = host_kind == CU_MEM_LOCATION_TYPE_HOST_NUMA ? gpu_host_node() : 0};
	return properties;
}

CUmemAccessDesc range_access(void)
{
	return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

static CUdeviceptr chunk_address(const struct range *range, unsigned i)
{
	return range->base + i * range->chunk;
}

void range_make(struct range *range, const char *backings, size_t chunk)
{
	CUmemAccessDesc access = range_access();
	unsigned count = strlen(backings);

	*range = (struct range){.reserved = count * chunk, .chunk = chunk};
	ATTEMPT(cuMemAddressReserve(&range->base, range->reserved, 0, 0, 0));
	for (unsigned i = 0; i < count; i++) {
		CUmemAllocationProp properties = range_properties(backings[i]);
		ATTEMPT(cuMemCreate(&range->handles[i], chunk, &properties, 0));
		ATTEMPT(cuMemMap(chunk_address(range, i), chunk, 0, range->handles[i], 0));
		if (attempt_failed(NULL))
			return;
		range->count++;
	}
	ATTEMPT(cuMemSetAccess(range->base, range->reserved, &access, 1));
}

void range_write(struct range *range, const void *bytes)
{
	for (unsigned i = 0; i < range->count; i++)
		ATTEMPT(cuMemcpyHtoD(chunk_address(range, i),
		                     (const char *)bytes + i * range->chunk, range->chunk));
}

void range_read(struct range *range, void *bytes)
{
	for (unsigned i = 0; i < range->count; i++)
		ATTEMPT(cuMemcpyDtoH((char *)bytes + i * range->chunk, chunk_address(range, i),
		                     range->chunk));
}

void range_move(struct range *range, unsigned i, char backing)
{
	CUdeviceptr address = chunk_address(range, i);
	CUmemAccessDesc access = range_access();
	struct range moved;
	char backings[2] = {backing};

	range_make(&moved, backings, range->chunk);
	ATTEMPT(cuMemcpyDtoD(moved.base, address, range->chunk));
	ATTEMPT(cuCtxSynchronize());
	ATTEMPT(cuMemUnmap(address, range->chunk));
	ATTEMPT(cuMemMap(address, range->chunk, 0, moved.handles[0], 0));
	ATTEMPT(cuMemSetAccess(address, range->chunk, &access, 1));
	if (!attempt_failed(NULL)) {
		CUmemGenericAllocationHandle old = range->handles[i];
		range->handles[i] = moved.handles[0];
		moved.handles[0] = old;
	}
	range_free(&moved);
}

void range_free(struct range *range)
{
	for (unsigned i = 0; i < range->count; i++)
		gpu.cuMemUnmap(chunk_address(range, i), range->chunk);
	for (unsigned i = 0; i < MAX_CHUNKS; i++)
		if (range->handles[i])
			gpu.cuMemRelease(range->handles[i]);
	if (range->base)
		gpu.cuMemAddressFree(range->base, range->reserved);
	*range = (struct range){0};
}
