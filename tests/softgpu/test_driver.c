/* SPDX-License-Identifier: MIT */
/* Tests without memory and kernels: devices, contexts, entry points, injected faults. */
#include <pthread.h>

#include "tests/softgpu/test.h"

static void before_init(void)
{
	int count = 7, version;
	CUcontext context;
	CUdeviceptr memory;
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&context));
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&memory, 16));
	CHECK(count == 7);
	OK(cuDriverGetVersion(&version));
	CHECK(version == 13000);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	OK(cuInit(0));
	OK(cuInit(0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&memory, 16));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
}

static void devices(void)
{
	int count, value, major, minor;
	size_t total;
	char name[64], bus[16], small[4];
	CUdevice device, other;
	CUuuid first, second;
	OK(cuInit(0));
	OK(cuDeviceGetCount(&count));
	CHECK(count == 2);
	OK(cuDeviceGet(&device, 1));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 2));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGet(NULL, 0));
	OK(cuDeviceGetName(name, sizeof(name), 0));
	CHECK(strstr(name, "software"));
	OK(cuDeviceGetName(small, sizeof(small), 0));
	CHECK(strlen(small) == 3);
	OK(cuDeviceTotalMem_v2(&total, 1));
	CHECK(total == 64 * MIB);
	OK(cuDeviceGetUuid_v2(&first, 0));
	OK(cuDeviceGetUuid(&second, 1));
	CHECK(memcmp(&first, &second, sizeof(first)) != 0);
	OK(cuDeviceGetPCIBusId(bus, sizeof(bus), 1));
	OK(cuDeviceGetByPCIBusId(&other, bus));
	CHECK(other == 1);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetByPCIBusId(&other, "nonsense"));
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
	CHECK(value == 32);
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
	                        0));
	CHECK(value == 1);
	OK(cuDeviceComputeCapability(&major, &minor, 0));
	OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	CHECK(value == major);
	EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetAttribute(&value, 1, -1));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, 0));
}

static void visible_devices(void)
{
	int count;
	char bus[16];
	OK(cuInit(0));
	OK(cuDeviceGetCount(&count));
	CHECK(count == 2);
	OK(cuDeviceGetPCIBusId(bus, sizeof(bus), 0));
	CHECK(strcmp(bus, "0000:03:00.0") == 0);
}

static void no_device(void)
{
	EXPECT(CUDA_ERROR_NO_DEVICE, cuInit(0));
	EXPECT(CUDA_ERROR_NO_DEVICE, cuInit(0));
	int count;
	EXPECT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
}

static void primary_context(void)
{
	CUcontext context, again, current;
	unsigned int flags;
	int active;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
	CHECK(!active && physical_bytes(0) == 0);
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	CHECK(context == again);
	CHECK(physical_bytes(0) == 8 * MIB);
	OK(cuCtxGetCurrent(&current));
	CHECK(current == NULL);
	OK(cuCtxSetCurrent(context));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuCtxSynchronize());
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CHECK(physical_bytes(0) == 0);
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease_v2(0));
	EXPECT(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(context));
	OK(cuDevicePrimaryCtxRetain(&again, 0));
	CHECK(again == context);
	CUdeviceptr memory;
	OK(cuCtxSetCurrent(again));
	OK(cuMemAlloc_v2(&memory, 4 * MIB));
	OK(cuDevicePrimaryCtxReset_v2(0));
	CHECK(physical_bytes(0) == 0);
}

static void *in_thread(void *context)
{
	CUcontext current = context;
	OK(cuCtxGetCurrent(&current));
	CHECK(current == NULL);
	OK(cuCtxSetCurrent(context));
	OK(cuCtxSynchronize());
	return NULL;
}

