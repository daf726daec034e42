/* SPDX-License-Identifier: MIT */
/*
 * NVML, as the "NVML API Reference Guide" describes it (docs.nvidia.com/deploy/nvml-api), so that
 * no header is needed.
 *
 * It is loaded into a namespace of its own: where Spillway is preloaded for all users it would
 * answer in NVML's place, and report the calling process's limits as the GPUs' memory.
 */
#include "tools/view/gpus.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tools/view/tool.h"

typedef struct nvml_device *device_handle;
struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_process {
	unsigned int pid;
	unsigned long long memory; /* all ones: not known */
	unsigned int instance[2];
};

/* For nvmlDeviceGetMemoryLimits_v1. */
struct nvml_limits {
	const char *cgroup;
	unsigned long long soft, hard, used;
};
typedef int (*processes_of)(device_handle device, unsigned int *count, struct nvml_process *list);
enum { NVML_TOO_SMALL = 7 };

static struct {
	int (*init)(void);
	int (*count)(unsigned int *count);
	int (*at)(unsigned int index, device_handle *device);
	int (*uuid)(device_handle device, char *uuid, unsigned int size);
	int (*memory)(device_handle device, struct nvml_memory *memory);
	int (*limits)(device_handle device, struct nvml_limits *limits); /* NULL: before 615 */
	processes_of compute, graphics; /* NULL where an older NVML has them not in this form */
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
	if (!library || nvml.init() != 0)
		return false;
	nvml.limits = (__typeof__(nvml.limits))dlsym(library, "nvmlDeviceGetMemoryLimits_v1");
	nvml.compute = (processes_of)dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
	nvml.graphics = (processes_of)dlsym(library, "nvmlDeviceGetGraphicsRunningProcesses_v3");
	return true;
}

/* Loads it once. Returns whether it can be used. */
static bool is_usable(void)
{
	static enum { NOT_TRIED, USABLE, USELESS } state;

	if (state == NOT_TRIED)
		state = load() ? USABLE : USELESS;
	return state == USABLE;
}

/* Reads a list of processes. Returns their number, -1 where it is not known; the caller frees it.
 */
static int view_gpus_read_processes(processes_of list_of, device_handle device,
                                    struct nvml_process **list)
{
	unsigned int room = 64, count;
	int result;

	*list = NULL;
	if (!list_of)
		return -1;
	do {
		free(*list);
		*list = allocate(room * sizeof **list);
		count = room;
		result = list_of(device, &count, *list);
		room = count + 64;
	} while (result == NVML_TOO_SMALL && room < 1 << 20);
	return result == 0 ? (int)count : -1;
}

bool gpus_each_process(void (*each)(void *cookie, const char *uuid, pid_t process, uint64_t bytes),
                       void *cookie)
{
	unsigned int count = 0;
	bool is_known = false;

	if (!is_usable() || nvml.count(&count) != 0)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		const processes_of lists[] = {nvml.compute, nvml.graphics};
		device_handle device;
		char uuid[96];

		if (nvml.at(i, &device) != 0 || nvml.uuid(device, uuid, sizeof uuid) != 0)
			continue;
		for (size_t l = 0; l < sizeof lists / sizeof *lists; l++) {
			struct nvml_process *list;
			int processes = view_gpus_read_processes(lists[l], device, &list);

			is_known |= l == 0 && processes >= 0;
			for (int p = 0; p < processes; p++)
				each(cookie, uuid, (pid_t)list[p].pid, list[p].memory);
			free(list);
		}
	}
	return is_known;
}

void gpus_each_limit(const char *cgroup,
                     void (*each)(const char *uuid, uint64_t soft, uint64_t hard))
{
	unsigned int count = 0;

	if (!is_usable() || !nvml.limits || nvml.count(&count) != 0)
		return;
	for (unsigned int i = 0; i < count; i++) {
		struct nvml_limits limits = {.cgroup = cgroup};
		device_handle device;
		char uuid[96];

		if (nvml.at(i, &device) == 0 && nvml.uuid(device, uuid, sizeof uuid) == 0 &&
		    nvml.limits(device, &limits) == 0 && (limits.soft || limits.hard != UINT64_MAX))
			each(uuid, limits.soft, limits.hard);
	}
}

void gpus_read(struct gpus *gpus)
{
	unsigned int count = 0;

	gpus->count = 0;
	if (!is_usable() || nvml.count(&count) != 0)
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
