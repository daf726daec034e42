/* SPDX-License-Identifier: MIT */
/* Choosing a provider. Rules: runs inside the user's process. */
#include "core/memory/alloc/provider.h"

#include "core/base/log.h"

static const struct factory *const providers[] = {&provider_managed.factory,
                                                  &provider_pinned.factory};
enum { PROVIDER_COUNT = sizeof(providers) / sizeof(*providers) };

/* Providers known not to work on a device: a bit each, by enum config_spill. */
static _Atomic unsigned int refused[DEVICE_MAX];

static bool is_wanted(const struct provider *provider, enum config_spill wanted)
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

/* Notes which provider serves the device, for those who ask why it is not another. */
static void note_served(struct device *device, const struct provider *provider)
{
	statistics_set(&device->statistics->provider,
	               provider->kind == SPILL_MANAGED ? PROVIDER_MANAGED : PROVIDER_PINNED);
}

static void note_refused(struct device *device, const struct provider *provider, CUresult result)
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

		if (!is_wanted(p, wanted) || (*bad & bit))
			continue;
		result = p->allocate(device, size, backing);
		if (result == CUDA_SUCCESS) {
			backing->provider = p;
			note_served(device, p);
			return result;
		}
		if (!is_final(result))
			continue;
		note_refused(device, p, result);
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
