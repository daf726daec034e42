/* SPDX-License-Identifier: MIT */
/*
 * Nanoseconds per driver call, as "MEASURE NS" lines after a "device NAME" line. The caller chooses
 * the library between this program and the driver (LD_PRELOAD); see the script `run`.
 */
#include "tests/bench/measure.h"

static CUfunction empty_kernel;
static CUstream stream;
static CUmodule module;

static void launch(void)
{
	CU(cuLaunchKernel(empty_kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void drain(void)
{
	CU(cuStreamSynchronize(stream));
}

static CUdeviceptr copy_from, copy_to;

static void copy(void)
{
	CU(cuMemcpyDtoDAsync(copy_to, copy_from, 4, stream));
}

/* As libcudart does some four hundred times at its start. */
static void proc_address(void)
{
	void *function;

	CU(cuGetProcAddress("cuMemcpyDtoDAsync", &function, 12000, 0, NULL));
}

static void event_create_destroy(void)
{
	CUevent event;

	CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	CU(cuEventDestroy(event));
}

/* Each of these takes device memory, which is measured. */
static void stream_create_destroy(void)
{
	CUstream another;

	CU(cuStreamCreate(&another, CU_STREAM_NON_BLOCKING));
	CU(cuStreamDestroy(another));
}

static void get_function(void)
{
	CU(cuModuleGetFunction(&empty_kernel, module, "empty"));
}

static void driver_version(void)
{
	int version;

	CU(cuDriverGetVersion(&version));
}

static void mem_info(void)
{
	size_t free, total;

	CU(cuMemGetInfo(&free, &total));
}

static const struct measure measures[] = {
    /* Fewer than a stream's queue holds, so that no launch waits for a kernel. */
    {"launch", launch, drain, 256},
    {"copy", copy, drain, 256},
    {"event", event_create_destroy, NULL, 64},
    {"stream", stream_create_destroy, NULL, 64},
    {"get_function", get_function, NULL, 64},
    {"proc_address", proc_address, NULL, 64},
    {"mem_info", mem_info, NULL, 64},
    {"passthrough", driver_version, NULL, 4096},
};

int main(void)
{
	static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
	                          ".visible .entry empty()\n{\n\tret;\n}\n";
	CUdevice device = measure_open();

	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&empty_kernel, module, "empty"));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CU(cuMemAlloc(&copy_from, 4096));
	CU(cuMemAlloc(&copy_to, 4096));
	for (size_t i = 0; i < sizeof(measures) / sizeof(*measures); i++)
		measure(&measures[i]);
	CU(cuMemFree(copy_from));
	CU(cuMemFree(copy_to));
	CU(cuStreamDestroy(stream));
	CU(cuModuleUnload(module));
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
