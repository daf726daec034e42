/* SPDX-License-Identifier: MIT */
/*
 * A library that keeps CUDA objects until its destructor runs, and frees them then: after
 * Spillway's, and after the driver's where it is unloaded first. Writes "late:" and the answers to
 * stderr.
 */
#include <stdio.h>

extern int cuMemFree_v2(unsigned long long address);
extern int cuMemAlloc_v2(unsigned long long *address, unsigned long size);
extern int cuEventDestroy_v2(void *event);
extern int cuStreamDestroy_v2(void *stream);
extern int cuCtxDestroy_v2(void *context);
extern int cuDevicePrimaryCtxReset_v2(int device);

struct late {
	unsigned long long native, spilled;
	void *event, *stream, *context;
};

static struct late kept;
static int keeps;

void late_keep(const struct late *late);
void late_keep(const struct late *late)
{
	kept = *late;
	keeps = 1;
}

__attribute__((destructor)) static void give_back(void)
{
	unsigned long long another = 0;

	if (!keeps)
		return;
	fprintf(stderr, "late: %d", cuMemAlloc_v2(&another, 1 << 20));
	fprintf(stderr, " %d", cuMemFree_v2(kept.native));
	fprintf(stderr, " %d", cuMemFree_v2(kept.spilled));
	fprintf(stderr, " %d", cuEventDestroy_v2(kept.event));
	fprintf(stderr, " %d", cuStreamDestroy_v2(kept.stream));
	fprintf(stderr, " %d", cuCtxDestroy_v2(kept.context));
	fprintf(stderr, " %d\n", cuDevicePrimaryCtxReset_v2(0));
}