static void context_stack(void)
{
	CUcontext first, second, popped, current;
	CUdevice device;
	unsigned int version;
	unsigned long long first_id, second_id;
	size_t limit;
	OK(cuInit(0));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&popped));
	OK(cuCtxCreate_v2(&first, CU_CTX_SCHED_BLOCKING_SYNC, 0));
	OK(cuCtxCreate_v4(&second, NULL, 0, 0));
	OK(cuCtxGetCurrent(&current));
	CHECK(current == second);
	OK(cuCtxGetId(first, &first_id));
	OK(cuCtxGetId(NULL, &second_id));
	CHECK(first_id != second_id);
	OK(cuCtxPopCurrent_v2(&popped));
	CHECK(popped == second);
	OK(cuCtxGetDevice(&device));
	CHECK(device == 0);
	unsigned int flags;
	OK(cuCtxGetFlags(&flags));
	CHECK(flags == CU_CTX_SCHED_BLOCKING_SYNC);
	OK(cuCtxGetApiVersion(first, &version));
	OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	OK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
	CHECK(limit == 4096);
	EXPECT(CUDA_ERROR_UNSUPPORTED_LIMIT, cuCtxGetLimit(&limit, (CUlimit)99));
	OK(cuCtxDestroy_v2(second));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(second));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(second));
	EXPECT(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2((CUcontext)0x1234));
	CHECK(physical_bytes(0) == 8 * MIB);
	pthread_t thread;
	pthread_create(&thread, NULL, in_thread, first);
	pthread_join(thread, NULL);
	OK(cuCtxDestroy_v2(first));
	OK(cuCtxGetCurrent(&current));
	CHECK(current == NULL && physical_bytes(0) == 0);
}

