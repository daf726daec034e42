/* SPDX-License-Identifier: MIT */
/*
 * Gives random advice for managed memory, prefetches it and asks for the advice. Prints each
 * answer. Beside it takes and gives back plain memory, so that under a limit some of it finds room
 * later. The output must not depend on the limit. Standard error gets the most bytes that it was
 * seen to hold on a device.
 *
 *   advise SEED STEPS
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/softgpu/machine.h"

enum { MIB = 1 << 20, PAGE = 4096, BLOCKS = 4, PLAIN = 6, USERS = 4 };

static struct block {
	CUdeviceptr address;
	size_t size;
} block[BLOCKS];
static CUdeviceptr plain[PLAIN];
static unsigned long long state, most_on_device;
static CUstream stream;

static unsigned int below(unsigned int n)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned int)((state >> 11) % n);
}

static void must(CUresult result, const char *what)
{
	if (result != CUDA_SUCCESS) {
		printf("%s: error %d\n", what, (int)result);
		exit(2);
	}
}

static void allocate(struct block *b)
{
	b->size = (size_t)(1 + below(7)) * MIB + (size_t)below(256) * PAGE;
	must(cuMemAllocManaged(&b->address, b->size, CU_MEM_ATTACH_GLOBAL), "cuMemAllocManaged");
}

static struct block a_range(void)
{
	const struct block *b = &block[below(BLOCKS)];
	unsigned int pages = (unsigned int)(b->size / PAGE);
	unsigned int first = below(pages), count = 1 + below(pages - first);

	switch (below(16)) {
	case 0:
		return *b;
	case 1: /* beyond its end */
		return (struct block){b->address + (size_t)first * PAGE, b->size + PAGE};
	case 2:
		return (struct block){b->address, 0};
	case 3: /* not whole pages */
		return (struct block){b->address + (size_t)first * PAGE + 100, 17};
	default:
		return (struct block){b->address + (size_t)first * PAGE, (size_t)count * PAGE};
	}
}

static CUmemLocation a_location(void)
{
	static const CUmemLocation locations[] = {
	    {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	    {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
	    {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
	    {.type = CU_MEM_LOCATION_TYPE_HOST},
	    {.type = CU_MEM_LOCATION_TYPE_HOST},
	    {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0},
	    {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 7},
	};

	return locations[below(sizeof locations / sizeof *locations)];
}

static int a_device(void)
{
	static const int devices[] = {0, 0, 1, CU_DEVICE_CPU, 7};

	return devices[below(5)];
}

static void ask(struct block range)
{
	int value[8][USERS];
	void *data[8];
	size_t sizes[8];
	CUmem_range_attribute attributes[8];
	CUresult result;

	memset(value, 0x55, sizeof value);
	for (int i = 0; i < 8; i++) {
		attributes[i] = (CUmem_range_attribute)(i + 1);
		sizes[i] = attributes[i] == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY
		               ? (1 + below(USERS)) * sizeof(int)
		               : sizeof(int);
		data[i] = value[i];
	}
	if (below(2)) {
		result =
		    cuMemRangeGetAttributes(data, sizes, attributes, 8, range.address, range.size);
		printf("ask all %d:", (int)result);
	} else {
		printf("ask each");
		for (int i = 0; i < 8; i++) {
			result = cuMemRangeGetAttribute(data[i], sizes[i], attributes[i],
			                                range.address, range.size);
			printf(" %d", (int)result);
		}
		printf(":");
	}
	for (int i = 0; i < 8; i++) {
		for (size_t user = 0; user < sizes[i] / sizeof(int); user++)
			printf(" %d", value[i][user]);
		printf(";");
	}
	printf("\n");
}

static void turn_plain(void)
{
	CUdeviceptr *p = &plain[below(PLAIN)];

	if (*p) {
		must(cuMemFree_v2(*p), "cuMemFree");
		*p = 0;
	} else {
		must(cuMemAlloc_v2(p, 2 * MIB), "cuMemAlloc");
	}
}

static void watch_devices(void)
{
	struct softgpu_truth truth[16];

	for (int device = 0; device < 2; device++) {
		int count = machine_truth(device, truth, 16);

		for (int i = 0; i < count && i < 16; i++)
			if (truth[i].pid == getpid() && truth[i].physical_bytes > most_on_device)
				most_on_device = truth[i].physical_bytes;
	}
}

/* Prefetches ranges of several blocks to one or two locations; rarely the batch is refused. */
static void prefetch_batch(void)
{
	CUdeviceptr at[4];
	size_t sizes[4], first[2] = {0, 1 + below(3)}, count = first[1] + 1;
	CUmemLocation to[2];

	for (size_t i = 0; i < count; i++) {
		const struct block *b = &block[below(BLOCKS)];
		struct block range = below(16) ? *b : a_range();

		at[i] = range.address;
		sizes[i] = range.size;
	}
	for (int i = 0; i < 2; i++)
		to[i] =
		    below(16) ? (CUmemLocation){.type = CU_MEM_LOCATION_TYPE_DEVICE} : a_location();
	printf("batch: %d\n", below(16) ? (int)cuMemPrefetchBatchAsync(at, sizes, count, to, first,
	                                                               1 + below(2), 0, stream)
	                                : (int)cuMemDiscardAndPrefetchBatchAsync(
	                                      at, sizes, count, to, first, 2, 0, stream));
	must(cuStreamSynchronize(stream), "cuStreamSynchronize");
	watch_devices();
}

static void step(void)
{
	struct block range = a_range();
	CUmem_advise advice = (CUmem_advise)(1 + below(6));

	switch (below(11)) {
	case 0:
	case 1:
		printf("advise %d: %d\n", advice,
		       (int)cuMemAdvise(range.address, range.size, advice, a_device()));
		break;
	case 2:
	case 3:
		printf("advise_v2 %d: %d\n", advice,
		       (int)cuMemAdvise_v2(range.address, range.size, advice, a_location()));
		break;
	case 4:
		printf("prefetch: %d\n",
		       (int)cuMemPrefetchAsync(range.address, range.size, a_device(), NULL));
		break;
	case 5:
		printf("prefetch_v2: %d\n", (int)cuMemPrefetchAsync_v2(range.address, range.size,
		                                                       a_location(), 0, NULL));
		break;
	case 6:
		turn_plain();
		break;
	case 7:
		prefetch_batch();
		break;
	case 8:
		if (below(8) == 0) {
			struct block *b = &block[below(BLOCKS)];

			must(cuMemFree_v2(b->address), "cuMemFree");
			allocate(b);
		}
		break;
	default:
		ask(range);
	}
}

int main(int argc, char **argv)
{
	CUcontext context;

	if (argc != 3)
		return 2;
	state = strtoull(argv[1], NULL, 10) * 2654435761u + 88172645463325252u;
	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
	must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
	must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
	for (int i = 0; i < BLOCKS; i++)
		allocate(&block[i]);
	for (int i = 0; i < BLOCKS; i++)
		ask(block[i]); /* nothing was advised yet */
	for (long steps = strtol(argv[2], NULL, 10); steps > 0; steps--)
		step();
	for (int i = 0; i < BLOCKS; i++)
		ask(block[i]);
	fprintf(stderr, "%llu\n", most_on_device);
	return 0;
}
