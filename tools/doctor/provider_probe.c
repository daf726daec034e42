/* SPDX-License-Identifier: MIT */
/*
 * Tries each provider of host memory on a device, and sharing memory, by using it as the shim does.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stddef.h>

#include "core/base/cgroup.h"
#include "tools/doctor/provider_probe.h"

enum { UNIT = 2 << 20, CHARGED = 16 * UNIT, ROUNDS = 5 };

/* Calls a function of the driver; one that an old driver lacks is one that it does not support. */
#define CALL(lib, function, ...)                                                                   \
	({                                                                                         \
		__typeof__(&(function)) symbol_ = (__typeof__(symbol_))dlsym(lib, NAME(function)); \
		symbol_ ? symbol_(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED;                         \
	})
/* cuda.h renames functions to their newest form; the symbol's name must be that form's. */
#define NAME(function) #function

struct attempt {
	void *library;
	CUdevice device;
	size_t least; /* bytes to make; they are touched and the cgroup is asked in between, if
	                 charge_at is set */
	uint64_t *charge_at;
};

/* Returns the bytes charged to this process's memory cgroup; 0: not known. */
static uint64_t cgroup_charge(void)
{
	struct cgroup_memory memory;

	cgroup_memory("", &memory);
	return memory.used == UINT64_MAX ? 0 : memory.used;
}

/* Looks at the charge with the memory there. */
static void look_at_charge(const struct attempt *attempt, CUdeviceptr address, size_t size)
{
	if (!attempt->charge_at)
		return;
	(void)CALL(attempt->library, cuMemsetD8, address, 1, size);
	(void)CALL(attempt->library, cuCtxSynchronize);
	*attempt->charge_at = cgroup_charge();
}

static size_t provider_probe_unit_of(const struct attempt *attempt, const CUmemAllocationProp *prop)
{
	size_t unit = 0;

	if (CALL(attempt->library, cuMemGetAllocationGranularity, &unit, prop,
	         CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
	    unit < UNIT)
		unit = UNIT;
	return (attempt->least + unit - 1) / unit * unit;
}

/* Tries to map the physical memory, once it is made: the device must reach it, too. */
static CUresult try_mapping(const struct attempt *attempt, CUmemGenericAllocationHandle handle,
                            size_t size)
{
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address = 0;
	CUresult result;

	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = attempt->device;
	result = CALL(attempt->library, cuMemAddressReserve, &address, size, 0, 0, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = CALL(attempt->library, cuMemMap, address, size, 0, handle, 0);
	if (result == CUDA_SUCCESS) {
		result = CALL(attempt->library, cuMemSetAccess, address, size, &access, 1);
		if (result == CUDA_SUCCESS)
			look_at_charge(attempt, address, size);
		(void)CALL(attempt->library, cuMemUnmap, address, size);
	}
	(void)CALL(attempt->library, cuMemAddressFree, address, size);
	return result;
}

static CUresult try_vmm(const struct attempt *attempt, CUmemLocationType where)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
	CUmemGenericAllocationHandle handle = 0;
	CUresult result;
	size_t size;
	int node = 0;

	if (where == CU_MEM_LOCATION_TYPE_HOST_NUMA &&
	    CALL(attempt->library, cuDeviceGetAttribute, &node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID,
	         attempt->device) == CUDA_SUCCESS &&
	    node > 0)
		prop.location.id = node;
	prop.location.type = where;
	size = provider_probe_unit_of(attempt, &prop);
	result = CALL(attempt->library, cuMemCreate, &handle, size, &prop, 0);
	if (result != CUDA_SUCCESS)
		return result;
	result = try_mapping(attempt, handle, size);
	(void)CALL(attempt->library, cuMemRelease, handle);
	return result;
}

static CUresult try_managed(const struct attempt *attempt)
{
	CUdeviceptr address = 0;
	CUresult result = CALL(attempt->library, cuMemAllocManaged, &address, attempt->least,
	                       CU_MEM_ATTACH_GLOBAL);

	if (result == CUDA_SUCCESS)
		(void)CALL(attempt->library, cuMemFree, address);
	return result;
}

static CUresult try_pinned(const struct attempt *attempt)
{
	CUdeviceptr address = 0;
	void *host = NULL;
	CUresult result = CALL(attempt->library, cuMemHostAlloc, &host, attempt->least,
	                       CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);

	if (result != CUDA_SUCCESS)
		return result;
	result = CALL(attempt->library, cuMemHostGetDevicePointer, &address, host, 0);
	if (result == CUDA_SUCCESS)
		look_at_charge(attempt, address, attempt->least);
	(void)CALL(attempt->library, cuMemFreeHost, host);
	return result;
}

static CUresult try_provider(const struct attempt *attempt, unsigned int code)
{
	switch (code) {
	case PROVIDER_NUMA:
		return try_vmm(attempt, CU_MEM_LOCATION_TYPE_HOST_NUMA);
	case PROVIDER_HOST:
		return try_vmm(attempt, CU_MEM_LOCATION_TYPE_HOST);
	case PROVIDER_MANAGED:
		return try_managed(attempt);
	default:
		return try_pinned(attempt);
	}
}

/*
 * Returns whether a provider's memory is charged, by the middle one of some rounds: other processes
 * in the cgroup take and give memory, too.
 */
static enum driver_charge charge_of(const struct attempt *as, unsigned int code)
{
	uint64_t before, with;
	const struct attempt attempt = {
	    .library = as->library, .device = as->device, .least = CHARGED, .charge_at = &with};
	int charged = 0;

	if (code == PROVIDER_MANAGED || code > PROVIDER_PINNED)
		return CHARGE_UNKNOWN; /* it may be on the device */
	for (int i = 0; i < ROUNDS; i++) {
		with = 0;
		before = cgroup_charge();
		if (!before || try_provider(&attempt, code) != CUDA_SUCCESS || !with)
			return CHARGE_UNKNOWN;
		charged += with > before && with - before >= CHARGED / 2;
	}
	return charged > ROUNDS / 2 ? CHARGE_YES : CHARGE_NO;
}

static CUresult try_ipc(const struct attempt *attempt)
{
	CUipcMemHandle handle;
	CUdeviceptr address = 0;
	CUresult result = CALL(attempt->library, cuMemAlloc, &address, UNIT);

	if (result != CUDA_SUCCESS)
		return result;
	result = CALL(attempt->library, cuIpcGetMemHandle, &handle, address);
	(void)CALL(attempt->library, cuMemFree, address);
	return result;
}

void probe_providers(void *library, CUdevice handle, struct driver_report *report, int index)
{
	struct driver_features *features = &report->features[index];
	const struct attempt attempt = {.library = library, .device = handle, .least = UNIT};
	unsigned int first = PROVIDER_PINNED + 1;
	static const char *const names[] = {
	    [PROVIDER_NUMA] = "provider vmm_numa",
	    [PROVIDER_HOST] = "provider vmm_host",
	    [PROVIDER_MANAGED] = "provider managed",
	    [PROVIDER_PINNED] = "provider pinned",
	};
	CUcontext context;
	CUresult result;

	probe_about_to(report, "making a context");
	result = CALL(library, cuDevicePrimaryCtxRetain, &context, handle);
	if (result == CUDA_SUCCESS)
		result = CALL(library, cuCtxSetCurrent, context);
	features->context_error = result;
	if (result != CUDA_SUCCESS)
		return;
	for (unsigned int code = PROVIDER_NUMA; code <= PROVIDER_PINNED; code++) {
		probe_about_to(report, names[code]);
		features->provider_error[code] = try_provider(&attempt, code);
		if (!features->provider_error[code] && code < first)
			first = code;
	}
	probe_about_to(report, "IPC");
	features->ipc_error = try_ipc(&attempt);
	probe_about_to(report, "memory on the host");
	features->charge = charge_of(&attempt, first);
	probe_about_to(report, "giving the context back");
	(void)CALL(library, cuDevicePrimaryCtxRelease, handle);
	features->providers_tried = true;
}
