/* SPDX-License-Identifier: MIT */
/*
 * The part of NVML's binary interface that the stand-in has, declared by ourselves after NVIDIA's
 * "NVML API Reference Guide" (docs.nvidia.com/deploy/nvml-api), so that no header is needed.
 */
#ifndef SOFTGPU_NVML_ABI_H
#define SOFTGPU_NVML_ABI_H

#include <stdint.h>

typedef enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_UNINITIALIZED = 1,
	NVML_ERROR_INVALID_ARGUMENT = 2,
	NVML_ERROR_NOT_SUPPORTED = 3,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_INSUFFICIENT_SIZE = 7,
	NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
	NVML_ERROR_UNKNOWN = 999,
} nvmlReturn_t;

typedef struct nvmlDevice *nvmlDevice_t;

typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device;
	unsigned int pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

typedef struct {
	unsigned int version; /* NVML_MEMORY_V2 */
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
	const char *nameSpace; /* the folder of a cgroup */
	unsigned long long softLimit, hardLimit, currentUsed;
} nvmlGetMemoryLimits_v1_t;

/* Versions of structures: their size, and a number in the highest byte. */
#define NVML_MEMORY_V2 ((unsigned int)sizeof(nvmlMemory_v2_t) | 2U << 24)

typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

/* Also that of the third version of the calls. */
typedef struct {
	unsigned int pid;
	unsigned long long usedGpuMemory;
	unsigned int gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_v2_t;

typedef struct {
	unsigned int gpu, memory; /* percent */
} nvmlUtilization_t;

typedef struct {
	unsigned int pid;
	unsigned long long timeStamp; /* microseconds since 1970 */
	unsigned int smUtil, memUtil, encUtil, decUtil;
} nvmlProcessUtilizationSample_t;

_Static_assert(sizeof(nvmlPciInfo_t) == 68, "as NVML lays it out");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "as NVML lays it out");
_Static_assert(sizeof(nvmlProcessInfo_v1_t) == 16, "as NVML lays it out");
_Static_assert(sizeof(nvmlProcessInfo_v2_t) == 24, "as NVML lays it out");
_Static_assert(sizeof(nvmlProcessUtilizationSample_t) == 32, "as NVML lays it out");

#endif
