/* SPDX-License-Identifier: MIT */
/* The devices this process sees, and their answers about themselves. */
#include "tests/softgpu/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tests/softgpu/identity.h"
#include "tests/softgpu/machine.h"

struct device devices[MAX_DEVICES];
int device_count;

/* The machine's device that one item of CUDA_VISIBLE_DEVICES means, or -1. */
static int device_named(const char *item, size_t length)
{
	char text[64];
	if (length == 0 || length >= sizeof(text))
		return -1;
	memcpy(text, item, length);
	text[length] = '\0';
	char *end;
	long index = strtol(text, &end, 10);
	if (end != text && !*end)
		return index >= 0 && index < config()->devices ? (int)index : -1;
	/* A UUID may be cut short while it names one device only. */
	int found = -1;
	for (int i = 0; i < config()->devices; i++) {
		char full[DEVICE_UUID_TEXT];
		device_uuid_text(full, i);
		if (length <= 4 || strncasecmp(full, text, length) != 0)
			continue;
		if (found >= 0)
			return -1;
		found = i;
	}
	return found;
}

static void add_device(int machine_index)
{
	struct device *device = &devices[device_count];
	device->index = device_count;
	device->machine_index = machine_index;
	snprintf(device->name, sizeof(device->name), DEVICE_NAME);
	device_uuid(&device->uuid, machine_index);
	device->peers = 1U << device_count;
	pthread_mutex_init(&device->kernel_lock, NULL);
	device_count++;
}

void devices_find(void)
{
	const char *visible = config()->visible_devices;
	device_count = 0;
	if (!visible) {
		for (int i = 0; i < config()->devices; i++)
			add_device(i);
		return;
	}
	/* As the real driver: what follows the first wrong item does not count, and a device named
	 * twice leaves none. */
	while (*visible) {
		size_t length = strcspn(visible, ",");
		int machine_index = device_named(visible, length);
		if (machine_index < 0)
			return;
		for (int i = 0; i < device_count; i++) {
			if (devices[i].machine_index == machine_index) {
				device_count = 0;
				return;
			}
		}
		add_device(machine_index);
		visible += length;
		visible += *visible == ',';
	}
}

struct device *device_of(CUdevice ordinal)
{
	return ordinal >= 0 && ordinal < device_count ? &devices[ordinal] : NULL;
}

EXPORT CUresult cuDeviceGet(CUdevice *ordinal, int index)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!ordinal)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!device_of(index))
		return leave(CUDA_ERROR_INVALID_DEVICE);
	*ordinal = index;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetCount(int *count)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!count)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*count = device_count;
	return leave(CUDA_SUCCESS);
}

CUresult enter_device(const char *name, bool outputs, CUdevice ordinal, struct device **device)
{
	CUresult result = enter_driver(name);
	if (result != CUDA_SUCCESS)
		return result;
	*device = device_of(ordinal);
	if (!outputs)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return *device ? CUDA_SUCCESS : leave(CUDA_ERROR_INVALID_DEVICE);
}

EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(__func__, name && length > 0, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	snprintf(name, (size_t)length, "%s", device->name);
	return leave(CUDA_SUCCESS);
}

CUresult device_resource(CUdevResource *resource, CUdevResourceType type)
{
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	int major = device_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
	memset(resource, 0, sizeof(*resource));
	resource->type = type;
	resource->sm.smCount =
	    (unsigned int)device_attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
	/* The smallest part and its multiples, as cuda.h has them by compute capability. */
	resource->sm.minSmPartitionSize = major >= 9 ? 8 : major == 8 ? 4 : 2;
	resource->sm.smCoscheduledAlignment = major >= 9 ? 8 : 2;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetDevResource(CUdevice ordinal, CUdevResource *resource,
                                       CUdevResourceType type)
{
	struct device *device;
	CUresult result = enter_device(__func__, resource, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	return leave(device_resource(resource, type));
}

static CUresult get_uuid(const char *call, CUuuid *uuid, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(call, uuid, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	*uuid = device->uuid;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal)
{
	return get_uuid(__func__, uuid, ordinal);
}

EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice ordinal)
{
	return get_uuid(__func__, uuid, ordinal);
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(__func__, bytes, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t available, total;
	machine_memory(device->machine_index, &available, &total);
	*bytes = total;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(__func__, bytes, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	uint64_t available, total;
	machine_memory(device->machine_index, &available, &total);
	*bytes = total > UINT32_MAX ? UINT32_MAX : (unsigned int)total;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(__func__, major && minor, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	*major = CAPABILITY_MAJOR;
	*minor = CAPABILITY_MINOR;
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(__func__, properties, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	*properties = (CUdevprop){
	    .maxThreadsPerBlock = THREADS_PER_BLOCK,
	    .maxThreadsDim = {1024, 1024, 64},
	    .maxGridSize = {INT32_MAX, 65535, 65535},
	    .sharedMemPerBlock = SHARED_PER_BLOCK,
	    .totalConstantMemory = 65536,
	    .SIMDWidth = 32,
	    .memPitch = INT32_MAX,
	    .regsPerBlock = REGISTERS_PER_MULTIPROCESSOR,
	    .clockRate = 1000000,
	    .textureAlign = 512,
	};
	return leave(CUDA_SUCCESS);
}

static int pci_bus(const struct device *device)
{
	return (int)device_pci_bus(device->machine_index);
}

EXPORT CUresult cuDeviceGetPCIBusId(char *text, int length, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(__func__, text && length > 0, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	snprintf(text, (size_t)length, "0000:%02X:00.0", (unsigned int)pci_bus(device));
	return leave(CUDA_SUCCESS);
}

EXPORT CUresult cuDeviceGetByPCIBusId(CUdevice *ordinal, const char *text)
{
	CUresult result = enter_driver(__func__);
	if (result != CUDA_SUCCESS)
		return result;
	if (!ordinal || !text)
		return leave(CUDA_ERROR_INVALID_VALUE);
	unsigned int domain = 0, bus = 0, slot = 0;
	if (sscanf(text, "%x:%x:%x", &domain, &bus, &slot) != 3) {
		domain = 0;
		if (sscanf(text, "%x:%x", &bus, &slot) != 2)
			return leave(CUDA_ERROR_INVALID_VALUE);
	}
	for (int i = 0; i < device_count; i++) {
		if (domain == 0 && slot == 0 && (int)bus == pci_bus(&devices[i])) {
			*ordinal = i;
			return leave(CUDA_SUCCESS);
		}
	}
	return leave(CUDA_ERROR_INVALID_DEVICE);
}

EXPORT CUresult cuDeviceGetLuid(char *luid, unsigned int *mask, CUdevice ordinal)
{
	struct device *device;
	CUresult result = enter_device(__func__, luid && mask, ordinal, &device);
	/* A Windows notion: the real driver refuses it on Linux, too. */
	return result == CUDA_SUCCESS ? leave(CUDA_ERROR_NOT_SUPPORTED) : result;
}

EXPORT CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type,
                                               CUdevice ordinal)
{
	struct device *device;
	CUresult result =
	    enter_device(__func__, supported && type < CU_EXEC_AFFINITY_TYPE_MAX, ordinal, &device);
	if (result != CUDA_SUCCESS)
		return result;
	*supported = 0;
	return leave(CUDA_SUCCESS);
}
