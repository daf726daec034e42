/* Choosing a provider. Rules: runs inside the user's process. */
#include "core/memory/provider.h"

#include "core/base/log.h"

/* In the order in which they are preferred. */
static const struct provider *const providers[] = {&provider_vmm, &provider_managed,
                                                   &provider_pinned};
enum { PROVIDER_COUNT = sizeof(providers) / sizeof(*providers) };

/* Providers known not to work on a device: a bit each. */
static _Atomic unsigned int refused[DEVICE_MAX];

static bool is_wanted(const struct provider *provider, enum config_spill wanted)
{
	return wanted == SPILL_AUTO || wanted == provider->kind;
}

size_t provider_rounded(struct device *device, enum config_spill wanted, size_t size)
{
	size_t most = size;

	for (int i = 0; i < PROVIDER_COUNT; i++) {
		size_t rounded = providers[i]->rounded(device, size);

		if (is_wanted(providers[i], wanted) && rounded > most)
			most = rounded;
	}
	return most;
}

/* Says that it will never work here, rather than not now. */
static bool is_final(CUresult result)
{
	return result == CUDA_ERROR_NOT_SUPPORTED || result == CUDA_ERROR_NOT_PERMITTED ||
	       result == CUDA_ERROR_INVALID_VALUE || result == CUDA_ERROR_INVALID_DEVICE;
}

/* For those who ask why another one serves the device. provider_vmm_create() tells of its own two. */
static void note_served(struct device *device, const struct provider *provider)
{
	if (provider->kind != SPILL_VMM)
		statistics_set(&device->statistics->provider, provider->kind == SPILL_MANAGED
		                                                  ? PROVIDER_MANAGED
		                                                  : PROVIDER_PINNED);
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

	for (int i = 0; i < PROVIDER_COUNT; i++) {
		if (!is_wanted(providers[i], wanted) || (*bad & (1u << i)))
			continue;
		result = providers[i]->allocate(device, size, backing);
		if (result == CUDA_SUCCESS) {
			backing->provider = providers[i];
			note_served(device, providers[i]);
			return result;
		}
		if (!is_final(result))
			continue;
		note_refused(device, providers[i], result);
		if (!(atomic_fetch_or(bad, 1u << i) & (1u << i)))
			log_info("gpu %d: provider %s does not work here (error %d)",
			         device->id.ordinal, providers[i]->name, (int)result);
	}
	if (result == CUDA_ERROR_NOT_SUPPORTED)
		log_once(LOG_WARNING,
		         "gpu %d: no provider of host memory works here; nothing can be spilled",
		         device->id.ordinal);
	return result;
}
