/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 with calls that return at once: the additional cost of a call is that of the
 * library in front. It keeps no state and checks nothing; memory is numbers counted upwards.
 *
 * NULL_KERNEL_NS: kernels take so long, one after the other, by events and queries.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The C name differs from the symbol, so that neither cuda.h's prototypes nor its macros that
 * rename calls are in the way. */
#define ENTRY(name, ...)                                                                         \
	__attribute__((visibility("default"))) CUresult null_##name(__VA_ARGS__) __asm__(#name); \
	CUresult null_##name(__VA_ARGS__)

/* A call that has nothing to answer. Its arguments stay where the caller put them. */
#define SUCCEED(name)                \
	ENTRY(name, void)            \
	{                            \
		return CUDA_SUCCESS; \
	}

/* A call that makes, or finds, the one object of its kind. */
#define ANSWER(name, type)                           \
	ENTRY(name, type *out)                       \
	{                                            \
		*out = (type)(uintptr_t)&the_object; \
		return CUDA_SUCCESS;                 \
	}

static const size_t device_bytes = (size_t)128 << 30;
static const size_t chunk_bytes = (size_t)2 << 20;
static uint64_t next_address = (uint64_t)1 << 40;
static char the_object;

static uint64_t take_address(size_t size, size_t alignment)
{
	size_t taken = (size + alignment - 1) / alignment * alignment;
	return __atomic_fetch_add(&next_address, taken, __ATOMIC_RELAXED);
}

/* The device's time, where kernels take any: when it is done with all that was launched. */
static uint64_t kernel_ns, done_ns;

