/* SPDX-License-Identifier: MIT */
/*
 * libnvidia-ml.so.1, a stand-in: reports about the software GPU's machine as NVML does about a real
 * one. It reads the books that the driver writes and keeps nothing but a count of initialisations,
 * so any thread may call anything at any time. As with NVML, CUDA_VISIBLE_DEVICES means nothing
 * here.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "tests/softgpu/config.h"
#include "tests/softgpu/identity.h"
#include "tests/softgpu/machine.h"
#include "tests/softgpu/nvml/abi.h"

#define EXPORT __attribute__((visibility("default")))
/* Exports a function and declares it first, as no header does. */
#define CALL(name, params)               \
	EXPORT nvmlReturn_t name params; \
	EXPORT nvmlReturn_t name params

#define NO_INSTANCE    0xffffffffU /* of a MIG device */
#define MOST_PROCESSES 256

static int initialisations;

static nvmlReturn_t enter(void)
{
	return __atomic_load_n(&initialisations, __ATOMIC_ACQUIRE) > 0 ? NVML_SUCCESS
	                                                               : NVML_ERROR_UNINITIALIZED;
}

/* A device is its number in the machine plus one. */
static nvmlDevice_t handle_of(int device)
{
	return (nvmlDevice_t)(uintptr_t)(device + 1);
}

static nvmlReturn_t enter_device(nvmlDevice_t handle, const void *output, int *device)
{
	nvmlReturn_t result = enter();
	if (result != NVML_SUCCESS)
		return result;
	uintptr_t number = (uintptr_t)handle;
	if (!output || number == 0 || number > (uintptr_t)machine_device_count())
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = (int)number - 1;
	return NVML_SUCCESS;
}

/* Writes a text as NVML does: whole or not at all. */
static nvmlReturn_t put_text(char *out, unsigned int length, const char *text)
{
	if (strlen(text) >= length)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return NVML_SUCCESS;
}

CALL(nvmlInitWithFlags, (unsigned int flags))
{
	if (flags & ~3U) /* "no GPUs" is fine, "no attach" too */
		return NVML_ERROR_INVALID_ARGUMENT;
	__atomic_add_fetch(&initialisations, 1, __ATOMIC_ACQ_REL);
	return NVML_SUCCESS;
}

CALL(nvmlInit_v2, (void))
{
	return nvmlInitWithFlags(0);
}

CALL(nvmlInit, (void))
{
	return nvmlInitWithFlags(0);
}

CALL(nvmlShutdown, (void))
{
	int count = __atomic_load_n(&initialisations, __ATOMIC_ACQUIRE);
	do {
		if (count == 0)
			return NVML_ERROR_UNINITIALIZED;
	} while (!__atomic_compare_exchange_n(&initialisations, &count, count - 1, true,
	                                      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	return NVML_SUCCESS;
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result);
EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
		return "Argument version mismatch";
	case NVML_ERROR_UNKNOWN:
		break;
	}
	return "Unknown Error";
}

CALL(nvmlSystemGetDriverVersion, (char *version, unsigned int length))
{
	nvmlReturn_t result = enter();
	if (result != NVML_SUCCESS)
		return result;
	char text[32];
	int cuda = config()->driver_version;
	snprintf(text, sizeof(text), "%d.%d.softgpu", cuda / 1000, cuda % 1000 / 10);
	return version ? put_text(version, length, text) : NVML_ERROR_INVALID_ARGUMENT;
}

CALL(nvmlSystemGetNVMLVersion, (char *version, unsigned int length))
{
	return nvmlSystemGetDriverVersion(version, length);
}

CALL(nvmlSystemGetCudaDriverVersion, (int *version))
{
	nvmlReturn_t result = enter();
	if (result != NVML_SUCCESS)
		return result;
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = config()->driver_version;
	return NVML_SUCCESS;
}

CALL(nvmlSystemGetCudaDriverVersion_v2, (int *version))
{
	return nvmlSystemGetCudaDriverVersion(version);
}

