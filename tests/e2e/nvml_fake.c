/* SPDX-License-Identifier: MIT */
/*
 * libnvidia-ml.so.1 of an older driver: without nvmlDeviceGetMemoryInfo_v2, not linked -Bsymbolic,
 * with one device, that of the software GPU, of 1 GiB. FAKE_MIG: the device is a part of a GPU
 * ("part"), or the whole one ("whole").
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/softgpu/nvml/abi.h"

#define UUID "7370696c-6c77-6179-2073-6f6674677000" /* tests/softgpu/identity.h */

nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length);
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current,
                                  unsigned int *pending);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
unsigned long long fake_total(void);
nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id);

static int is_mig(const char *what)
{
	const char *value = getenv("FAKE_MIG");

	return value && strcmp(value, what) == 0;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = 1;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	*device = (nvmlDevice_t)(unsigned long)(index + 1);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	(void)device;
	snprintf(uuid, length, "%s-" UUID, is_mig("part") ? "MIG" : "GPU");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	(void)device;
	*current = *pending = is_mig("whole") || is_mig("part");
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	(void)device;
	*memory = (nvmlMemory_t){.total = 1ULL << 30, .free = 1ULL << 29, .used = 1ULL << 29};
	return NVML_SUCCESS;
}

unsigned long long fake_total(void)
{
	nvmlMemory_t memory;

	nvmlDeviceGetMemoryInfo((nvmlDevice_t)1, &memory);
	return memory.total;
}

/*
 * The private table by which nvidia-smi asks: its size in bytes, and functions. None is one of the
 * memory queries, for which the loader answers with the shim's: this library is not linked
 * -Bsymbolic.
 */
nvmlReturn_t nvmlInternalGetExportTable(const void **table, const void *id)
{
	static const void *const functions[] = {
	    (const void *)(4 * sizeof(void *)), (const void *)nvmlInit_v2,
	    (const void *)nvmlDeviceGetUUID, (const void *)fake_total};

	(void)id;
	*table = functions;
	return NVML_SUCCESS;
}
