/* SPDX-License-Identifier: MIT */
/* Virtual memory management: attributes of an address, and mistakes. */
#include "tests/conformance/transcript.h"

static size_t unit;
static const CUmemAllocationProp on_device = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc read_write = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
static const CUmemAccessDesc read_only = {
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};

static void ask_reserve(void)
{
	CUdeviceptr base = 0;

	tell_status("reserve 0 bytes", cuMemAddressReserve(&base, 0, 0, 0, 0));
	tell_status("reserve 1000 bytes", cuMemAddressReserve(&base, 1000, 0, 0, 0));
	tell_status("reserve with an alignment of 3 units",
	            cuMemAddressReserve(&base, unit, 3 * unit, 0, 0));
	tell_status("reserve with flags", cuMemAddressReserve(&base, unit, 0, 0, 1));
	CU(cuMemAddressReserve(&base, 4 * unit, 0, 0, 0));
	tell_bool("a reservation is aligned to the granularity", base % unit == 0);
	tell_status("free half a reservation", cuMemAddressFree(base, 2 * unit));
	tell_status("free a reservation from its middle", cuMemAddressFree(base + unit, unit));
	tell_status("free a reservation", cuMemAddressFree(base, 4 * unit));
	tell_status("free it again", cuMemAddressFree(base, 4 * unit));
	CU(cuMemAddressReserve(&base, unit, 8 * unit, 0, 0));
	tell_bool("a reservation is aligned as asked", base % (8 * unit) == 0);
	CU(cuMemAddressFree(base, unit));
}

