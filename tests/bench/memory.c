/* SPDX-License-Identifier: MIT */
/*
 * The cost of device memory, as "MEASURE NS" lines: an allocation and its free, the first of its
 * size in the process (cold) and later ones. Then, with many allocations alive, a free and an
 * allocation each by itself. Sizes for which the device has no room are skipped. An argument: the
 * most allocations beside which it measures.
 */
#include "tests/bench/measure.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { BATCH = 64, ROUNDS = 101, MOST = 1000000 };

static size_t size; /* of what is allocated */

static void allocate_and_free(void)
{
	CUdeviceptr pointer;

	CU(cuMemAlloc(&pointer, size));
	CU(cuMemFree(pointer));
}

/* With some to spare: a device is never quite empty. */
static int fits(size_t bytes)
{
	size_t available, total;

	CU(cuMemGetInfo(&available, &total));
	return bytes <= available / 8 * 7;
}

/* The largest first: its chunks are no help to the others. */
static const struct {
	const char *cold, *warm;
	size_t size;
	int per_round;
} sizes[] = {
    {"cold_1GiB", "alloc_free_1GiB", 1024 * MIB, 2},
    {"cold_64MiB", "alloc_free_64MiB", 64 * MIB, 4},
    {"cold_2MiB", "alloc_free_2MiB", 2 * MIB, 16},
    {"cold_256KiB", "alloc_free_256KiB", 256 * KIB, 64},
    {"cold_4KiB", "alloc_free_4KiB", 4 * KIB, 64},
};
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

static void measure_cold(void)
{
	double began = now_ns();

	size = 512; /* of a block of which no other size is */
	allocate_and_free();
	printf("cold_first %.2f\n", now_ns() - began);
	for (int i = 0; i < SIZES; i++) {
		size = sizes[i].size;
		if (!fits(size))
			continue;
		began = now_ns();
		allocate_and_free();
		printf("%s %.2f\n", sizes[i].cold, now_ns() - began);
	}
}

static void measure_warm(void)
{
	for (int i = 0; i < SIZES; i++) {
		size = sizes[i].size;
		if (fits(size))
			measure(&(struct measure){sizes[i].warm, allocate_and_free, NULL,
			                          sizes[i].per_round});
	}
}

/* Frees some of those alive, in no order, and allocates as many. */
static void measure_with(const char *name, CUdeviceptr *pointers, size_t live)
{
	double frees[ROUNDS], allocations[ROUNDS];
	uint64_t random = 1;

	for (int round = 0; round < ROUNDS; round++) {
		size_t chosen[BATCH];
		double start, middle;

		for (int i = 0; i < BATCH; i++) { /* one of each BATCH-th part: none twice */
			random = random * 6364136223846793005u + 1442695040888963407u;
			chosen[i] = live / BATCH * (size_t)i + (random >> 33) % (live / BATCH);
		}
		start = now_ns();
		for (int i = 0; i < BATCH; i++)
			CU(cuMemFree(pointers[chosen[i]]));
		middle = now_ns();
		for (int i = 0; i < BATCH; i++)
			CU(cuMemAlloc(&pointers[chosen[i]], size));
		frees[round] = (middle - start) / BATCH;
		allocations[round] = (now_ns() - middle) / BATCH;
	}
	printf("alloc_%s %.2f\n", name, median(allocations, ROUNDS));
	printf("free_%s %.2f\n", name, median(frees, ROUNDS));
}

static void measure_live(size_t most)
{
	static const struct {
		const char *name;
		size_t size, live;
	} cases[] = {
	    {"4KiB_of_1k", 4 * KIB, 1000},   {"4KiB_of_16k", 4 * KIB, 16000},
	    {"4KiB_of_64k", 4 * KIB, 64000}, {"4KiB_of_1M", 4 * KIB, MOST},
	    {"2MiB_of_1k", 2 * MIB, 1000},   {"2MiB_of_16k", 2 * MIB, 16000},
	};
	CUdeviceptr *pointers = malloc(MOST * sizeof(*pointers));
	size_t live = 0;

	if (!pointers)
		exit(1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		if (size != cases[i].size) {
			while (live)
				CU(cuMemFree(pointers[--live]));
			size = cases[i].size;
		}
		if (cases[i].live > most || !fits((cases[i].live - live) * size))
			continue;
		while (live < cases[i].live)
			CU(cuMemAlloc(&pointers[live++], size));
		measure_with(cases[i].name, pointers, live);
	}
	while (live)
		CU(cuMemFree(pointers[--live]));
	free(pointers);
}

int main(int argc, char **argv)
{
	CUdevice device = measure_open();

	measure_cold();
	measure_warm();
	measure_live(argc > 1 ? strtoul(argv[1], NULL, 10) : MOST);
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