__attribute__((constructor)) static void read_kernel_time(void)
{
	const char *text = getenv("NULL_KERNEL_NS");

	kernel_ns = text ? strtoull(text, NULL, 10) : 0;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t reached_ns(void)
{
	uint64_t now = now_ns();

	return now < done_ns ? done_ns : now;
}

static CUresult launch(void)
{
	if (kernel_ns)
		done_ns = reached_ns() + kernel_ns;
	return CUDA_SUCCESS;
}

static CUresult query(uint64_t time_ns)
{
	return kernel_ns && now_ns() < time_ns ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult wait_until(uint64_t time_ns)
{
	while (query(time_ns) != CUDA_SUCCESS)
		continue;
	return CUDA_SUCCESS;
}

SUCCEED(cuInit)

ENTRY(cuDriverGetVersion, int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

ENTRY(cuGetErrorName, CUresult error, const char **name)
{
	*name = error == CUDA_SUCCESS ? "CUDA_SUCCESS" : "CUDA_ERROR_UNKNOWN";
	return CUDA_SUCCESS;
}

ENTRY(cuGetErrorString, CUresult error, const char **text)
{
	*text = error == CUDA_SUCCESS ? "no error" : "unknown error";
	return CUDA_SUCCESS;
}

/* The newest form of a call has the highest suffix; the oldest version asked for is not looked at.
 */
ENTRY(cuGetProcAddress_v2, const char *name, void **function, int version, cuuint64_t flags,
      CUdriverProcAddressQueryResult *status)
{
	static const char *const suffixes[] = {"_v4", "_v3", "_v2", ""};
	static void *self; /* opened once: dlopen is not what is measured */
	Dl_info found;
	char symbol[128];

	(void)version;
	(void)flags;
	*function = NULL;
	if (!self && dladdr(&the_object, &found))
		self = dlopen(found.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	for (int i = 0; self && i < 4 && !*function && strlen(name) < 120; i++)
		*function = dlsym(self, strcat(strcpy(symbol, name), suffixes[i]));
	if (status)
		*status =
		    *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

ENTRY(cuGetProcAddress, const char *name, void **function, int version, cuuint64_t flags)
{
	return null_cuGetProcAddress_v2(name, function, version, flags, NULL);
}

ENTRY(cuGetExportTable, const void **table)
{
	*table = NULL;
	return CUDA_ERROR_NOT_FOUND;
}

/* Device 0 */

ENTRY(cuDeviceGet, CUdevice *device, int ordinal)
{
	*device = 0;
	return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

ENTRY(cuDeviceGetCount, int *count)
{
	*count = 1;
	return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetName, char *name, int size)
{
	strncpy(name, "null driver", size);
	return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetAttribute, int *value, CUdevice_attribute attribute)
{
	switch (attribute) {
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
		*value = 0;
		break;
	case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
		*value = 9;
		break;
	default: /* every capability that is a yes or no is there */
		*value = 1;
	}
	return CUDA_SUCCESS;
}

ENTRY(cuDeviceTotalMem_v2, size_t *bytes)
{
	*bytes = device_bytes;
	return CUDA_SUCCESS;
}

ENTRY(cuMemGetInfo_v2, size_t *available, size_t *total)
{
	*available = *total = device_bytes;
	return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetUuid, CUuuid *uuid)
{
	memset(uuid, 0, sizeof(*uuid));
	return CUDA_SUCCESS;
}

ENTRY(cuDeviceGetUuid_v2, CUuuid *uuid)
{
	return null_cuDeviceGetUuid(uuid);
}

ENTRY(cuDeviceGetPCIBusId, char *id, int size)
{
	strncpy(id, "0000:00:00.0", size);
	return CUDA_SUCCESS;
}

ENTRY(cuDevicePrimaryCtxGetState, CUdevice device, unsigned *flags, int *active)
{
	(void)device;
	*flags = 0;
	*active = 1;
	return CUDA_SUCCESS;
}

/* Contexts, modules, streams, events: one of each */

ANSWER(cuDevicePrimaryCtxRetain, CUcontext)
SUCCEED(cuDevicePrimaryCtxRelease_v2)
SUCCEED(cuDevicePrimaryCtxReset_v2)
SUCCEED(cuDevicePrimaryCtxSetFlags_v2)
ANSWER(cuCtxCreate_v2, CUcontext)
ANSWER(cuCtxCreate_v3, CUcontext)
ANSWER(cuCtxCreate_v4, CUcontext)
SUCCEED(cuCtxDestroy_v2)
ANSWER(cuCtxGetCurrent, CUcontext)
SUCCEED(cuCtxSetCurrent)
SUCCEED(cuCtxPushCurrent_v2)
ANSWER(cuCtxPopCurrent_v2, CUcontext)
ENTRY(cuCtxSynchronize, void)
{
	return wait_until(done_ns);
}

ENTRY(cuCtxGetDevice, CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

ENTRY(cuCtxGetId, CUcontext context, unsigned long long *id)
{
	(void)context;
	*id = 1;
	return CUDA_SUCCESS;
}

ANSWER(cuModuleLoad, CUmodule)
ANSWER(cuModuleLoadData, CUmodule)
ANSWER(cuModuleLoadDataEx, CUmodule)
ANSWER(cuModuleLoadFatBinary, CUmodule)
ANSWER(cuModuleGetFunction, CUfunction)
SUCCEED(cuModuleUnload)
ANSWER(cuFuncGetModule, CUmodule)

ENTRY(cuFuncGetParamInfo, void)
{
	return CUDA_ERROR_INVALID_VALUE; /* no function has any parameter */
}

ENTRY(cuLaunchKernel, void)
{
	return launch();
}

ENTRY(cuLaunchKernelEx, void)
{
	return launch();
}

ENTRY(cuLaunchCooperativeKernel, void)
{
	return launch();
}

ANSWER(cuStreamCreate, CUstream)
ANSWER(cuStreamCreateWithPriority, CUstream)
SUCCEED(cuStreamDestroy_v2)

ENTRY(cuStreamQuery, void)
{
	return query(done_ns);
}

ENTRY(cuStreamSynchronize, void)
{
	return wait_until(done_ns);
}

SUCCEED(cuStreamWaitEvent)
SUCCEED(cuThreadExchangeStreamCaptureMode)

ENTRY(cuStreamGetCtx, CUstream stream, CUcontext *context)
{
	(void)stream;
	return null_cuCtxGetCurrent(context);
}

ENTRY(cuStreamIsCapturing, CUstream stream, CUstreamCaptureStatus *status)
{
	(void)stream;
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return CUDA_SUCCESS;
}

/* An event is its time; where kernels take none there is one event. */
ENTRY(cuEventCreate, CUevent *event)
{
	static uint64_t times[1 << 14];
	static unsigned int next;

	*event = kernel_ns ? (CUevent)&times[__atomic_fetch_add(&next, 1, __ATOMIC_RELAXED) %
	                                     (sizeof(times) / sizeof(*times))]
	                   : (CUevent)(uintptr_t)&the_object;
	return CUDA_SUCCESS;
}

SUCCEED(cuEventDestroy_v2)

ENTRY(cuEventRecord, CUevent event)
{
	if (kernel_ns)
		*(uint64_t *)event = reached_ns();
	return CUDA_SUCCESS;
}

ENTRY(cuEventQuery, CUevent event)
{
	return kernel_ns ? query(*(uint64_t *)event) : CUDA_SUCCESS;
}

ENTRY(cuEventSynchronize, CUevent event)
{
	return kernel_ns ? wait_until(*(uint64_t *)event) : CUDA_SUCCESS;
}

ENTRY(cuEventElapsedTime, float *ms, CUevent start, CUevent end)
{
	*ms = kernel_ns ? (float)((double)(*(uint64_t *)end - *(uint64_t *)start) / 1e6) : 0;
	return CUDA_SUCCESS;
}

ENTRY(cuEventElapsedTime_v2, float *ms, CUevent start, CUevent end)
{
	return null_cuEventElapsedTime(ms, start, end);
}

/* Memory */

ENTRY(cuMemAlloc_v2, CUdeviceptr *pointer, size_t size)
{
	*pointer = take_address(size, 512);
	return CUDA_SUCCESS;
}

SUCCEED(cuMemFree_v2)

ENTRY(cuMemHostAlloc, void **pointer, size_t size)
{
	*pointer = malloc(size);
	return *pointer ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

ENTRY(cuMemAllocHost_v2, void **pointer, size_t size)
{
	return null_cuMemHostAlloc(pointer, size);
}

ENTRY(cuMemFreeHost, void *pointer)
{
	free(pointer);
	return CUDA_SUCCESS;
}

SUCCEED(cuMemcpyHtoD_v2)
SUCCEED(cuMemcpyDtoH_v2)
SUCCEED(cuMemcpyDtoD_v2)
SUCCEED(cuMemcpyDtoDAsync_v2)
SUCCEED(cuMemcpyAsync)
SUCCEED(cuMemsetD8_v2)

ENTRY(cuMemGetAllocationGranularity, size_t *granularity)
{
	*granularity = chunk_bytes;
	return CUDA_SUCCESS;
}

ENTRY(cuMemAddressReserve, CUdeviceptr *pointer, size_t size)
{
	*pointer = take_address(size, chunk_bytes);
	return CUDA_SUCCESS;
}

ENTRY(cuMemCreate, CUmemGenericAllocationHandle *handle)
{
	*handle = take_address(1, 1);
	return CUDA_SUCCESS;
}

SUCCEED(cuMemAddressFree)
SUCCEED(cuMemRelease)
SUCCEED(cuMemMap)
SUCCEED(cuMemUnmap)
SUCCEED(cuMemSetAccess)
