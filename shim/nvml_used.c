/* SPDX-License-Identifier: MIT */
/*
 * A device's use as NVML reports it. Its memory, without a CUDA context, which is the one way to
 * learn the size of a process's first context, and by process. Its time: events tell a process only
 * its own part. NVML is loaded for it, and stays.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/once.h"
#include "core/budget/device.h"
#include "core/budget/in_use.h"
#include "core/pace/foreign.h"
#include "shim/nvml.h"
#include "shim/real_dlopen.h"

static struct {
	nvmlReturn_t (*by_uuid)(const char *uuid, nvmlDevice_t *device);
	nvmlReturn_t (*by_pci)(const char *pci, nvmlDevice_t *device);
	nvmlReturn_t (*memory)(nvmlDevice_t device, nvmlMemory_t *memory);
	nvmlReturn_t (*processes)(nvmlDevice_t device, unsigned int *count,
	                          nvmlProcessInfo_t *processes); /* NULL: an old NVML */
	nvmlReturn_t (*limits)(nvmlDevice_t device,
	                       nvmlGetMemoryLimits_v1_t *limits); /* likewise */
	nvmlReturn_t (*utilisation)(nvmlDevice_t device, nvmlUtilization_t *utilisation);
	nvmlReturn_t (*by_process)(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
	                           unsigned int *count, unsigned long long since_us); /* likewise */
} nvml;
static bool usable;

static void open_it(void)
{
	nvmlReturn_t (*init)(void);
	void *library;

	shim_find_real_dlopen();
	library = real_dlopen(NVML_LIBRARY, RTLD_LAZY | RTLD_LOCAL);
	if (!library)
		return;
	init = (__typeof__(init))dlsym(library, "nvmlInit_v2");
	nvml.by_uuid = (__typeof__(nvml.by_uuid))dlsym(library, "nvmlDeviceGetHandleByUUID");
	nvml.by_pci = (__typeof__(nvml.by_pci))dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2");
	nvml.memory = (__typeof__(nvml.memory))dlsym(library, "nvmlDeviceGetMemoryInfo");
	nvml.processes =
	    (__typeof__(nvml.processes))dlsym(library, "nvmlDeviceGetComputeRunningProcesses_v3");
	nvml.limits = (__typeof__(nvml.limits))dlsym(library, "nvmlDeviceGetMemoryLimits_v1");
	nvml.utilisation =
	    (__typeof__(nvml.utilisation))dlsym(library, "nvmlDeviceGetUtilizationRates");
	nvml.by_process =
	    (__typeof__(nvml.by_process))dlsym(library, "nvmlDeviceGetProcessUtilization");
	usable = init && nvml.by_uuid && nvml.by_pci && nvml.memory && init() == NVML_SUCCESS;
}

static bool nvml_used_find_device(const struct config_device *device, nvmlDevice_t *handle)
{
	static nvmlDevice_t found[DEVICE_MAX]; /* by ordinal; NULL: not asked for yet */
	static struct once once;

	*handle = __atomic_load_n(&found[device->ordinal], __ATOMIC_RELAXED);
	if (*handle)
		return true;
	once_call(&once, open_it);
	if (!usable || (nvml.by_uuid(device->uuid, handle) != NVML_SUCCESS &&
	                nvml.by_pci(device->pci_bus_id, handle) != NVML_SUCCESS))
		return false;
	__atomic_store_n(&found[device->ordinal], *handle, __ATOMIC_RELAXED);
	return true;
}

static void open_for(const struct config_device *device)
{
	nvmlDevice_t handle;

	(void)nvml_used_find_device(device, &handle);
}

static bool used_without_context(const struct config_device *device, uint64_t *used)
{
	nvmlDevice_t handle;
	nvmlMemory_t memory;

	if (!nvml_used_find_device(device, &handle) || nvml.memory(handle, &memory) != NVML_SUCCESS)
		return false;
	*used = memory.used;
	return true;
}

static uint64_t whole_memory(const struct config_device *device)
{
	nvmlDevice_t handle;
	nvmlMemory_t memory;

	return nvml_used_find_device(device, &handle) &&
	               nvml.memory(handle, &memory) == NVML_SUCCESS
	           ? memory.total
	           : 0;
}

/*
 * Asks for the memory of this process. In a container NVML may number processes as the host does:
 * then it is not found.
 */
