/* SPDX-License-Identifier: MIT */
/* Virtual memory with bytes on the host: attributes of addresses, and kernels that use it. */
#include "tests/conformance/transcript.h"

#include <stdio.h>

static size_t unit;

static void ask(const char *kind, CUmemAllocationProp properties)
{
	CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr base, device = 0;
	char question[64];
	unsigned type = 0, value = 0;
	int managed = 99;
	CUmodule module = client_load_module("kernels.ptx");

	CU(cuMemGetAllocationGranularity(&unit, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	if (cuMemCreate(&handle, unit, &properties, 0) != CUDA_SUCCESS)
		cannot_ask("this machine makes no virtual memory on the host");
	CU(cuMemAddressReserve(&base, unit, 0, 0, 0));
	CU(cuMemMap(base, unit, 0, handle, 0));
	CU(cuMemSetAccess(base, unit, &access, 1));
	snprintf(question, sizeof(question), "%s.type", kind);
	TELL_VALUE(question, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base),
	           "%s", type == CU_MEMORYTYPE_HOST ? "host" : "device");
	snprintf(question, sizeof(question), "%s.device_pointer", kind);
	TELL_VALUE(question,
	           cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, base), "%s",
	           device == base ? "the same" : "another");
	snprintf(question, sizeof(question), "%s.managed", kind);
	TELL_VALUE(question, cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, base),
	           "%d", managed);
	CU(cuMemsetD32(base, 41, unit / 4));
	CLIENT_LAUNCH(client_function(module, "add_one"), 1, 1, 1, NULL, &base);
	snprintf(question, sizeof(question), "%s: filled with 41, a kernel adds one", kind);
	TELL_VALUE(question, cuMemcpyDtoH(&value, base, sizeof(value)), "%u", value);
	CU(cuMemUnmap(base, unit));
	CU(cuMemRelease(handle));
	CU(cuMemAddressFree(base, unit));
	CU(cuModuleUnload(module));
}

int main(void)
{
	char name[256];

	client_open_device(name);
	ask("host_numa",
	    (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                          .location = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0}});
	ask("host", (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                                  .location = {.type = CU_MEM_LOCATION_TYPE_HOST}});
	client_close_device(0);
	return 0;
}
