/* SPDX-License-Identifier: MIT */
/*
 * The part of NVML's binary interface that Spillway speaks, declared by ourselves after NVIDIA's
 * "NVML API Reference Guide" (docs.nvidia.com/deploy/nvml-api), so that no header is needed.
 */
#ifndef SPILLWAY_NVML_H
#define SPILLWAY_NVML_H

#define NVML_LIBRARY "libnvidia-ml.so.1"

typedef enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_NOT_FOUND = 6,
	NVML_ERROR_LIBRARY_NOT_FOUND = 12,
	NVML_ERROR_FUNCTION_NOT_FOUND = 13,
} nvmlReturn_t;

typedef struct nvmlDevice_st *nvmlDevice_t;

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

/* Here `reserved` is kept apart from `used`. */
typedef struct {
	unsigned int version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

/* For nvmlDeviceGetComputeRunningProcesses_v3; memory of all ones: not known. */
typedef struct {
	unsigned int pid;
	unsigned long long memory;
	unsigned int gpu_instance, compute_instance;
} nvmlProcessInfo_t;

typedef struct {
	unsigned int gpu, memory; /* percent of the time of the last sample */
} nvmlUtilization_t;

/* For nvmlDeviceGetProcessUtilization: one for each process that did something. */
typedef struct {
	unsigned int pid;
	unsigned long long time_us;                /* CLOCK_REALTIME */
	unsigned int sm, memory, encoder, decoder; /* percent */
} nvmlProcessUtilizationSample_t;

/* For nvmlDeviceGetPciInfo_v3. */
typedef struct {
	char busIdLegacy[16];
	unsigned int domain, bus, device;
	unsigned int pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

/* For nvmlDeviceGetMemoryLimits_v1, of drivers from 615 on. */
typedef struct {
	const char *nameSpace;                                /* the directory of a cgroup */
	unsigned long long softLimit, hardLimit, currentUsed; /* 0 and all ones: no limit */
} nvmlGetMemoryLimits_v1_t;

_Static_assert(sizeof(nvmlMemory_t) == 24, "as NVML lays it out");
_Static_assert(sizeof(nvmlMemory_v2_t) == 40, "as NVML lays it out");
_Static_assert(sizeof(nvmlProcessInfo_t) == 24, "as NVML lays it out");
_Static_assert(sizeof(nvmlProcessUtilizationSample_t) == 32, "as NVML lays it out");
_Static_assert(sizeof(nvmlPciInfo_t) == 68, "as NVML lays it out");
_Static_assert(sizeof(nvmlGetMemoryLimits_v1_t) == 32, "as NVML lays it out");

#define NVML_DEVICE_MIG_ENABLE 1U

/*
 * Returns the file that stands for NVML where dlopen(file, mode) would open that, else `file`;
 * nvml.c.
 */
const char *shim_nvml_file(const char *file, int mode);
/* Has core/ ask NVML where it has no context to ask in; nvml_used.c. */
void nvml_tells_used(void);

__attribute__((visibility("default"))) nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device,
                                                                            nvmlMemory_t *memory);
__attribute__((visibility("default"))) nvmlReturn_t
nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);

#endif
