/* SPDX-License-Identifier: MIT */
/*
 * handles: needs two devices. Makes physical memory and maps it, says "ready" and waits for a line.
 * Then it asks every query of handles and mappings, with wrong arguments as well, and prints each
 * answer. They are the same wherever the memory is.
 */
#include <string.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"

static const size_t unit = (size_t)2 * MIB;
static struct elastic gpu;
static CUmemGenericAllocationHandle plain, shared, unmapped;
static CUdeviceptr base;

static const CUmemAccessDesc read_write = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                           .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void say(const char *what, CUresult result)
{
	printf("%s: %d\n", what, (int)result);
}

static CUmemAllocationProp properties(int types)
{
	return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	                             .requestedHandleTypes = (CUmemAllocationHandleType)types};
}

static void make(CUmemGenericAllocationHandle *handle, int types)
{
	CUmemAllocationProp prop = properties(types);

	CHECK(cuMemCreate(handle, unit, &prop, 0));
}

static void map(int at, CUmemGenericAllocationHandle handle)
{
	CHECK(cuMemMap(base + (size_t)at * unit, unit, 0, handle, 0));
	CHECK(cuMemSetAccess(base + (size_t)at * unit, unit, &read_write, 1));
}

static unsigned int word(int at)
{
	unsigned int value = 0;

	CHECK(cuMemcpyDtoH_v2(&value, base + (size_t)at * unit + unit / 2, sizeof(value)));
	return value;
}

static void say_properties(CUmemGenericAllocationHandle handle)
{
	CUmemAllocationProp prop;
	CUresult result = cuMemGetAllocationPropertiesFromHandle(&prop, handle);

	if (result != CUDA_SUCCESS)
		say("properties", result);
	else
		printf("properties: type %d, location %d %d, handle types %d\n", (int)prop.type,
		       (int)prop.location.type, prop.location.id, (int)prop.requestedHandleTypes);
}

static void say_pointer(CUdeviceptr address)
{
	unsigned int type = 0, managed = 9;
	unsigned long long types = 9, flags = 9, peer_flags = 9;
	int ordinal = -1;
	void *host;
	CUmemLocation location = read_write.location;
	CUmemLocation peer = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};

	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	CHECK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, address));
	CHECK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address));
	CHECK(cuPointerGetAttribute(&types, CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, address));
	CHECK(cuMemGetAccess(&flags, &location, address));
	CHECK(cuMemGetAccess(&peer_flags, &peer, address));
	printf("pointer: type %u, managed %u, device %d, handle types %llu, access %llu and %llu\n",
	       type, managed, ordinal, types, flags, peer_flags);
	say("host pointer",
	    cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, address));
}

static void ask_plain(void)
{
	CUmemGenericAllocationHandle again = 0;
	int file = -1;

	printf("word: %u\n", word(0));
	say_properties(plain);
	say_pointer(base + 7);
	say("retain", cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 5)));
	printf("it is %s\n", again == plain ? "the same" : "another");
	say("retain, of no mapping",
	    cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 6 * unit)));
	say("retain to nowhere", cuMemRetainAllocationHandle(NULL, (void *)(uintptr_t)(base + 5)));
	say("export what was not made for it",
	    cuMemExportToShareableHandle(&file, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	                                 0));
	say("map over it", cuMemMap(base, unit, 0, plain, 0));
	say("map half of it", cuMemMap(base + 4 * unit, unit / 2, 0, plain, 0));
	say("map with flags", cuMemMap(base + 4 * unit, unit, 0, plain, 1));
	say("free its addresses", cuMemAddressFree(base, 8 * unit));

	/* Two mappings of one. */
	map(4, plain);
	CHECK(cuMemsetD32_v2(base, 77, unit / 4));
	printf("an alias: %u\n", word(4));
	say("unmap the alias", cuMemUnmap(base + 4 * unit, unit));

	/* Released as often as it was had, it lives on while it is mapped. */
	say("release", cuMemRelease(plain));
	say("release again", cuMemRelease(plain));
	say("release a third time", cuMemRelease(plain));
	say("map what is released", cuMemMap(base + 4 * unit, unit, 0, plain, 0));
	say_properties(plain);
	printf("word: %u\n", word(0));
	say("retain what is released",
	    cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(base + 5)));
	say_properties(again);
	say("unmap", cuMemUnmap(base, unit));
	say("unmap again", cuMemUnmap(base, unit));

	/* And now by its handle alone. */
	map(5, again);
	printf("word: %u\n", word(5));
	say("unmap", cuMemUnmap(base + 5 * unit, unit));
	say("release", cuMemRelease(again));
	say("release again", cuMemRelease(again));
}

static void ask_shared(void)
{
	CUmemGenericAllocationHandle imported = 0;
	int file = -1;

	say_properties(shared);
	say("export with flags", cuMemExportToShareableHandle(
	                             &file, shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
	say("export", cuMemExportToShareableHandle(&file, shared,
	                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	say("import", cuMemImportFromShareableHandle(&imported, (void *)(intptr_t)file,
	                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(file);
	map(4, imported);
	CHECK(cuMemsetD32_v2(base + unit, 78, unit / 4));
	printf("imported: %u\n", word(4));
	say("release the import", cuMemRelease(imported));
	say("release", cuMemRelease(shared));
	say("release again", cuMemRelease(shared));
	say("unmap both", cuMemUnmap(base + unit, unit));
	printf("word: %u\n", word(4));
	say("and the import", cuMemUnmap(base + 4 * unit, unit));
}

int main(void)
{
	CUmemAccessDesc peer = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
	                        .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
	char line[16];

	gpu = elastic_start();
	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(cuMemAddressReserve(&base, 8 * unit, 0, 0, 0));
	make(&plain, 0);
	make(&shared, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	make(&unmapped, 0);
	map(0, plain);
	map(1, shared);
	CHECK(cuMemSetAccess(base, unit, &peer, 1));
	CHECK(cuMemsetD32_v2(base, 76, unit / 2));
	puts("ready");
	if (!fgets(line, sizeof(line), stdin))
		return 3;
	ask_plain();
	ask_shared();
	say_properties(unmapped);
	say("release", cuMemRelease(unmapped));
	say("free the addresses", cuMemAddressFree(base, 8 * unit));
	CHECK(cuDevicePrimaryCtxRelease_v2(gpu.device));
	return 0;
}
