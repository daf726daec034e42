/* Whether each provider of host memory works on a device, found out by using it as the shim does. */
#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>

#include "tools/driver_probe.h"

enum { UNIT = 2 << 20 };

/* A function that an old driver lacks is one that it does not support. */
#define CALL(lib, function, ...)                                                                   \
	({                                                                                         \
		__typeof__(&(function)) symbol_ = (__typeof__(symbol_))dlsym(lib, NAME(function)); \
		symbol_ ? symbol_(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED;                         \
	})
/* cuda.h renames functions to their newest form; the symbol's name must be that form's. */
#define NAME(function) #function

struct trial {
	void *library;
	CUdevice device;
};

static size_t unit_of(const struct trial *trial, const CUmemAllocationProp *prop)
{
	size_t unit = 0;

	if (CALL(trial->library, cuMemGetAllocationGranularity, &unit, prop,
	         CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
	    unit < UNIT)
		unit = UNIT;
	return unit;
}

/* With the physical memory made: the device must reach it, too. */
static CUresult try_mapping(const struct trial *trial, CUmemGenericAllocationHandle handle,
                            size_t size)
{
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address = 0;
	CUresult result;

	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = trial->device;
	result = CALL(trial->library, cuMemAddressReserve, &address, size, 0, 0, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = CALL(trial->library, cuMemMap, address, size, 0, handle, 0);
	if (result == CUDA_SUCCESS) {
		result = CALL(trial->library, cuMemSetAccess, address, size, &access, 1);
		(void)CALL(trial->library, cuMemUnmap, address, size);
	}
	(void)CALL(trial->library, cuMemAddressFree, address, size);
	return result;
}

static CUresult try_vmm(const struct trial *trial, CUmemLocationType where)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemGenericAllocationHandle handle = 0;
	CUresult result;
	size_t size;
	int node = 0;

	if (where == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
	    CALL(trial->library, cuDeviceGetAttribute, &node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
	         trial->device) == CUDA_SUCCESS &&
	    node > 0)
		prop.location.id = node;
	prop.location.type = where;
	size = unit_of(trial, &prop);
	result = CALL(trial->library, cuMemCreate, &handle, size, &prop, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = try_mapping(trial, handle, size);
	(void)CALL(trial->library, cuMemRelease, handle);
	return result;
}

static CUresult try_managed(const struct trial *trial)
{
	CUdeviceptr address = 0;
	CUresult result =
	    CALL(trial->library, cuMemAllocManaged, &address, UNIT, CU_MEM_ATTACH_GLOBAL);

	if (result == CUDA_SUCCESS)
		(void)CALL(trial->library, cuMemFree, address);
	return result;
}

static CUresult try_pinned(const struct trial *trial)
{
	CUdeviceptr address;
	void *host = NULL;
	CUresult result = CALL(trial->library, cuMemHostAlloc, &host, UNIT,
	                       CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);

	if (result != CUDA_SUCCESS)
		return result;
	result = CALL(trial->library, cuMemHostGetDevicePointer, &address, host, 0);
	(void)CALL(trial->library, cuMemFreeHost, host);
	return result;
}

void probe_providers(void *library, CUdevice handle, struct driver_features *features)
{
	struct trial trial = {library, handle};
	CUcontext context;
	CUresult result;

	probe_about_to("making a context");
	result = CALL(library, cuDevicePrimaryCtxRetain, &context, handle);
	if (result == CUDA_SUCCESS)
		result = CALL(library, cuCtxSetCurrent, context);
	features->context_error = result;
	if (result != CUDA_SUCCESS)
		return;
	probe_about_to("provider vmm_numa");
	features->provider_error[PROVIDER_NUMA] = try_vmm(&trial, CU_MEM_LOCATION_TYPE_HOST_NUMA);
	probe_about_to("provider vmm_host");
	features->provider_error[PROVIDER_HOST] = try_vmm(&trial, CU_MEM_LOCATION_TYPE_HOST);
	probe_about_to("provider managed");
	features->provider_error[PROVIDER_MANAGED] = try_managed(&trial);
	probe_about_to("provider pinned");
	features->provider_error[PROVIDER_PINNED] = try_pinned(&trial);
	probe_about_to("giving the context back");
	(void)CALL(library, cuDevicePrimaryCtxRelease, handle);
	features->providers_tried = true;
}
