/* SPDX-License-Identifier: MIT */
/*
 * binds FILE: makes eight blocks of 4 MiB with cuMemCreate. It binds half of them to multicast
 * objects and logical endpoints, by handle and by address, and prints each answer. Then it makes
 * FILE, waits until FILE.end is there, and compares all bytes.
 */
#include "tests/e2e/elastic.h"

#include <unistd.h>

#include "tests/e2e/later_driver.h"

enum { BLOCKS = 8 };

static const size_t size = (size_t)4 * MIB;

int main(int argc, char **argv)
{
	const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                                        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	const CUmemAccessDesc rights = {.location = properties.location,
	                                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle[BLOCKS];
	CUdeviceptr at;
	char path[4096];
	FILE *ready;

	if (argc != 2)
		return 2;
	elastic_start();
	CHECK(cuMemAddressReserve(&at, BLOCKS * size, 0, 0, 0));
	for (unsigned int i = 0; i < BLOCKS; i++) {
		CHECK(cuMemCreate(&handle[i], size, &properties, 0));
		CHECK(cuMemMap(at + i * size, size, 0, handle[i], 0));
		CHECK(cuMemSetAccess(at + i * size, size, &rights, 1));
		CHECK(cuMemsetD32_v2(at + i * size, 77 + i, size / 4));
	}
	printf("multicast, handle: %d\n", cuMulticastBindMem_v2(1, 0, 0, handle[0], 0, size, 0));
	printf("multicast, address: %d\n", cuMulticastBindAddr_v2(1, 0, 0, at + size, size, 0));
	printf("endpoint, handle: %d\n", cuLogicalEndpointBindMem(1, 0, 0, handle[2], 0, size, 0));
	printf("endpoint, address: %d\n",
	       cuLogicalEndpointBindAddr(1, 0, 0, (void *)(uintptr_t)(at + 3 * size), size, 0));
	printf("no handle: %d\n", cuLogicalEndpointBindMem(1, 0, 0, 4242, 0, size, 0));
	ready = fopen(argv[1], "w");
	if (!ready || fclose(ready) != 0)
		return 2;
	snprintf(path, sizeof(path), "%s.end", argv[1]);
	while (access(path, F_OK) != 0)
		elastic_sleep_ms(10);
	for (unsigned int i = 0; i < BLOCKS; i++) {
		uint32_t words[2];

		CHECK(cuMemcpyDtoH_v2(&words[0], at + i * size, 4));
		CHECK(cuMemcpyDtoH_v2(&words[1], at + (i + 1) * size - 4, 4));
		printf("block %u: %s\n", i,
		       words[0] == 77 + i && words[1] == 77 + i ? "right" : "wrong");
	}
	return 0;
}
