/*
 * NVML, as it is known from the "NVML API Reference Guide" (docs.nvidia.com/deploy/nvml-api), so
 * that no header is needed.
 *
 * It is loaded into a namespace of its own: where Spillway is preloaded for everybody it would
 * answer in NVML's place, and tell the limits of whoever looks as the GPUs' memory.
 */
#include "tools/view/gpus.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct nvml_device *device_handle;
struct nvml_memory {
	unsigned long long total, free, used;
};

static struct {
	int (*init)(void);
	int (*count)(unsigned int *count);
	int (*at)(unsigned int index, device_handle *device);
	int (*uuid)(device_handle device, char *uuid, unsigned int size);
	int (*memory)(device_handle device, struct nvml_memory *memory);
} nvml;

/* Finds all of it. Returns whether it can be used. */
static bool load(void)
{
	static const struct {
		const char *name;
		void *into;
	} functions[] = {
	    {"nvmlInit_v2", &nvml.init},
	    {"nvmlDeviceGetCount_v2", &nvml.count},
	    {"nvmlDeviceGetHandleByIndex_v2", &nvml.at},
	    {"nvmlDeviceGetUUID", &nvml.uuid},
	    {"nvmlDeviceGetMemoryInfo", &nvml.memory},
	};
	void *library = dlmopen(LM_ID_NEWLM, "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	for (size_t i = 0; library && i < sizeof functions / sizeof *functions; i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function)
			return false;
		memcpy(functions[i].into, &function, sizeof function);
	}
	return library && nvml.init() == 0;
}

void gpus_read(struct gpus *gpus)
{
	static enum { NOT_TRIED, USABLE, USELESS } state;
	unsigned int count = 0;

	gpus->count = 0;
	if (state == NOT_TRIED)
		state = load() ? USABLE : USELESS;
	if (state == USELESS || nvml.count(&count) != 0)
		return;
	for (unsigned int i = 0; i < count && gpus->count < GPUS_MAX; i++) {
		struct gpu *gpu = &gpus->gpu[gpus->count];
		struct nvml_memory memory;
		device_handle device;

		if (nvml.at(i, &device) != 0 || nvml.memory(device, &memory) != 0 ||
		    nvml.uuid(device, gpu->uuid, sizeof gpu->uuid) != 0)
			continue;
		gpu->memory = memory.total;
		gpu->used = memory.used;
		gpus->count++;
	}
}