static bool used_by_process(const struct config_device *device, uint64_t *used)
{
	nvmlProcessInfo_t processes[128];
	unsigned int count = sizeof(processes) / sizeof(*processes);
	nvmlDevice_t handle;

	if (!nvml_used_find_device(device, &handle) || !nvml.processes ||
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

static bool limits_of_cgroup(const struct config_device *device, const char *cgroup, uint64_t *soft,
                             uint64_t *hard)
{
	nvmlGetMemoryLimits_v1_t limits = {.nameSpace = cgroup};
	nvmlDevice_t handle;

	if (!nvml_used_find_device(device, &handle) || !nvml.limits ||
	    nvml.limits(handle, &limits) != NVML_SUCCESS)
		return false;
	*soft = limits.softLimit;
	*hard = limits.hardLimit;
	return true;
}

/* --- time --- */

enum { MOST_SAMPLES = 256, MOST_NUMBERS = 8 };

/* The numbers that this process has, the outermost first; as far as /proc tells them. */
struct numbers {
	int count;
	unsigned int number[MOST_NUMBERS];
	bool are_nvml_s; /* this is the outermost namespace */
};

static void read_numbers(struct numbers *numbers)
{
	char text[4096], *at;
	ssize_t length;
	int fd;

	*numbers = (struct numbers){.count = 1, .number = {(unsigned int)getpid()}};
	length = readlink("/proc/self/ns/pid", text, sizeof(text) - 1);
	text[length > 0 ? length : 0] = '\0';
	numbers->are_nvml_s = strcmp(text, "pid:[4026531836]") == 0; /* the kernel's, fixed */
	fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = '\0';
	at = strstr(text, "\nNSpid:");
	if (!at)
		return;
	at += sizeof("\nNSpid:") - 1;
	for (int i = 0; i < MOST_NUMBERS; i++) {
		char *end;
		unsigned long number = strtoul(at, &end, 10);

		if (end == at || memchr(at, '\n', (size_t)(end - at)))
			break;
		numbers->number[i] = (unsigned int)number;
		numbers->count = i + 1;
		at = end;
	}
}

/* Returns the samples' figure for one process: percent, or -1 where they have none. */
static int sampled_use(const nvmlProcessUtilizationSample_t *samples, unsigned int count,
                       unsigned int pid)
{
	unsigned int sum = 0, found = 0;

	for (unsigned int i = 0; i < count; i++) {
		if (samples[i].pid != pid)
			continue;
		sum += samples[i].sm < 100 ? samples[i].sm : 100;
		found++;
	}
	return found ? (int)(sum / found) : -1;
}

/* Processes that did something. */
static int count_processes(const nvmlProcessUtilizationSample_t *samples, unsigned int count)
{
	int processes = 0;

	for (unsigned int i = 0; i < count; i++) {
		bool is_first = true;

		for (unsigned int k = 0; k < i && is_first; k++)
			is_first = samples[k].pid != samples[i].pid;
		processes += is_first && sampled_use(samples, count, samples[i].pid) > 0;
	}
	return processes;
}

/* Returns which of our numbers NVML knows us by; 0: not known, it may be by none of them. */
static unsigned int own_number(const nvmlProcessUtilizationSample_t *samples, unsigned int count)
{
	static struct numbers numbers;
	static unsigned int known;

	if (!numbers.count)
		read_numbers(&numbers);
	if (numbers.are_nvml_s)
		known = numbers.number[0];
	for (int i = 0; i < numbers.count && !known; i++)
		if (sampled_use(samples, count, numbers.number[i]) > 0)
			known = numbers.number[i];
	return known;
}

/* Reads the samples of the last second. */
static void nvml_used_read_processes(nvmlDevice_t handle, struct foreign_use *use)
{
	static nvmlProcessUtilizationSample_t samples[MOST_SAMPLES];
	unsigned int count = MOST_SAMPLES, number;
	nvmlReturn_t result;
	int processes;

	result = nvml.by_process(handle, samples, &count, clock_of_day() / 1000 - 1000000);
	if (result == NVML_ERROR_NOT_FOUND)
		count = 0;
	else if (result != NVML_SUCCESS || count > MOST_SAMPLES)
		return;
	number = own_number(samples, count);
	processes = count_processes(samples, count);
	if (number) {
		use->own = sampled_use(samples, count, number);
		use->own = use->own < 0 ? 0 : use->own;
		use->others = processes - (use->own > 0);
	} else {
		use->others = processes ? processes - 1 : 0; /* we are among them, or at rest */
	}
}

/* Reads how much of a device's time is used. Called by the helper thread alone: one at a time. */
static bool time_used(const struct config_device *device, struct foreign_use *use)
{
	nvmlUtilization_t utilisation;
	nvmlDevice_t handle;

	*use = (struct foreign_use){-1, -1, -1};
	if (!nvml_used_find_device(device, &handle))
		return false;
	if (nvml.utilisation && nvml.utilisation(handle, &utilisation) == NVML_SUCCESS)
		use->device = utilisation.gpu < 100 ? (int)utilisation.gpu : 100;
	if (nvml.by_process)
		nvml_used_read_processes(handle, use);
	return use->device >= 0 || use->own >= 0;
}

static void tell_used(void)
{
	foreign_ask = time_used;
	in_use_open_nvml = open_for;
	in_use_by_nvml = used_without_context;
	in_use_whole_by_nvml = whole_memory;
	in_use_by_process = used_by_process;
	in_use_limits_by_nvml = limits_of_cgroup;
}

void nvml_tells_used(void)
{
	static struct once once;

	once_call(&once, tell_used);
}
