/* SPDX-License-Identifier: MIT */
/* Tests of the NVML stand-in: the library is opened as programs do, and asked about processes that
 * use the driver meanwhile. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "tests/softgpu/nvml/abi.h"
#include "tests/softgpu/test.h"

#include "tests/softgpu/test_kernels.h"

#define FUNCTIONS(X)                                                          \
	X(nvmlInit_v2, (void))                                                \
	X(nvmlShutdown, (void))                                               \
	X(nvmlSystemGetDriverVersion, (char *, unsigned int))                 \
	X(nvmlSystemGetCudaDriverVersion_v2, (int *))                         \
	X(nvmlSystemGetProcessName, (unsigned int, char *, unsigned int))     \
	X(nvmlDeviceGetCount_v2, (unsigned int *))                            \
	X(nvmlDeviceGetHandleByIndex_v2, (unsigned int, nvmlDevice_t *))      \
	X(nvmlDeviceGetHandleByUUID, (const char *, nvmlDevice_t *))          \
	X(nvmlDeviceGetHandleByPciBusId_v2, (const char *, nvmlDevice_t *))   \
	X(nvmlDeviceGetName, (nvmlDevice_t, char *, unsigned int))            \
	X(nvmlDeviceGetUUID, (nvmlDevice_t, char *, unsigned int))            \
	X(nvmlDeviceGetIndex, (nvmlDevice_t, unsigned int *))                 \
	X(nvmlDeviceGetPciInfo_v3, (nvmlDevice_t, nvmlPciInfo_t *))           \
	X(nvmlDeviceGetPciInfo_v2, (nvmlDevice_t, void *))                    \
	X(nvmlDeviceGetPciInfo, (nvmlDevice_t, void *))                       \
	X(nvmlDeviceGetMemoryInfo, (nvmlDevice_t, nvmlMemory_t *))            \
	X(nvmlDeviceGetMemoryInfo_v2, (nvmlDevice_t, nvmlMemory_v2_t *))      \
	X(nvmlDeviceGetComputeRunningProcesses,                               \
	  (nvmlDevice_t, unsigned int *, nvmlProcessInfo_v1_t *))             \
	X(nvmlDeviceGetComputeRunningProcesses_v2,                            \
	  (nvmlDevice_t, unsigned int *, nvmlProcessInfo_v2_t *))             \
	X(nvmlDeviceGetComputeRunningProcesses_v3,                            \
	  (nvmlDevice_t, unsigned int *, nvmlProcessInfo_v2_t *))             \
	X(nvmlDeviceGetUtilizationRates, (nvmlDevice_t, nvmlUtilization_t *)) \
	X(nvmlDeviceGetProcessUtilization,                                    \
	  (nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned int *, unsigned long long))

#define DECLARE(name, params) static nvmlReturn_t(*name) params;
FUNCTIONS(DECLARE)
static const char *(*nvmlErrorString)(nvmlReturn_t);

static void *find(void *library, const char *name)
{
	void *function = dlsym(library, name);
	if (!function)
		fprintf(stderr, "there is no %s\n", name);
	CHECK(function);
	return function;
}

static void open_library(void)
{
	char path[4096];
	const char *build = getenv("BUILD");
	snprintf(path, sizeof(path), "%s/softgpu/libnvidia-ml.so.1", build ? build : "build");
	void *library = dlopen(path, RTLD_NOW);
	CHECK(library);
	CHECK(dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD) == library); /* by SONAME */
#define FIND(name, params) *(void **)&name = find(library, #name);
	FUNCTIONS(FIND)
	FIND(nvmlErrorString, )
}

