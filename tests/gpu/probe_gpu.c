/* The probe's ground: the driver's functions, attempts, and ranges of chunks. See probe.h. */
#include "tests/gpu/probe.h"

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

static CUmodule module;
static CUmemLocation host_location;

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
	PROBE_CALLS(CALL)
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

/* HOST_NUMA memory if it can be made, else HOST memory, which then may fail too. */
static void choose_host_location(void)
{
	CUmemGenericAllocationHandle handle;

	host_location = (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
	CUmemAllocationProp properties = range_properties('h');
	if (gpu.cuMemCreate(&handle, small_chunk, &properties, 0) == CUDA_SUCCESS)
		gpu.cuMemRelease(handle);
	else
		host_location.type = CU_MEM_LOCATION_TYPE_HOST;
}

bool gpu_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library) {
		answer("device", "none", "%s", dlerror());
		return false;
	}
	find_calls(library);
	char *ptx = program_read_beside("probe_kernels.ptx");
	attempt_begin();
	ATTEMPT(cuInit(0));
	ATTEMPT(cuDeviceGet(&device, 0));
	ATTEMPT(cuDevicePrimaryCtxRetain(&context, device));
	ATTEMPT(cuCtxSetCurrent(context));
	ATTEMPT(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ATTEMPT(cuModuleLoadData(&module, ptx));
	free(ptx);
	if (attempt_failed("device"))
		return false;
	choose_host_location();
	return true;
}

CUfunction gpu_kernel(const char *name)
{
	CUfunction function = NULL;

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
		properties.location = host_location;
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
