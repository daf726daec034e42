/* SPDX-License-Identifier: MIT */
/* Wrong arguments before cuInit and after; names of errors; copies and fills. */
#include "tests/conformance/transcript.h"

#include <string.h>

static void ask_before_init(void)
{
	int value;
	CUdevice device;
	CUcontext context;
	CUdeviceptr memory;
	const char *name = NULL;

	TELL_VALUE("cuDriverGetVersion before cuInit", cuDriverGetVersion(&value), "%s",
	           value > 0 ? "some" : "none");
	tell_status("cuDeviceGetCount before cuInit", cuDeviceGetCount(&value));
	tell_status("cuDeviceGet before cuInit", cuDeviceGet(&device, 0));
	tell_status("cuCtxGetCurrent before cuInit", cuCtxGetCurrent(&context));
	tell_status("cuMemAlloc before cuInit", cuMemAlloc(&memory, 4096));
	TELL_VALUE("cuGetErrorName before cuInit", cuGetErrorName(CUDA_ERROR_UNKNOWN, &name), "%s",
	           name);
	tell_status("cuInit with flags", cuInit(1));
	tell_status("cuDeviceGetCount after a failed cuInit", cuDeviceGetCount(&value));
	tell_status("cuInit", cuInit(0));
	tell_status("cuInit again", cuInit(0));
}

static void ask_names(void)
{
	const char *name = "unchanged", *text = NULL;
	CUresult status;

	TELL_VALUE("name of 0", cuGetErrorName(CUDA_SUCCESS, &name), "%s", name);
	TELL_VALUE("name of 2", cuGetErrorName((CUresult)2, &name), "%s", name);
	TELL_VALUE("name of 700", cuGetErrorName((CUresult)700, &name), "%s", name);
	status = cuGetErrorName((CUresult)12345, &name);
	tell("name of 12345", "%s, %s", client_error_name(status), name ? "unchanged" : "NULL");
	TELL_VALUE("text of 2", cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text), "%s",
	           text && *text ? "some" : "none");
	tell_status("name into NULL", cuGetErrorName(CUDA_SUCCESS, NULL));
}

static void ask_devices(void)
{
	CUdevice device;
	int value, count = 0;
	char name[256] = "", little[4] = "xxx";

	CU(cuDeviceGetCount(&count));
	tell_bool("there are devices", count > 0);
	tell_status("device count into NULL", cuDeviceGetCount(NULL));
	tell_status("device past the last", cuDeviceGet(&device, count));
	tell_status("device -1", cuDeviceGet(&device, -1));
	tell_status("device into NULL", cuDeviceGet(NULL, 0));
	tell_status("driver version into NULL", cuDriverGetVersion(NULL));
	tell_status("attribute 0 of device 0",
	            cuDeviceGetAttribute(&value, (CUdevice_attribute)0, 0));
	tell_status("attribute of device 1000",
	            cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 1000));
	TELL_VALUE("warp size", cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0),
	           "%d", value);
	TELL_VALUE("threads of a block",
	           cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 0), "%d",
	           value);
	TELL_VALUE("unified addressing",
	           cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0), "%d",
	           value);
	TELL_VALUE("greatest z of a grid",
	           cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 0), "%d",
	           value);
	CU(cuDeviceGetName(name, sizeof(name), 0));
	TELL_VALUE("name in 4 bytes", cuDeviceGetName(little, sizeof(little), 0), "%s",
	           strncmp(little, name, 3) == 0 && little[3] == '\0' ? "shortened, ended"
	                                                              : "otherwise");
	tell_status("total memory into NULL", cuDeviceTotalMem(NULL, 0));
}

static void ask_memory(void)
{
	CUdeviceptr memory, other, none = 0;
	size_t pitch, least = 0, total = 0;
	unsigned value = 0;
	void *host;

	tell_status("allocate 0 bytes", cuMemAlloc(&memory, 0));
	tell_status("allocate into NULL", cuMemAlloc(NULL, 4096));
	tell_status("allocate more than any device has", cuMemAlloc(&memory, (size_t)1 << 60));
	tell_status("allocate managed without flags", cuMemAllocManaged(&memory, 4096, 0));
	tell_status("allocate 0 bytes of managed memory",
	            cuMemAllocManaged(&memory, 0, CU_MEM_ATTACH_GLOBAL));
	tell_status("allocate rows of 0 bytes", cuMemAllocPitch(&memory, &pitch, 0, 10, 4));
	tell_status("allocate rows of elements of 3 bytes",
	            cuMemAllocPitch(&memory, &pitch, 100, 10, 3));
	CU(cuMemAllocPitch(&memory, &pitch, 100, 10, 4));
	tell_bool("rows are as far apart as they are wide, or farther",
	          pitch >= 100 && pitch % 4 == 0);
	CU(cuMemFree(memory));
	tell_status("allocate 0 bytes asynchronously", cuMemAllocAsync(&memory, 0, NULL));
	tell_status("pin host memory with unknown flags", cuMemHostAlloc(&host, 4096, 0x1000));
	CU(cuMemGetInfo(&least, &total));
	tell_bool("no more is free than there is", least <= total && total > 0);

	CU(cuMemAlloc(&memory, 4 * MIB));
	CU(cuMemAlloc(&other, 4 * MIB));
	tell_bool("memory is aligned to 256 bytes", memory % 256 == 0 && other % 256 == 0);
	tell_status("copy 0 bytes", cuMemcpyHtoD(memory, &value, 0));
	tell_status("copy 0 bytes to nowhere", cuMemcpyHtoD(none, &value, 0));
	tell_status("fill words at an odd address", cuMemsetD32(memory + 2, 0, 1));
	tell_status("fill half words at an odd address", cuMemsetD16(memory + 1, 0, 1));
	tell_status("fill 0 words", cuMemsetD32(memory, 0, 0));
	CU(cuMemsetD32(memory, 0x01020304, 2));
	CU(cuMemcpyDtoH(&value, memory + 1, 2));
	tell("two bytes from an odd address", "%#x", value);
	CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
	                      .srcDevice = memory,
	                      .srcPitch = 16,
	                      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
	                      .dstDevice = other,
	                      .dstPitch = 16,
	                      .WidthInBytes = 32,
	                      .Height = 4};
	tell_status("2D copy of rows wider than the pitch", cuMemcpy2D(&copy));
	copy.WidthInBytes = 0;
	tell_status("2D copy of rows of 0 bytes", cuMemcpy2D(&copy));
	CU(cuMemFree(memory));
	CU(cuMemFree(other));
}

static void ask_limits(void)
{
	size_t value = 0;

	TELL_VALUE("stack size of a thread", cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE), "%s",
	           value >= 1024 ? "1024 or more" : "less");
	tell_status("an unknown limit", cuCtxGetLimit(&value, (CUlimit)99));
	tell_status("limit into NULL", cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE));
	tell_status("set the stack size", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));
	CU(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	tell_bool("it is so afterwards", value >= 2048);
}

int main(void)
{
	char name[256];

	ask_before_init();
	client_open_device(name);
	ask_names();
	ask_devices();
	ask_memory();
	ask_limits();
	client_close_device(0);
	return 0;
}