#define NVML(wanted, call)                                                                   \
	do {                                                                                 \
		nvmlReturn_t got_ = (call);                                                  \
		if (got_ != (wanted)) {                                                      \
			fprintf(stderr, "%s:%d: %s answers %s\n", __FILE__, __LINE__, #call, \
			        nvmlErrorString(got_));                                      \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

static void devices(void)
{
	unsigned int count, index;
	nvmlDevice_t device, same;
	char text[96], small[8];
	int version;
	open_library();
	NVML(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount_v2(&count));
	NVML(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
	NVML(NVML_SUCCESS, nvmlInit_v2());
	NVML(NVML_SUCCESS, nvmlInit_v2());
	NVML(NVML_SUCCESS, nvmlShutdown()); /* once for each initialisation */
	CHECK(strcmp(nvmlErrorString(NVML_ERROR_NOT_FOUND), "Not Found") == 0);
	NVML(NVML_SUCCESS, nvmlDeviceGetCount_v2(&count));
	CHECK(count == 2); /* whatever CUDA_VISIBLE_DEVICES says */
	NVML(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetCount_v2(NULL));
	NVML(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex_v2(2, &device));
	NVML(NVML_SUCCESS, nvmlDeviceGetHandleByIndex_v2(1, &device));
	NVML(NVML_SUCCESS, nvmlDeviceGetIndex(device, &index));
	CHECK(index == 1);
	NVML(NVML_ERROR_INSUFFICIENT_SIZE, nvmlDeviceGetName(device, small, sizeof(small)));
	NVML(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetName(NULL, text, sizeof(text)));
	NVML(NVML_SUCCESS, nvmlDeviceGetName(device, text, sizeof(text)));
	NVML(NVML_SUCCESS, nvmlDeviceGetUUID(device, text, sizeof(text)));
	NVML(NVML_SUCCESS, nvmlDeviceGetHandleByUUID(text, &same));
	CHECK(same == device);
	NVML(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByUUID("GPU-0", &same));
	nvmlPciInfo_t pci;
	NVML(NVML_SUCCESS, nvmlDeviceGetPciInfo_v3(device, &pci));
	NVML(NVML_SUCCESS, nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &same));
	CHECK(same == device);
	NVML(NVML_SUCCESS, nvmlDeviceGetHandleByPciBusId_v2(pci.busIdLegacy, &same));
	CHECK(same == device);
	/* The older structures end before the subsystem id (32 bytes), and behind it (36). */
	unsigned char older[sizeof(pci)];
	memset(older, 0xa5, sizeof(older));
	NVML(NVML_SUCCESS, nvmlDeviceGetPciInfo(device, older));
	CHECK(memcmp(older, &pci, 32) == 0 && older[32] == 0xa5);
	NVML(NVML_SUCCESS, nvmlDeviceGetPciInfo_v2(device, older));
	CHECK(memcmp(older, &pci, 36) == 0 && older[36] == 0xa5);
	NVML(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetPciInfo(device, NULL));
	NVML(NVML_SUCCESS, nvmlSystemGetDriverVersion(text, sizeof(text)));
	NVML(NVML_SUCCESS, nvmlSystemGetCudaDriverVersion_v2(&version));
	/* The driver says the same of its only visible device. */
	char bus[16], name[96];
	CUuuid uuid;
	int driver_version;
	OK(cuInit(0));
	OK(cuDriverGetVersion(&driver_version));
	OK(cuDeviceGetPCIBusId(bus, sizeof(bus), 0));
	OK(cuDeviceGetUuid(&uuid, 0));
	OK(cuDeviceGetName(name, sizeof(name), 0));
	CHECK(version == driver_version && strcmp(bus, pci.busIdLegacy) == 0);
	NVML(NVML_SUCCESS, nvmlDeviceGetName(device, text, sizeof(text)));
	CHECK(strcmp(name, text) == 0);
	char hex[8];
	NVML(NVML_SUCCESS, nvmlDeviceGetUUID(device, text, sizeof(text)));
	snprintf(hex, sizeof(hex), "%02x", (unsigned char)uuid.bytes[15]);
	CHECK(strcmp(text + strlen(text) - 2, hex) == 0);
	NVML(NVML_SUCCESS, nvmlShutdown());
	NVML(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetName(device, text, sizeof(text)));
}

static int ready[2];

/* Holds memory and keeps the device busy until it is killed. */
/* Names that programs look for, whose functions have nothing to answer here. */
static void absent(void)
{
	static const char *const names[] = {
	    "nvmlDeviceGetCurrPcieLinkGeneration",
	    "nvmlDeviceGetCurrPcieLinkWidth",
	    "nvmlDeviceGetCurrentClocksThrottleReasons",
	    "nvmlDeviceGetEncoderUtilization",
	    "nvmlDeviceGetNvLinkState",
	    "nvmlDeviceGetP2PStatus",
	    "nvmlDeviceGetSupportedClocksThrottleReasons",
	    "nvmlDeviceGetTemperature",
	};
	nvmlDevice_t device;
	open_library();
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_NOLOAD);
	CHECK(library && nvmlInit_v2() == NVML_SUCCESS);
	CHECK(nvmlDeviceGetHandleByIndex_v2(0, &device) == NVML_SUCCESS);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		nvmlReturn_t (*get)(nvmlDevice_t, int, unsigned int *);
		*(void **)&get = find(library, names[i]);
		unsigned int value = 0;
		CHECK(get(device, 0, &value) == NVML_ERROR_NOT_SUPPORTED);
		CHECK(get(NULL, 0, &value) == NVML_ERROR_INVALID_ARGUMENT);
	}
}

