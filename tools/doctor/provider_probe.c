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

struct trial {
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
static void look_at_charge(const struct trial *trial, CUdeviceptr address, size_t size)
{
	if (!trial->charge_at)
		return;
	(void)CALL(trial->library, cuMemsetD8, address, 1, size);
	(void)CALL(trial->library, cuCtxSynchronize);
	*trial->charge_at = cgroup_charge();
}

static size_t unit_of(const struct trial *trial, const CUmemAllocationProp *prop)
{
	size_t unit = 0;

	if (CALL(trial->library, cuMemGetAllocationGranularity, &unit, prop,
	         CU_MEM_ALLOC_GRANULARITY_MINIMUM) != CUDA_SUCCESS ||
	    unit < UNIT)
		unit = UNIT;
	return (trial->least + unit - 1) / unit * unit;
}

/* Tries to map the physical memory, once it is made: the device must reach it, too. */
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
		if (result == CUDA_SUCCESS)
			look_at_charge(trial, address, size);
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
	    CALL(trial->library, cuMemAllocManaged, &address, trial->least, CU_MEM_ATTACH_GLOBAL);

	if (result == CUDA_SUCCESS)
		(void)CALL(trial->library, cuMemFree, address);
	return result;
}

static CUresult try_pinned(const struct trial *trial)
{
	CUdeviceptr address = 0;
	void *host = NULL;
	CUresult result = CALL(trial->library, cuMemHostAlloc, &host, trial->least,
	                       CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);

	if (result != CUDA_SUCCESS)
		return result;
	result = CALL(trial->library, cuMemHostGetDevicePointer, &address, host, 0);
	if (result == CUDA_SUCCESS)
		look_at_charge(trial, address, trial->least);
	(void)CALL(trial->library, cuMemFreeHost, host);
	return result;
}

static CUresult try_provider(const struct trial *trial, unsigned int code)
{
	switch (code) {
	case PROVIDER_NUMA:
		return try_vmm(trial, CU_MEM_LOCATION_TYPE_HOST_NUMA);
	case PROVIDER_HOST:
		return try_vmm(trial, CU_MEM_LOCATION_TYPE_HOST);
	case PROVIDER_MANAGED:
		return try_managed(trial);
	default:
		return try_pinned(trial);
	}
}

/*
 * Returns whether what a provider makes is charged, by the middle one of some rounds: whatever else
 * is in the cgroup takes and gives memory, too.
 */
static enum driver_charge charge_of(const struct trial *as, unsigned int code)
{
	uint64_t before, with;
	const struct trial trial = {
	    .library = as->library, .device = as->device, .least = CHARGED, .charge_at = &with};
	int charged = 0;

	if (code == PROVIDER_MANAGED || code > PROVIDER_PINNED)
		return CHARGE_UNKNOWN; /* it may be on the device */
	for (int i = 0; i < ROUNDS; i++) {
		with = 0;
		before = cgroup_charge();
		if (!before || try_provider(&trial, code) != CUDA_SUCCESS || !with)
			return CHARGE_UNKNOWN;
		charged += with > before && with - before >= CHARGED / 2;
	}
	return charged > ROUNDS / 2 ? CHARGE_YES : CHARGE_NO;
}

static CUresult try_ipc(const struct trial *trial)
{
	CUipcMemHandle handle;
	CUdeviceptr address = 0;
	CUresult result = CALL(trial->library, cuMemAlloc, &address, UNIT);

	if (result != CUDA_SUCCESS)
		return result;
	result = CALL(trial->library, cuIpcGetMemHandle, &handle, address);
	(void)CALL(trial->library, cuMemFree, address);
	return result;
}

void probe_providers(void *library, CUdevice handle, struct driver_report *report, int index)
{
	struct driver_features *features = &report->features[index];
	const struct trial trial = {.library = library, .device = handle, .least = UNIT};
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
		features->provider_error[code] = try_provider(&trial, code);
		if (!features->provider_error[code] && code < first)
			first = code;
	}
	probe_about_to(report, "IPC");
	features->ipc_error = try_ipc(&trial);
	probe_about_to(report, "memory on the host");
	features->charge = charge_of(&trial, first);
	probe_about_to(report, "giving the context back");
	(void)CALL(library, cuDevicePrimaryCtxRelease, handle);
	features->providers_tried = true;
}