CALL(nvmlSystemGetProcessName, (unsigned int pid, char *name, unsigned int length))
{
	nvmlReturn_t result = enter();
	if (result != NVML_SUCCESS)
		return result;
	char path[32], text[4096] = "";
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	FILE *file = name ? fopen(path, "re") : NULL;
	if (!file)
		return name ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
	/* Up to the first NUL: the program, without its arguments. */
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return put_text(name, length, text);
}

CALL(nvmlDeviceGetCount_v2, (unsigned int *count))
{
	nvmlReturn_t result = enter();
	if (result != NVML_SUCCESS)
		return result;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = (unsigned int)machine_device_count();
	return NVML_SUCCESS;
}

CALL(nvmlDeviceGetCount, (unsigned int *count))
{
	return nvmlDeviceGetCount_v2(count);
}

CALL(nvmlDeviceGetHandleByIndex_v2, (unsigned int index, nvmlDevice_t *handle))
{
	nvmlReturn_t result = enter();
	if (result != NVML_SUCCESS)
		return result;
	if (!handle || index >= (unsigned int)machine_device_count())
		return NVML_ERROR_INVALID_ARGUMENT;
	*handle = handle_of((int)index);
	return NVML_SUCCESS;
}

CALL(nvmlDeviceGetHandleByIndex, (unsigned int index, nvmlDevice_t *handle))
{
	return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

CALL(nvmlDeviceGetHandleByUUID, (const char *uuid, nvmlDevice_t *handle))
{
	nvmlReturn_t result = enter();
	if (result != NVML_SUCCESS)
		return result;
	if (!uuid || !handle)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0, count = machine_device_count(); i < count; i++) {
		char text[DEVICE_UUID_TEXT];
		device_uuid_text(text, i);
		if (strcasecmp(text, uuid) == 0) {
			*handle = handle_of(i);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

CALL(nvmlDeviceGetHandleByPciBusId_v2, (const char *bus_id, nvmlDevice_t *handle))
{
	nvmlReturn_t result = enter();
	if (result != NVML_SUCCESS)
		return result;
	unsigned int domain, bus, slot;
	if (!bus_id || !handle || sscanf(bus_id, "%x:%x:%x", &domain, &bus, &slot) != 3)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0, count = machine_device_count(); i < count; i++) {
		if (domain == 0 && bus == device_pci_bus(i) && slot == 0) {
			*handle = handle_of(i);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

CALL(nvmlDeviceGetHandleByPciBusId, (const char *bus_id, nvmlDevice_t *handle))
{
	return nvmlDeviceGetHandleByPciBusId_v2(bus_id, handle);
}

CALL(nvmlDeviceGetName, (nvmlDevice_t handle, char *name, unsigned int length))
{
	int device;
	nvmlReturn_t result = enter_device(handle, name, &device);
	return result == NVML_SUCCESS ? put_text(name, length, DEVICE_NAME) : result;
}

CALL(nvmlDeviceGetUUID, (nvmlDevice_t handle, char *uuid, unsigned int length))
{
	int device;
	nvmlReturn_t result = enter_device(handle, uuid, &device);
	if (result != NVML_SUCCESS)
		return result;
	char text[DEVICE_UUID_TEXT];
	device_uuid_text(text, device);
	return put_text(uuid, length, text);
}

CALL(nvmlDeviceGetIndex, (nvmlDevice_t handle, unsigned int *index))
{
	int device;
	nvmlReturn_t result = enter_device(handle, index, &device);
	if (result == NVML_SUCCESS)
		*index = (unsigned int)device;
	return result;
}

CALL(nvmlDeviceGetMinorNumber, (nvmlDevice_t handle, unsigned int *minor))
{
	return nvmlDeviceGetIndex(handle, minor);
}

CALL(nvmlDeviceGetCudaComputeCapability, (nvmlDevice_t handle, int *major, int *minor))
{
	int device;
	nvmlReturn_t result = enter_device(handle, major && minor ? major : NULL, &device);
	if (result != NVML_SUCCESS)
		return result;
	*major = CAPABILITY_MAJOR;
	*minor = CAPABILITY_MINOR;
	return NVML_SUCCESS;
}

CALL(nvmlDeviceGetMigMode, (nvmlDevice_t handle, unsigned int *current, unsigned int *pending))
{
	int device;
	nvmlReturn_t result = enter_device(handle, current && pending ? current : NULL, &device);
	return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

CALL(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t handle, nvmlPciInfo_t *pci))
{
	int device;
	nvmlReturn_t result = enter_device(handle, pci, &device);
	if (result != NVML_SUCCESS)
		return result;
	*pci = (nvmlPciInfo_t){.bus = device_pci_bus(device)};
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:00.0", 0U, pci->bus);
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:00.0", 0U, pci->bus);
	return NVML_SUCCESS;
}

/* The older forms: their structures end earlier, and hold the legacy bus id alone. */
static nvmlReturn_t pci_info(nvmlDevice_t handle, void *older, size_t size)
{
	nvmlPciInfo_t pci;
	nvmlReturn_t result = nvmlDeviceGetPciInfo_v3(handle, older ? &pci : NULL);
	if (result == NVML_SUCCESS)
		memcpy(older, &pci, size);
	return result;
}

CALL(nvmlDeviceGetPciInfo, (nvmlDevice_t handle, void *pci))
{
	return pci_info(handle, pci, offsetof(nvmlPciInfo_t, pciSubSystemId));
}

CALL(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t handle, void *pci))
{
	return pci_info(handle, pci, offsetof(nvmlPciInfo_t, busId));
}

CALL(nvmlDeviceGetMemoryInfo, (nvmlDevice_t handle, nvmlMemory_t *memory))
{
	int device;
	nvmlReturn_t result = enter_device(handle, memory, &device);
	if (result != NVML_SUCCESS)
		return result;
	struct machine_device_state state;
	machine_device(device, &state);
	memory->total = state.total;
	memory->used = state.used;
	memory->free = state.total - state.used;
	return NVML_SUCCESS;
}

CALL(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t handle, nvmlMemory_v2_t *memory))
{
	if (memory && memory->version != NVML_MEMORY_V2)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	nvmlMemory_t plain;
	nvmlReturn_t result = nvmlDeviceGetMemoryInfo(handle, memory ? &plain : NULL);
	if (result != NVML_SUCCESS)
		return result;
	memory->total = plain.total;
	memory->used = plain.used;
	memory->free = plain.free;
	memory->reserved = 0;
	return NVML_SUCCESS;
}

/*
 * The limits that NVML keeps where the kernel has no controller for them, as drivers from 615 on:
 * SOFTGPU_NVML_LIMITS names a file of lines "CGROUP SOFT HARD".
 */
CALL(nvmlDeviceGetMemoryLimits_v1, (nvmlDevice_t handle, nvmlGetMemoryLimits_v1_t *limits))
{
	const char *path = getenv("SOFTGPU_NVML_LIMITS");
	char cgroup[1024];
	unsigned long long soft, hard;
	int device;
	nvmlReturn_t result = enter_device(handle, limits, &device);
	if (result != NVML_SUCCESS || !path)
		return result != NVML_SUCCESS ? result : NVML_ERROR_NOT_SUPPORTED;
	if (!limits->nameSpace)
		return NVML_ERROR_INVALID_ARGUMENT;
	limits->softLimit = limits->currentUsed = 0;
	limits->hardLimit = ~0ULL;
	FILE *in = fopen(path, "re");
	while (in && fscanf(in, "%1023s %llu %llu", cgroup, &soft, &hard) == 3)
		if (strcmp(cgroup, limits->nameSpace) == 0) {
			limits->softLimit = soft;
			limits->hardLimit = hard;
		}
	if (in)
		fclose(in);
	return NVML_SUCCESS;
}

/*
 * The number by which a process is told: of a container's processes another one than it has inside.
 */
static unsigned int number_of(const struct softgpu_truth *process)
{
	enum { MOST_NUMBERS = 1 << 22 }; /* that Linux gives */

	return (unsigned int)process->pid + (config()->nvml_of_host ? MOST_NUMBERS : 0);
}

/* The processes of a device. Returns how many there are; at most MOST_PROCESSES are in truth[]. */
static unsigned int processes_of(int device, struct softgpu_truth *truth)
{
	int count = machine_truth(device, truth, MOST_PROCESSES);
	unsigned int used = 0;
	/* One that has a context is among them, however little that takes; who had one still. */
	for (int i = 0; i < count && i < MOST_PROCESSES; i++)
		if (truth[i].contexts || truth[i].physical_bytes || truth[i].launches)
			truth[used++] = truth[i];
	return used;
}

/* Says how many entries there are or were needed; a NULL list only asks for their number. */
static nvmlReturn_t check_room(unsigned int needed, unsigned int *count, const void *list)
{
	unsigned int room = list ? *count : 0;
	*count = needed;
	return needed > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

CALL(nvmlDeviceGetComputeRunningProcesses_v3,
     (nvmlDevice_t handle, unsigned int *count, nvmlProcessInfo_v2_t *infos))
{
	int device;
	nvmlReturn_t result = enter_device(handle, count, &device);
	if (result != NVML_SUCCESS)
		return result;
	struct softgpu_truth truth[MOST_PROCESSES];
	result = check_room(processes_of(device, truth), count, infos);
	for (unsigned int i = 0; result == NVML_SUCCESS && i < *count; i++)
		infos[i] = (nvmlProcessInfo_v2_t){.pid = number_of(&truth[i]),
		                                  .usedGpuMemory = truth[i].physical_bytes,
		                                  .gpuInstanceId = NO_INSTANCE,
		                                  .computeInstanceId = NO_INSTANCE};
	return result;
}

CALL(nvmlDeviceGetComputeRunningProcesses_v2,
     (nvmlDevice_t handle, unsigned int *count, nvmlProcessInfo_v2_t *infos))
{
	return nvmlDeviceGetComputeRunningProcesses_v3(handle, count, infos);
}

CALL(nvmlDeviceGetComputeRunningProcesses,
     (nvmlDevice_t handle, unsigned int *count, nvmlProcessInfo_v1_t *infos))
{
	int device;
	nvmlReturn_t result = enter_device(handle, count, &device);
	if (result != NVML_SUCCESS)
		return result;
	struct softgpu_truth truth[MOST_PROCESSES];
	result = check_room(processes_of(device, truth), count, infos);
	for (unsigned int i = 0; result == NVML_SUCCESS && i < *count; i++)
		infos[i] = (nvmlProcessInfo_v1_t){.pid = number_of(&truth[i]),
		                                  .usedGpuMemory = truth[i].physical_bytes};
	return result;
}

/* Nothing draws on a software GPU. */
CALL(nvmlDeviceGetGraphicsRunningProcesses_v3,
     (nvmlDevice_t handle, unsigned int *count, nvmlProcessInfo_v2_t *infos))
{
	int device;
	(void)infos;
	nvmlReturn_t result = enter_device(handle, count, &device);
	if (result == NVML_SUCCESS)
		*count = 0;
	return result;
}

/* Of the last second. How busy the memory was is not known: the time kernels ran stands for it. */
CALL(nvmlDeviceGetUtilizationRates, (nvmlDevice_t handle, nvmlUtilization_t *utilization))
{
	int device;
	nvmlReturn_t result = enter_device(handle, utilization, &device);
	if (result != NVML_SUCCESS)
		return result;
	struct machine_device_state state;
	machine_device(device, &state);
	utilization->gpu = state.recent_percent;
	utilization->memory = state.recent_percent;
	return NVML_SUCCESS;
}

/* One sample for each process that was busy in the last second, if that is new to the caller. */
CALL(nvmlDeviceGetProcessUtilization, (nvmlDevice_t handle, nvmlProcessUtilizationSample_t *samples,
                                       unsigned int *count, unsigned long long last_seen))
{
	int device;
	nvmlReturn_t result = enter_device(handle, count, &device);
	if (result == NVML_SUCCESS && config()->nvml_totals)
		result = NVML_ERROR_NOT_SUPPORTED;
	if (result != NVML_SUCCESS)
		return result;
	struct timespec time;
	clock_gettime(CLOCK_REALTIME, &time);
	unsigned long long now =
	    (unsigned long long)time.tv_sec * 1000000 + (unsigned long long)time.tv_nsec / 1000;
	struct softgpu_truth truth[MOST_PROCESSES];
	unsigned int all = processes_of(device, truth), busy = 0;
	for (unsigned int i = 0; i < all; i++)
		if (truth[i].recent_percent)
			truth[busy++] = truth[i];
	if (busy == 0 || last_seen >= now)
		return NVML_ERROR_NOT_FOUND;
	result = check_room(busy, count, samples);
	for (unsigned int i = 0; result == NVML_SUCCESS && i < busy; i++)
		samples[i] = (nvmlProcessUtilizationSample_t){.pid = number_of(&truth[i]),
		                                              .timeStamp = now,
		                                              .smUtil = truth[i].recent_percent,
		                                              .memUtil = truth[i].recent_percent};
	return result;
}

/*
 * Links between devices, of which this machine has none, and sensors, which it has not either.
 * PyTorch, TensorFlow's XLA and hashcat look for names of these. PyTorch and hashcat do not start
 * without.
 */
#define NOT_SUPPORTED(name)                                                        \
	EXPORT nvmlReturn_t name(nvmlDevice_t handle);                             \
	EXPORT nvmlReturn_t name(nvmlDevice_t handle)                              \
	{                                                                          \
		nvmlReturn_t result = enter_device(handle, handle, &(int){0});     \
		return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result; \
	}
NOT_SUPPORTED(nvmlDeviceGetClockInfo)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkGeneration)
NOT_SUPPORTED(nvmlDeviceGetCurrPcieLinkWidth)
NOT_SUPPORTED(nvmlDeviceGetCurrentClocksThrottleReasons)
NOT_SUPPORTED(nvmlDeviceGetDecoderUtilization)
NOT_SUPPORTED(nvmlDeviceGetEncoderUtilization)
NOT_SUPPORTED(nvmlDeviceGetEnforcedPowerLimit)
NOT_SUPPORTED(nvmlDeviceGetFanSpeed)
NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfo)
NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfoV)
NOT_SUPPORTED(nvmlDeviceGetMaxClockInfo)
NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkGeneration)
NOT_SUPPORTED(nvmlDeviceGetMaxPcieLinkWidth)
NOT_SUPPORTED(nvmlDeviceGetNvLinkCapability)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemoteDeviceType)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NOT_SUPPORTED(nvmlDeviceGetNvLinkState)
NOT_SUPPORTED(nvmlDeviceGetNvLinkVersion)
NOT_SUPPORTED(nvmlDeviceGetP2PStatus)
NOT_SUPPORTED(nvmlDeviceGetPcieThroughput)
NOT_SUPPORTED(nvmlDeviceGetPerformanceState)
NOT_SUPPORTED(nvmlDeviceGetPowerManagementLimit)
NOT_SUPPORTED(nvmlDeviceGetPowerUsage)
NOT_SUPPORTED(nvmlDeviceGetSupportedClocksThrottleReasons)
NOT_SUPPORTED(nvmlDeviceGetTemperature)
NOT_SUPPORTED(nvmlDeviceGetTemperatureThreshold)
NOT_SUPPORTED(nvmlDeviceGetTemperatureV)
NOT_SUPPORTED(nvmlDeviceGetTopologyCommonAncestor)
NOT_SUPPORTED(nvmlDeviceGetTopologyNearestGpus)
NOT_SUPPORTED(nvmlDeviceGetTotalEnergyConsumption)
