/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory: a vector that grows in place. Its addresses are reserved once; physical memory is
 * mapped behind them as it grows, so no element ever moves.
 */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>

enum { PIECES = 3, SEED = 7 };

static CUfunction fill_from;
static CUdeviceptr base;
static size_t piece, length; /* bytes */
static CUmemGenericAllocationHandle handles[PIECES];

static void grow(size_t index)
{
	CUmemAllocationProp properties = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmemAccessDesc access = {.location = properties.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr end = base + length;

	CU(cuMemCreate(&handles[index], piece, &properties, 0));
	CU(cuMemMap(end, piece, 0, handles[index], 0));
	CU(cuMemSetAccess(end, piece, &access, 1));
	unsigned first = length / sizeof(unsigned);
	length += piece;
	unsigned count = length / sizeof(unsigned), seed = SEED;
	CLIENT_LAUNCH(fill_from, 64, 1, 256, NULL, &base, &first, &count, &seed);
}

static size_t wrong_elements(unsigned *vector)
{
	size_t wrong = 0;

	sample_download(vector, base, length);
	for (size_t i = 0; i < length / sizeof(unsigned); i++)
		wrong += vector[i] != i + SEED;
	return wrong;
}

int main(void)
{
	CUmemAllocationProp properties = {
	    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
	    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
	CUmodule module = sample_open("grow_vector.ptx");
	int vmm = 0;

	CU(cuDeviceGetAttribute(&vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
	if (!vmm)
		sample_skip("this device has no virtual memory management");
	fill_from = client_function(module, "fill_from");
	SAMPLE_NEEDS(cuMemGetAllocationGranularity(&piece, &properties,
	                                           CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
	CU(cuMemAddressReserve(&base, PIECES * piece, 0, 0, 0));
	sample_check(base % piece == 0, "the range is aligned to the granularity");

	unsigned *vector = sample_memory(PIECES * piece);
	for (size_t i = 0; i < PIECES; i++) {
		grow(i);
		sample_check(wrong_elements(vector) == 0, "%zu pieces: all elements", i + 1);
	}

	/* A handle stays valid while it is retained through the address it is mapped at. */
	CUmemGenericAllocationHandle again;
	CU(cuMemRetainAllocationHandle(&again, (void *)(base + piece)));
	sample_check(again == handles[1], "the address of a piece leads to its handle");
	CU(cuMemRelease(again));

	/* The first piece once more, elsewhere: two views of the same bytes. */
	CUmemAccessDesc access = {.location = properties.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr alias;
	unsigned value = 4711, seen = 0;
	CU(cuMemAddressReserve(&alias, piece, 0, 0, 0));
	CU(cuMemMap(alias, piece, 0, handles[0], 0));
	CU(cuMemSetAccess(alias, piece, &access, 1));
	CU(cuMemcpyHtoD(alias, &value, sizeof(value)));
	sample_download(&seen, base, sizeof(seen));
	sample_check(seen == value, "an alias shows the same bytes");
	CU(cuMemUnmap(alias, piece));
	CU(cuMemAddressFree(alias, piece));

	CU(cuMemUnmap(base, length));
	for (size_t i = 0; i < PIECES; i++)
		CU(cuMemRelease(handles[i]));
	CU(cuMemAddressFree(base, PIECES * piece));
	CU(cuModuleUnload(module));
	free(vector);
	return sample_end();
}
