/*
 * Device memory in use as NVML tells it: without a CUDA context, which is the one way to learn what the first context
 * of a process takes, and by process. NVML is loaded for it, and stays.
 */
#include <pthread.h>
#include <unistd.h>

#include "core/memory/measured.h"
#include "shim/nvml.h"
#include "shim/shim.h"

static struct {
	nvmlReturn_t (*by_uuid)(const char *uuid, nvmlDevice_t *device);
	nvmlReturn_t (*by_pci)(const char *pci, nvmlDevice_t *device);
	nvmlReturn_t (*memory)(nvmlDevice_t device, nvmlMemory_t *memory);
	nvmlReturn_t (*processes)(nvmlDevice_t device, unsigned int *count,
	                          nvmlProcessInfo_t *processes); /* NULL: an old NVML */
} nvml;
static bool usable;

static void open_it(void)
{
	nvmlReturn_t (*init)(void);
	void *library;

	shim_find_real_dlopen();
	library = shim_real_dlopen(NVML_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
	if (!library)
		return;
	init = (__typeof__(init))dlsym(library, "nvmlInit_v2");
	nvml.by_uuid = (__typeof__(nvml.by_uuid))dlsym(library, "nvmlDeviceGetHandleByUUID");
	nvml.by_pci = (__typeof__(nvml.by_pci))dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
	nvml.memory = (__typeof__(nvml.memory))dlsym(library, "nvmlDeviceGetMemoryInfo");
	nvml.processes =
	    (__typeof__(nvml.processes))dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
	usable = init && nvml.by_uuid && nvml.by_pci && nvml.memory && init() == NVML_SUCCESS;
}

static bool find_device(const struct config_device *device, nvmlDevice_t *handle)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_once(&once, open_it);
	pthread_setcancelstate(cancel, NULL);
	return usable && (nvml.by_uuid(device->uuid, handle) == NVML_SUCCESS ||
	                  nvml.by_pci(device->pci_bus_id, handle) == NVML_SUCCESS);
}

static bool used_without_context(const struct config_device *device, uint64_t *used)
{
	nvmlDevice_t handle;
	nvmlMemory_t memory;

	if (!find_device(device, &handle) || nvml.memory(handle, &memory) != NVML_SUCCESS)
		return false;
	*used = memory.used;
	return true;
}

/* In a container NVML may number processes as the host does: then it is not found, and not known. */
static bool used_by_process(const struct config_device *device, uint64_t *used)
{
	nvmlProcessInfo_t processes[128];
	unsigned int count = sizeof(processes) / sizeof(*processes);
	nvmlDevice_t handle;

	if (!find_device(device, &handle) || !nvml.processes ||
	    nvml.processes(handle, &count, processes) != NVML_SUCCESS)
		return false;
	for (unsigned int i = 0; i < count; i++) {
		if (processes[i].pid != (unsigned int)getpid() || processes[i].memory == ~0ull)
			continue;
		*used = processes[i].memory;
		return true;
	}
	return false;
}

static void tell_used(void)
{
	measured_without_context = used_without_context;
	measured_by_process = used_by_process;
}

void nvml_tells_used(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, tell_used);
}
