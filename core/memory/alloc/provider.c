/* SPDX-License-Identifier: MIT */
/* Providers of host memory, and choosing one. Rules: runs inside the user's process. */
#include "core/base/log.h"
#include "core/memory/alloc/allocation.h"

/* Provider managed: managed memory that prefers the host and stays mapped for the device. */

static CUresult managed_allocate(struct device *device, size_t size, struct backing *backing)
{
	CUdeviceptr address;
	CUresult result = driver.cuMemAllocManaged(&address, size, CU_MEM_ATTACH_GLOBAL);

	if (result != CUDA_SUCCESS)
		return result;
	/* Both are hints: where they are refused the memory still works, it only may migrate. */
	driver.cuMemAdvise(address, size, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU);
	driver.cuMemAdvise(address, size, CU_MEM_ADVISE_SET_ACCESSED_BY, device->handle);
	backing->address = address;
	backing->size = size;
	return CUDA_SUCCESS;
}

static CUresult managed_release(const struct allocation *a)
{
	return driver.cuMemFree_v2(a->backing.address);
}

static const struct provider provider_managed = {
    .factory = {"managed", 200},
    .kind = SPILL_MANAGED,
    .allocate = managed_allocate,
    .release = managed_release,
};

/* Provider pinned: page-locked host memory mapped into the device's address space. */

static CUresult pinned_allocate(struct device *device, size_t size, struct backing *backing)
{
	void *host;
	CUdeviceptr address;
	CUresult result;

	(void)device;
	result = driver.cuMemHostAlloc(&host, size,
	                               CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE);
	if (result != CUDA_SUCCESS)
		return result;
	result = driver.cuMemHostGetDevicePointer_v2(&address, host, 0);
	if (result != CUDA_SUCCESS) {
		driver.cuMemFreeHost(host);
		return result;
	}
	backing->address = address;
	backing->size = size;
	backing->host = host;
	return CUDA_SUCCESS;
}

static CUresult pinned_release(const struct allocation *a)
{
	return driver.cuMemFreeHost(a->backing.host);
}

static const struct provider provider_pinned = {
    .factory = {"pinned", 100},
    .kind = SPILL_PINNED,
    .allocate = pinned_allocate,
    .release = pinned_release,
};

static const struct factory *const providers[] = {&provider_managed.factory,
                                                  &provider_pinned.factory};
enum { PROVIDER_COUNT = sizeof(providers) / sizeof(*providers) };

/* Providers known not to work on a device: a bit each, by enum config_spill. */
static _Atomic unsigned int refused[DEVICE_MAX];

static bool provider_is_wanted(const struct provider *provider, enum config_spill wanted)
{
	return wanted == SPILL_AUTO || wanted == provider->kind;
}

/* Returns the provider that follows another one in order of priority. */
static const struct provider *next(const struct provider *before)
{
	return (const struct provider *)factory_next(providers, PROVIDER_COUNT,
	                                             before ? &before->factory : NULL);
}

/* Says that it will never work here, rather than not now. */
static bool is_final(CUresult result)
{
	return result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED ||
	       result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_DEVICE;
}

/* Notes which provider serves the device, for `stat`. */
static void note_served(struct device *device, const struct provider *provider)
{
	statistics_set(&device->statistics->provider,
	               provider->kind == SPILL_MANAGED ? PROVIDER_MANAGED : PROVIDER_PINNED);
}

static void provider_note_refused(struct device *device, const struct provider *provider,
                                  CUresult result)
{
	if (provider->kind == SPILL_MANAGED)
		statistics_set(&device->statistics->managed_error, (uint64_t)result);
	else if (provider->kind == SPILL_PINNED)
		statistics_set(&device->statistics->pinned_error, (uint64_t)result);
}

CUresult provider_allocate(struct device *device, enum config_spill wanted, size_t size,
                           struct backing *backing)
{
	_Atomic unsigned int *bad = &refused[device->id.ordinal];
	CUresult result = CUDA_ERROR_NOT_SUPPORTED;

	for (const struct provider *p = next(NULL); p; p = next(p)) {
		unsigned int bit = 1u << p->kind;

		if (!provider_is_wanted(p, wanted) || (*bad & bit))
			continue;
		result = p->allocate(device, size, backing);
		if (result == CUDA_SUCCESS) {
			backing->provider = p;
			note_served(device, p);
			return result;
		}
		if (!is_final(result))
			continue;
		provider_note_refused(device, p, result);
		if (!(atomic_fetch_or(bad, bit) & bit))
			log_info("gpu %d: provider %s does not work here (error %d)",
			         device->id.ordinal, p->factory.name, (int)result);
	}
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		log_once(LOG_WARNING,
		         "gpu %d: no provider of host memory works here; nothing can be spilled",
		         device->id.ordinal);
	return result;
}