static void ask_create(void)
{
	CUmemGenericAllocationHandle handle = 0;
	CUmemAllocationProp properties = on_device, back;
	size_t least = 0;

	tell_status("create 0 bytes", cuMemCreate(&handle, 0, &properties, 0));
	tell_status("create half a unit", cuMemCreate(&handle, unit / 2, &properties, 0));
	tell_status("create with flags", cuMemCreate(&handle, unit, &properties, 1));
	tell_status("create without properties", cuMemCreate(&handle, unit, NULL, 0));
	properties.location.id = 1000;
	tell_status("create on device 1000", cuMemCreate(&handle, unit, &properties, 0));
	properties = on_device;
	properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
	tell_status("create of no type", cuMemCreate(&handle, unit, &properties, 0));
	properties = on_device;
	properties.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
	tell_status("create on the current NUMA node", cuMemCreate(&handle, unit, &properties, 0));
	TELL_VALUE(
	    "recommended granularity",
	    cuMemGetAllocationGranularity(&least, &on_device, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
	    "%s", least % unit == 0 ? "a multiple of the least" : "not a multiple");

	CU(cuMemCreate(&handle, unit, &on_device, 0));
	TELL_VALUE("properties of a handle", cuMemGetAllocationPropertiesFromHandle(&back, handle),
	           "type %d, location %d %d", back.type, back.location.type, back.location.id);
	CU(cuMemRelease(handle));
}

static void ask_map(void)
{
	CUmemGenericAllocationHandle first, second;
	CUdeviceptr base, plain;

	CU(cuMemAddressReserve(&base, 4 * unit, 0, 0, 0));
	CU(cuMemCreate(&first, unit, &on_device, 0));
	CU(cuMemCreate(&second, unit, &on_device, 0));
	CU(cuMemAlloc(&plain, unit));
	tell_status("map outside of a reservation", cuMemMap(plain, unit, 0, first, 0));
	tell_status("map at half a unit", cuMemMap(base + unit / 2, unit, 0, first, 0));
	tell_status("map more than there is", cuMemMap(base, 2 * unit, 0, first, 0));
	tell_status("map from half a unit on", cuMemMap(base, unit, unit / 2, first, 0));
	tell_status("map with flags", cuMemMap(base, unit, 0, first, 1));
	tell_status("access to what is not mapped", cuMemSetAccess(base, unit, &read_write, 1));
	tell_status("unmap what is not mapped", cuMemUnmap(base, unit));
	tell_status("map", cuMemMap(base + unit, unit, 0, first, 0));
	tell_status("map over a mapping", cuMemMap(base + unit, unit, 0, second, 0));
	CU(cuMemMap(base + 2 * unit, unit, 0, second, 0));
	tell_status("free a reservation in use", cuMemAddressFree(base, 4 * unit));

	/* Nothing is accessible before access was given. */
	unsigned long long flags = 99;
	CUmemLocation device = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};
	TELL_VALUE("access of a fresh mapping", cuMemGetAccess(&flags, &device, base + unit),
	           "%llu", flags);
	tell_status("access beyond the mappings",
	            cuMemSetAccess(base + unit, 3 * unit, &read_write, 1));
	tell_status("access for both mappings at once",
	            cuMemSetAccess(base + unit, 2 * unit, &read_write, 1));
	TELL_VALUE("access once given", cuMemGetAccess(&flags, &device, base + unit), "%llu",
	           flags);
	tell_status("fill across two mappings", cuMemsetD8(base + unit, 1, 2 * unit));
	CU(cuCtxSynchronize());
	CU(cuMemSetAccess(base + unit, unit, &read_only, 1));
	TELL_VALUE("access of one mapping taken back", cuMemGetAccess(&flags, &device, base + unit),
	           "%llu", flags);
	TELL_VALUE("the other's", cuMemGetAccess(&flags, &device, base + 2 * unit), "%llu", flags);
	char byte = 0;
	TELL_VALUE("read what may only be read", cuMemcpyDtoH(&byte, base + unit, 1), "%d", byte);

	/* The answers to questions about an address. */
	CUdeviceptr start = 0;
	size_t bytes = 0;
	int mapped = 99;
	CUcontext of;
	CUmemGenericAllocationHandle handle = 0;
	TELL_VALUE(
	    "start of the range",
	    cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + unit + 4),
	    "%s", start == base ? "the reservation's" : "another");
	TELL_VALUE("size of the range",
	           cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + unit + 4),
	           "%zu units", bytes / unit);
	TELL_VALUE("address range", cuMemGetAddressRange(&start, &bytes, base + unit + 4),
	           "%s, %zu units", start == base + unit ? "the mapping's start" : "another start",
	           bytes / unit);
	TELL_VALUE(
	    "start of the mapping",
	    cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, base + unit + 4),
	    "%s", start == base + unit ? "its start" : "another");
	TELL_VALUE(
	    "size of the mapping",
	    cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, base + unit + 4),
	    "%zu units", bytes / unit);
	TELL_VALUE("mapped",
	           cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, base + unit), "%d",
	           mapped);
	TELL_VALUE("mapped, of a reserved address",
	           cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, base), "%d", mapped);
	tell_status("context",
	            cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, base + unit));
	TELL_VALUE("handle of an address",
	           cuMemRetainAllocationHandle(&handle, (void *)(base + unit + 5)), "%s",
	           handle == first ? "the same" : "another");
	CU(cuMemRelease(handle));
	tell_status("handle of a reserved address",
	            cuMemRetainAllocationHandle(&handle, (void *)base));
	tell_status("handle of plain memory", cuMemRetainAllocationHandle(&handle, (void *)plain));
	tell_status("cuMemFree of a mapping", cuMemFree(base + unit));

	/* The memory lives until handle and mappings are gone. */
	CU(cuMemRelease(first));
	TELL_VALUE("read after the handle's release", cuMemcpyDtoH(&byte, base + unit, 1), "%d",
	           byte);
	tell_status("unmap half a mapping", cuMemUnmap(base + unit, unit / 2));
	tell_status("unmap both mappings at once", cuMemUnmap(base + unit, 2 * unit));
	tell_status("unmap again", cuMemUnmap(base + unit, unit));

	/* A new mapping starts without access, and an alias shows the same bytes. */
	CU(cuMemMap(base, unit, 0, second, 0));
	CU(cuMemMap(base + unit, unit, 0, second, 0));
	TELL_VALUE("access after mapping anew", cuMemGetAccess(&flags, &device, base), "%llu",
	           flags);
	CU(cuMemSetAccess(base, 2 * unit, &read_write, 1));
	CU(cuMemsetD8(base, 77, unit));
	CU(cuCtxSynchronize());
	TELL_VALUE("an alias", cuMemcpyDtoH(&byte, base + unit, 1), "%d", byte);
	CU(cuMemUnmap(base, unit));
	CU(cuMemUnmap(base + unit, unit));
	CU(cuMemRelease(second));
	CU(cuMemAddressFree(base, 4 * unit));
	CU(cuMemFree(plain));
}

int main(void)
{
	char name[256];
	int supported = 0;

	client_open_device(name);
	CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
	                        0));
	if (!supported)
		cannot_ask("this device has no virtual memory management");
	CU(cuMemGetAllocationGranularity(&unit, &on_device, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	ask_reserve();
	ask_create();
	ask_map();
	client_close_device(0);
	return 0;
}
