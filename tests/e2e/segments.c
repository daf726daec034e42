/* SPDX-License-Identifier: MIT */
/*
 * segments [OPTIONS]: memory in the pattern of PyTorch's expandable segments. Addresses are
 * reserved once, far more than are used. Physical memory is mapped behind them as they grow. Some
 * of it is unmapped, and other memory is mapped in its place. Work goes across its borders. The
 * result depends on the options and the number of steps alone.
 *
 *   --export      asks for memory that can be exported, as PyTorch does
 *   --until FILE  goes on until this file exists
 *   --steps N     so many steps
 *
 * Prints "steps=N sum=X". Any call that fails, or gives a wrong answer, ends it with status 1.
 */
#include <getopt.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/e2e/elastic.h"

enum { PARTS = 12, TIMES_RESERVED = 4 };

static struct elastic gpu;
static uint64_t random_state = 1, sum;
static bool for_export;

static struct segment {
	CUdeviceptr base;
	size_t unit;
	CUmemGenericAllocationHandle handle[PARTS]; /* 0: released as soon as it was mapped */
	int parts;
} segments[] = {{.unit = (size_t)2 * MIB}, {.unit = (size_t)20 * MIB}};

static void wrong(const char *what)
{
	fprintf(stderr, "segments: %s\n", what);
	exit(1);
}

static CUmemAllocationProp properties(void)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

	if (for_export)
		prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return prop;
}

static void map_part(struct segment *segment, int part)
{
	CUmemAllocationProp prop = properties();
	CUmemAccessDesc access = {.location = prop.location,
	                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address = segment->base + (size_t)part * segment->unit;
	CUmemGenericAllocationHandle *handle = &segment->handle[part];

	CHECK(cuMemCreate(handle, segment->unit, &prop, 0));
	CHECK(cuMemMap(address, segment->unit, 0, *handle, 0));
	CHECK(cuMemSetAccess(address, segment->unit, &access, 1));
	CHECK(cuMemsetD32_v2(address, (unsigned int)elastic_random(&random_state),
	                     segment->unit / 4));
	if (part % 2) {
		CHECK(cuMemRelease(*handle));
		*handle = 0;
	}
}

static void unmap_part(struct segment *segment, int part)
{
	CHECK(cuMemUnmap(segment->base + (size_t)part * segment->unit, segment->unit));
	if (segment->handle[part])
		CHECK(cuMemRelease(segment->handle[part]));
	segment->handle[part] = 0;
}

/* The handle comes back from the address, and says of itself what was asked for. */
static void look_at(const struct segment *segment, int part)
{
	CUdeviceptr address = segment->base + (size_t)part * segment->unit + 5;
	CUmemAllocationProp prop, asked = properties();
	CUmemGenericAllocationHandle handle;
	unsigned int type;

	CHECK(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address));
	if (segment->handle[part] && handle != segment->handle[part])
		wrong("another handle came back");
	CHECK(cuMemGetAllocationPropertiesFromHandle(&prop, handle));
	if (prop.location.type != asked.location.type || prop.location.id != asked.location.id ||
	    prop.requestedHandleTypes != asked.requestedHandleTypes)
		wrong("the properties are others");
	CHECK(cuMemRelease(handle));
	CHECK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
	if (type != CU_MEMORYTYPE_DEVICE)
		wrong("it is not device memory");
}

/* A range of a segment, mostly across borders. */
static CUdeviceptr draw(const struct segment *segment, size_t *size)
{
	size_t mapped = (size_t)segment->parts * segment->unit;
	size_t first = elastic_random(&random_state) % (mapped / 8) * 4;

	*size = mapped / 2;
	return segment->base + first;
}

static void step(unsigned long number)
{
	struct segment *segment = &segments[elastic_random(&random_state) % 2];
	struct segment *other = &segments[elastic_random(&random_state) % 2];
	uint32_t salt = (uint32_t)elastic_random(&random_state);
	size_t size, other_size;
	CUdeviceptr to = draw(segment, &size), from = draw(other, &other_size);

	if (other_size < size)
		size = other_size;
	if (segment == other && to < from + size && from < to + size)
		size = (to > from ? to - from : from - to) / 4 * 4; /* apart, for the copy */
	switch (number % 8) {
	case 0:
		CHECK(cuMemcpyDtoDAsync_v2(to, from, size, NULL));
		break;
	case 1:
		CHECK(cuMemsetD32Async(to, salt, size / 8, NULL));
		break;
	case 2:
		sum = elastic_hash_device(sum, to, size < 65536 ? size : 65536);
		break;
	case 3: {
		int part = (int)(salt % (uint32_t)segment->parts);

		if (segment->parts < PARTS && salt % 3 == 0) {
			map_part(segment, segment->parts++);
		} else {
			CHECK(cuStreamSynchronize(NULL));
			unmap_part(segment, part);
			map_part(segment, part);
		}
		break;
	}
	case 4:
		look_at(segment, (int)(salt % (uint32_t)segment->parts));
		break;
	default:
		CHECK(elastic_mix(&gpu, to, from, size, salt, NULL));
	}
}

int main(int argc, char **argv)
{
	static const struct option names[] = {{"export", no_argument, NULL, 'e'},
	                                      {"until", required_argument, NULL, 'u'},
	                                      {"steps", required_argument, NULL, 's'},
	                                      {0}};
	const char *until = NULL;
	unsigned long steps = 0, number = 0;
	int option;

	while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
		if (option == 'e')
			for_export = true;
		else if (option == 'u')
			until = optarg;
		else if (option == 's')
			steps = strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	gpu = elastic_start();
	for (int i = 0; i < 2; i++) {
		struct segment *segment = &segments[i];

		CHECK(cuMemAddressReserve(&segment->base, TIMES_RESERVED * PARTS * segment->unit, 0,
		                          0, 0));
		while (segment->parts < 4)
			map_part(segment, segment->parts++);
	}
	while (until ? access(until, F_OK) != 0 : number < steps)
		step(number++);
	for (int i = 0; i < 2; i++) {
		struct segment *segment = &segments[i];

		sum =
		    elastic_hash_device(sum, segment->base, (size_t)segment->parts * segment->unit);
		CHECK(cuMemUnmap(segment->base, (size_t)segment->parts * segment->unit));
		for (int part = 0; part < segment->parts; part++) {
			if (segment->handle[part])
				CHECK(cuMemRelease(segment->handle[part]));
		}
		CHECK(cuMemAddressFree(segment->base, TIMES_RESERVED * PARTS * segment->unit));
	}
	printf("steps=%lu sum=%016llx\n", number, (unsigned long long)sum);
	CHECK(cuDevicePrimaryCtxRelease_v2(gpu.device));
	return 0;
}