static void proc_address(void)
{
	void *function = &function;
	CUdriverProcAddressQueryResult status;
	OK(cuGetProcAddress("cuMemAlloc", &function, 2000, 0));
	CHECK(function == (void *)cuMemAlloc);
	OK(cuGetProcAddress("cuMemAlloc", &function, 13000, 0));
	CHECK(function == (void *)cuMemAlloc_v2);
	OK(cuGetProcAddress("cuGetProcAddress", &function, 11030, 0));
	CHECK(function == (void *)cuGetProcAddress);
	OK(cuGetProcAddress("cuGetProcAddress", &function, 12000, 0));
	CHECK(function == (void *)cuGetProcAddress_v2);
	OK(cuGetProcAddress("cuStreamQuery", &function, 12000,
	                    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
	CHECK(function != (void *)cuStreamQuery);
	OK(cuGetProcAddress("cuMemAlloc", &function, 12000,
	                    CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM));
	CHECK(function == (void *)cuMemAlloc_v2);
	OK(cuGetProcAddress("cuArrayCreate", &function, 12000, 0));
	CHECK(function == (void *)cuArrayCreate_v2);

	void *untouched = &function;
	EXPECT(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNothing", &untouched, 12000, 0));
	CHECK(untouched == &function);
	EXPECT(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuMemAlloc_v2", &untouched, 12000, 0));
	EXPECT(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("", &untouched, 0, 0));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress("cuInit", &untouched, 12000, 4));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetProcAddress(NULL, &untouched, 12000, 0));
	OK(cuGetProcAddress_v2("cuNothing", &untouched, 12000, 0, &status));
	CHECK(untouched == NULL && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	OK(cuGetProcAddress_v2("cuKernelGetParamInfo", &untouched, 12000, 0, &status));
	CHECK(untouched == NULL && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	OK(cuGetProcAddress_v2("cuInit", &untouched, 13000, 0, NULL));
	CHECK(untouched == (void *)cuInit);
}

static void hidden_names(void)
{
	void *function;
	EXPECT(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuMemCreate", &function, 12000, 0));
	EXPECT(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuMemMap", &function, 12000, 0));
	OK(cuGetProcAddress("cuMemUnmap", &function, 12000, 0));
}

static void injected_faults(void)
{
	CUcontext context = start();
	CUdeviceptr memory;
	OK(cuMemAlloc_v2(&memory, 16));
	EXPECT(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc_v2(&memory, 16));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemAlloc_v2(&memory, 16));
	OK(cuMemAlloc_v2(&memory, 16));
	EXPECT(CUDA_ERROR_UNKNOWN, cuCtxSynchronize());
	OK(cuCtxSynchronize());
	(void)context;
}

static void errors(void)
{
	const char *text;
	OK(cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	CHECK(strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY") == 0);
	OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
	CHECK(strcmp(text, "out of memory") == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetErrorName((CUresult)12345, &text));
	CHECK(text == NULL);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetErrorName(CUDA_SUCCESS, NULL));
}

static void not_supported(void)
{
	start();
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuTexObjectCreate(NULL, NULL, NULL, NULL));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(NULL, NULL));
	const void *table;
	CUuuid id = {{0}};
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGetExportTable(&table, &id));
}

/* All multiprocessors are one resource; the parts of it, green contexts, are not there. */
static void device_resources(void)
{
	CUdevResource all, of_context, part;
	CUdevResourceDesc description;
	CUcontext context;
	unsigned int groups = 1;
	int count;
	EXPECT(CUDA_ERROR_NOT_INITIALIZED,
	       cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuInit(0));
	EXPECT(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetDevResource(7, &all, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuDeviceGetDevResource(0, NULL, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(CUDA_ERROR_INVALID_RESOURCE_TYPE,
	       cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_INVALID));
	OK(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	OK(cuDeviceGetAttribute(&count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	CHECK(all.type == CU_DEV_RESOURCE_TYPE_SM && all.sm.smCount == (unsigned int)count);
	CHECK(all.sm.minSmPartitionSize == 8 && all.sm.smCoscheduledAlignment == 8);
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxGetDevResource(context, &of_context, CU_DEV_RESOURCE_TYPE_SM));
	CHECK(memcmp(&all.sm, &of_context.sm, sizeof(all.sm)) == 0);
	EXPECT(CUDA_ERROR_INVALID_VALUE,
	       cuCtxGetDevResource(context, NULL, CU_DEV_RESOURCE_TYPE_SM));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED,
	       cuDevSmResourceSplitByCount(&part, &groups, &all, NULL, 0, 8));
	EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuDevResourceGenerateDesc(&description, &all, 1));
}

static void forked_child(void)
{
	start();
	CUdeviceptr memory;
	OK(cuMemAlloc_v2(&memory, 3 * MIB));
	pid_t child = fork();
	if (child == 0) {
		int count;
		bool refused = cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
		               cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED;
		_exit(refused ? 0 : 1);
	}
	int status;
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	OK(cuMemFree_v2(memory));
}

int main(void)
{
	int failed = 0;
	failed += RUN(before_init, NULL);
	failed += RUN(devices, "SOFTGPU_DEVICES=2 SOFTGPU_MEMORY=64M");
	failed += RUN(visible_devices, "SOFTGPU_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0,9,1");
	failed += RUN(visible_devices,
	              "SOFTGPU_DEVICES=3 "
	              "CUDA_VISIBLE_DEVICES=GPU-7370696c-6c77-6179-2073-6f6674677002,1,-1");
	failed += RUN(no_device, "CUDA_VISIBLE_DEVICES=");
	failed += RUN(no_device, "SOFTGPU_DEVICES=2 CUDA_VISIBLE_DEVICES=0,0");
	failed += RUN(primary_context, NULL);
	failed += RUN(context_stack, NULL);
	failed += RUN(proc_address, NULL);
	failed += RUN(hidden_names, "SOFTGPU_HIDE=cuMemCreate,cuMemMap");
	failed += RUN(injected_faults,
	              "SOFTGPU_FAIL=cuMemAlloc_v2:2=2,cuMemAlloc_v2:3=1,cuCtxSynchronize:1=999");
	failed += RUN(errors, NULL);
	failed += RUN(not_supported, "SOFTGPU_QUIET=1");
	failed +=
	    RUN(device_resources, "SOFTGPU_QUIET=1 SOFTGPU_ATTRIBUTES=COMPUTE_CAPABILITY_MAJOR=9");
	failed += RUN(forked_child, NULL);
	return failed != 0;
}