static void use_device(void)
{
	CUmodule module;
	CUfunction spin;
	CUdeviceptr memory;
	uint64_t forever = UINT64_MAX;
	void *parameters[] = {&forever};
	start();
	OK(cuMemAlloc_v2(&memory, 40 * MIB));
	OK(cuModuleLoadData(&module, kernels));
	OK(cuModuleGetFunction(&spin, module, "spin"));
	OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
	CHECK(write(ready[1], "x", 1) == 1);
	for (;;)
		pause();
}

static void pause_ms(long milliseconds)
{
	struct timespec time = {.tv_sec = milliseconds / 1000,
	                        .tv_nsec = milliseconds % 1000 * 1000000};
	nanosleep(&time, NULL);
}

/* Polls as a monitor does until the process is seen at work. */
static nvmlProcessUtilizationSample_t await_sample(nvmlDevice_t device)
{
	for (int i = 0; i < 400; i++) {
		nvmlProcessUtilizationSample_t sample;
		unsigned int count = 1;
		if (nvmlDeviceGetProcessUtilization(device, &sample, &count, 0) == NVML_SUCCESS)
			return sample;
		pause_ms(50);
	}
	CHECK(!"no process is busy");
	return (nvmlProcessUtilizationSample_t){0};
}

static void processes(void)
{
	char byte, name[4096];
	open_library();
	CHECK(pipe(ready) == 0);
	pid_t user = fork_bound();
	if (user == 0)
		use_device();
	CHECK(read(ready[0], &byte, 1) == 1);
	nvmlDevice_t device, idle;
	NVML(NVML_SUCCESS, nvmlInit_v2());
	NVML(NVML_SUCCESS, nvmlDeviceGetHandleByIndex_v2(0, &device));
	NVML(NVML_SUCCESS, nvmlDeviceGetHandleByIndex_v2(1, &idle));
	nvmlMemory_t memory;
	nvmlMemory_v2_t memory2 = {.version = 1};
	NVML(NVML_SUCCESS, nvmlDeviceGetMemoryInfo(device, &memory));
	NVML(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, nvmlDeviceGetMemoryInfo_v2(device, &memory2));
	memory2.version = NVML_MEMORY_V2;
	NVML(NVML_SUCCESS, nvmlDeviceGetMemoryInfo_v2(device, &memory2));
	CHECK(memory.total == 64 * MIB && memory2.total == memory.total);
	CHECK(memory.used == 50 * MIB && memory2.used == memory.used); /* context, module too */
	CHECK(memory.free == 14 * MIB && memory2.free == memory.free);
	NVML(NVML_SUCCESS, nvmlDeviceGetMemoryInfo(idle, &memory));
	CHECK(memory.used == 0);
	nvmlProcessInfo_v1_t one[4];
	nvmlProcessInfo_v2_t two[4];
	unsigned int count = 0;
	NVML(NVML_ERROR_INSUFFICIENT_SIZE,
	     nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL));
	CHECK(count == 1);
	NVML(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses_v3(device, &count, two));
	CHECK(count == 1 && two[0].pid == (unsigned int)user && two[0].usedGpuMemory == 50 * MIB &&
	      two[0].gpuInstanceId == UINT32_MAX);
	count = 4;
	NVML(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses_v2(device, &count, two));
	CHECK(count == 1);
	count = 4;
	NVML(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses(device, &count, one));
	CHECK(count == 1 && one[0].usedGpuMemory == 50 * MIB);
	count = 4;
	NVML(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses_v3(idle, &count, two));
	CHECK(count == 0);
	NVML(NVML_SUCCESS, nvmlSystemGetProcessName((unsigned int)user, name, sizeof(name)));
	CHECK(strstr(name, "test_nvml"));
	nvmlProcessUtilizationSample_t sample = await_sample(device);
	CHECK(sample.pid == (unsigned int)user && sample.smUtil > 0 && sample.smUtil <= 100);
	count = 1;
	NVML(NVML_ERROR_NOT_FOUND,
	     nvmlDeviceGetProcessUtilization(device, &sample, &count, UINT64_MAX));
	NVML(NVML_ERROR_NOT_FOUND, nvmlDeviceGetProcessUtilization(idle, &sample, &count, 0));
	nvmlUtilization_t rates;
	NVML(NVML_SUCCESS, nvmlDeviceGetUtilizationRates(device, &rates));
	CHECK(rates.gpu > 0 && rates.gpu <= 100);
	NVML(NVML_SUCCESS, nvmlDeviceGetUtilizationRates(idle, &rates));
	CHECK(rates.gpu == 0);
	kill(user, SIGKILL);
	waitpid(user, NULL, 0);
	count = 4;
	NVML(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses_v3(device, &count, two));
	CHECK(count == 0);
	NVML(NVML_SUCCESS, nvmlDeviceGetMemoryInfo(device, &memory));
	CHECK(memory.used == 0 && memory.free == memory.total);
	NVML(NVML_ERROR_NOT_FOUND, nvmlDeviceGetProcessUtilization(device, &sample, &count, 0));
}

