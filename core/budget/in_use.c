/* SPDX-License-Identifier: MIT */
/* Memory in use. Rules: runs inside the user's process; leaves its current context as it was. */
#include "core/budget/in_use.h"

#include "core/budget/device.h"
#include "core/cuda/context.h"

bool (*in_use_by_nvml)(const struct config_device *device, uint64_t *used);
bool (*in_use_by_process)(const struct config_device *device, uint64_t *used);
bool (*in_use_limits_by_nvml)(const struct config_device *device, const char *cgroup,
                              uint64_t *soft, uint64_t *hard);
uint64_t (*in_use_whole_by_nvml)(const struct config_device *device);
void (*in_use_open_nvml)(const struct config_device *device);

static bool ask_in_current(uint64_t *used)
{
	size_t free_bytes, total;

	if (driver.cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS || free_bytes > total)
		return false;
	*used = total - free_bytes;
	return true;
}

bool in_use_by_context(const struct device *device, uint64_t *used)
{
	struct context context;
	bool known;

	if (context_current(&context) && context.device == device)
		return ask_in_current(used);
	for (size_t i = 0; context_at(i, &context); i++) {
		if (context.device != device || context_push(context.handle) != CUDA_SUCCESS)
			continue;
		known = ask_in_current(used);
		context_pop(context.handle);
		return known;
	}
	return false;
}

bool in_use_without_context(const struct device *device, uint64_t *used)
{
	return in_use_by_nvml && in_use_by_nvml(&device->id, used);
}

bool in_use_free(const struct device *device, uint64_t *bytes)
{
	uint64_t used;

	if (!in_use_without_context(device, &used) && !in_use_by_context(device, &used))
		return false;
	*bytes = device->id.memory > used ? device->id.memory - used : 0;
	return true;
}
