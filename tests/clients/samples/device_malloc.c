/* SPDX-License-Identifier: MIT */
/* malloc and free in kernels: lists that live on between kernels, compared with the CPU. */
#include "tests/clients/samples/sample.h"

#include <stdlib.h>

enum { COUNT = 900, THREADS = 96, MOST = 17 };

static CUdeviceptr lists, seeds, sums;

static void launch(CUmodule module, const char *name, CUdeviceptr *with)
{
	unsigned count = COUNT;

	CLIENT_LAUNCH(client_function(module, name), (COUNT + THREADS - 1) / THREADS, 1, THREADS,
	              NULL, &lists, with, &count);
}

/* What the kernels do to one list: the sum over all cells, and over those that thinning leaves. */
static void expect(unsigned seed, unsigned *all, unsigned *left)
{
	unsigned cells[MOST] = {0}, count = seed % 17, state = seed;

	*all = *left = 0;
	for (unsigned i = count; i-- > 0;)
		cells[i] = state = state * 1664525u + 1013904223u;
	for (unsigned i = 0; i < count; i++) {
		*all = *all * 31 + cells[i];
		if (i % 2 == 0)
			*left = *left * 31 + cells[i];
	}
}

int main(void)
{
	static unsigned host_seeds[COUNT], first[COUNT], second[COUNT], got[COUNT], zero[2 * COUNT];
	unsigned wrong_first = 0, wrong_second = 0, served = 0;
	size_t heap = 1 << 20;

	sample_open(NULL);
	CU(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, heap));
	char *text = program_read_beside("device_malloc.ptx");
	CUmodule module;
	SAMPLE_NEEDS(cuModuleLoadData(&module, text));
	free(text);
	CU(cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE));
	sample_check(heap >= 1 << 20, "the heap is as large as asked for");
	for (size_t i = 0; i < COUNT; i++)
		host_seeds[i] = sample_random();
	lists = sample_upload(zero, COUNT * sizeof(uint64_t));
	seeds = sample_upload(host_seeds, sizeof(host_seeds));
	sums = sample_upload(zero, COUNT * sizeof(unsigned));
	for (int round = 0; round < 2; round++) {
		launch(module, "build_lists", &seeds);
		launch(module, "thin_lists", &sums);
		sample_download(first, sums, sizeof(first));
		launch(module, "drop_lists", &sums);
		sample_download(second, sums, sizeof(second));
		for (size_t i = 0; i < COUNT; i++) {
			unsigned all, left;
			expect(host_seeds[i], &all, &left);
			wrong_first += first[i] != all;
			wrong_second += second[i] != left;
		}
	}
	sample_check(wrong_first == 0, "lists of one kernel are read by another");
	sample_check(wrong_second == 0, "what was freed is gone, and the rest is whole");

	/* A third of the heap each: some threads are served and some not, and nothing is lost. */
	unsigned long long third = heap / 3, much = 2 * (unsigned long long)heap;
	for (int round = 0; round < 2; round++) {
		CLIENT_LAUNCH(client_function(module, "ask"), 1, 1, 64, NULL, &sums, &third);
		sample_download(got, sums, 64 * sizeof(unsigned));
		served = 0;
		for (size_t i = 0; i < 64; i++)
			served += got[i];
		sample_check(served >= 1 && served <= 3,
		             "a heap serves at most three of its thirds");
	}
	CLIENT_LAUNCH(client_function(module, "ask"), 1, 1, 64, NULL, &sums, &much);
	sample_download(got, sums, 64 * sizeof(unsigned));
	served = 0;
	for (size_t i = 0; i < 64; i++)
		served += got[i];
	sample_check(served == 0, "more than the heap is NULL");
	client_free(&lists, COUNT * sizeof(uint64_t));
	client_free(&seeds, sizeof(host_seeds));
	client_free(&sums, COUNT * sizeof(unsigned));
	CU(cuModuleUnload(module));
	return sample_end();
}