static void context_alone(void)
{
	nvmlProcessInfo_v2_t process[4];
	unsigned int count = 4;
	nvmlDevice_t device;
	open_library();
	start();
	NVML(NVML_SUCCESS, nvmlInit_v2());
	NVML(NVML_SUCCESS, nvmlDeviceGetHandleByIndex_v2(0, &device));
	NVML(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses_v3(device, &count, process));
	CHECK(count == 1 && process[0].pid == (unsigned int)getpid() &&
	      process[0].usedGpuMemory == 0);
	OK(cuDevicePrimaryCtxReset_v2(0));
	count = 4;
	NVML(NVML_SUCCESS, nvmlDeviceGetComputeRunningProcesses_v3(device, &count, process));
	CHECK(count == 0);
}

static void *ask(void *data)
{
	(void)data;
	for (int i = 0; i < 100; i++) {
		nvmlDevice_t device;
		nvmlMemory_t memory;
		NVML(NVML_SUCCESS, nvmlInit_v2());
		NVML(NVML_SUCCESS, nvmlDeviceGetHandleByIndex_v2(0, &device));
		NVML(NVML_SUCCESS, nvmlDeviceGetMemoryInfo(device, &memory));
		CHECK(memory.total == memory.free + memory.used);
		NVML(NVML_SUCCESS, nvmlShutdown());
	}
	return NULL;
}

static void threads(void)
{
	pthread_t thread[4];
	open_library();
	start();
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&thread[i], NULL, ask, NULL) == 0);
	for (int i = 0; i < 100; i++) {
		CUdeviceptr memory;
		OK(cuMemAlloc_v2(&memory, 4 * MIB));
		OK(cuMemFree_v2(memory));
	}
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	NVML(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
}

int main(void)
{
	int failed = 0;
	failed += RUN(devices, "SOFTGPU_DEVICES=2 CUDA_VISIBLE_DEVICES=1");
	failed += RUN(absent, NULL);
	failed += RUN(processes, "SOFTGPU_DEVICES=2 SOFTGPU_MEMORY=64M");
	failed += RUN(context_alone, "SOFTGPU_CONTEXT_MEMORY=0");
	failed += RUN(threads, NULL);
	return failed != 0;
}
