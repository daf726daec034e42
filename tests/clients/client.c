/* SPDX-License-Identifier: MIT */
/* The clients share this; see client.h. */
#include "tests/clients/client.h"

#include "tests/clients/program.h"

#include <stdio.h>
#include <stdlib.h>

static size_t bytes_now, bytes_peak;

const char *client_error_name(CUresult result)
{
	static char unnamed[32];
	const char *name = NULL;

	if (cuGetErrorName(result, &name) == CUDA_SUCCESS && name)
		return name;
	snprintf(unnamed, sizeof(unnamed), "CUresult %d", (int)result);
	return unnamed;
}

void client_check(CUresult result, const char *call, const char *file, int line)
{
	if (result != CUDA_SUCCESS)
		program_die("%s:%d: %s: %s", file, line, call, client_error_name(result));
}

CUdevice client_open_device(char name[256])
{
	CUdevice device;
	CUcontext context;

	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDeviceGetName(name, 256, device));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
	return device;
}

void client_close_device(CUdevice device)
{
	CU(cuCtxSetCurrent(NULL));
	CU(cuDevicePrimaryCtxRelease(device));
}

CUmodule client_load_module(const char *ptx_file)
{
	char *ptx = program_read_beside(ptx_file);
	CUmodule module;

	CU(cuModuleLoadData(&module, ptx));
	free(ptx);
	return module;
}

CUfunction client_function(CUmodule module, const char *name)
{
	CUfunction function;
	CUresult result = cuModuleGetFunction(&function, module, name);

	if (result != CUDA_SUCCESS)
		program_die("kernel %s: %s", name, client_error_name(result));
	return function;
}

CUdeviceptr client_alloc(size_t size)
{
	CUdeviceptr pointer;
	CUresult result = cuMemAlloc(&pointer, size);

	if (result != CUDA_SUCCESS)
		program_die("cuMemAlloc of %zu bytes, with %zu in use: %s", size, bytes_now,
		            client_error_name(result));
	bytes_now += size;
	if (bytes_peak < bytes_now)
		bytes_peak = bytes_now;
	return pointer;
}

void client_free(CUdeviceptr *pointer, size_t size)
{
	if (!*pointer)
		return;
	CU(cuMemFree(*pointer));
	*pointer = 0;
	bytes_now -= size;
}

size_t client_peak_bytes(void)
{
	return bytes_peak;
}
