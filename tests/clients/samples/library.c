/* SPDX-License-Identifier: MIT */
/* cuLibrary and cuKernel: code that is loaded once and belongs to no context. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>
#include <string.h>

enum { COUNT = 300 };

static CUlibrary library;

/* Adds the bias to zeros in the current context by the kernel handle itself. */
static bool bias_is(CUkernel kernel, int expected)
{
	int vector[COUNT];
	unsigned count = COUNT;
	CUdeviceptr memory = client_alloc(sizeof(vector));

	CU(cuMemsetD32(memory, 0, COUNT));
	CLIENT_LAUNCH((CUfunction)kernel, (COUNT + 63) / 64, 1, 64, NULL, &memory, &count);
	sample_download(vector, memory, sizeof(vector));
	client_free(&memory, sizeof(vector));
	for (size_t i = 0; i < COUNT; i++)
		if (vector[i] != expected)
			return false;
	return true;
}

int main(void)
{
	CUdevice device;
	CUkernel add_bias, set_bias, kernels[2];
	CUfunction function;
	CUmodule module;
	CUlibrary of_kernel;
	CUdeviceptr bias;
	const char *name;
	unsigned count;
	size_t bytes, offset, size;
	int value = 7;

	/* A library is loaded without a context. */
	CU(cuInit(0));
	char *ptx = program_read_beside("library.ptx");
	CU(cuLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0));
	free(ptx);
	CU(cuLibraryGetKernelCount(&count, library));
	sample_check(count == 2, "%u kernels", count);
	CU(cuLibraryGetKernel(&add_bias, library, "add_bias"));
	CU(cuLibraryGetKernel(&set_bias, library, "set_bias"));
	CU(cuLibraryEnumerateKernels(kernels, 2, library));
	sample_check((kernels[0] == add_bias && kernels[1] == set_bias) ||
	                 (kernels[0] == set_bias && kernels[1] == add_bias),
	             "enumerating gives the same handles");
	SAMPLE_EXPECT(CUDA_ERROR_NOT_FOUND,
	              cuLibraryGetKernel(&kernels[0], library, "no_such_kernel"));
	CU(cuKernelGetName(&name, add_bias));
	sample_check(strcmp(name, "add_bias") == 0, "a kernel knows its name");
	CU(cuKernelGetLibrary(&of_kernel, add_bias));
	sample_check(of_kernel == library, "and its library");
	CU(cuKernelGetParamInfo(add_bias, 1, &offset, &size));
	sample_check(offset == 8 && size == 4, "and its parameters");

	sample_open(NULL);
	sample_check(bias_is(add_bias, 100), "launched by its kernel handle");
	CU(cuLibraryGetGlobal(&bias, &bytes, library, "bias"));
	CU(cuMemcpyHtoD(bias, &value, sizeof(value)));
	sample_check(bytes == sizeof(value) && bias_is(add_bias, 7),
	             "its variable written by the host");
	CU(cuKernelGetFunction(&function, set_bias));
	value = 12;
	CLIENT_LAUNCH(function, 1, 1, 1, NULL, &value);
	sample_check(bias_is(add_bias, 12), "and by its function in this context");
	CU(cuLibraryGetModule(&module, library));
	CU(cuModuleGetFunction(&function, module, "set_bias"));
	value = 13;
	CLIENT_LAUNCH(function, 1, 1, 1, NULL, &value);
	sample_check(bias_is(add_bias, 13), "and by its module's");

	/* Another context has the same kernel and another variable. */
	CUcontext other, previous;
	CU(cuDeviceGet(&device, 0));
	CU(cuCtxCreate(&other, NULL, 0, device));
	sample_check(bias_is(add_bias, 100), "another context has its own variable");
	CU(cuCtxPopCurrent(&previous));
	sample_check(bias_is(add_bias, 13), "which leaves the first one's alone");
	CU(cuCtxDestroy(other));

	CU(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, add_bias, device));
	sample_check(value >= 64 && value <= 1024, "attributes by device");
	CU(cuLibraryUnload(library));
	return sample_end();
}
