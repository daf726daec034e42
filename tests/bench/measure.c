/* SPDX-License-Identifier: MIT */
/* See measure.h. */
#include "tests/bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MAX_ROUNDS = 301, MIN_ROUNDS = 5, BUDGET_MS = 100 };

void measure_check(CUresult result, const char *call)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return;
	if (cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
		name = "unknown error";
	fprintf(stderr, "bench: %s: %s\n", call, name);
	exit(1);
}

double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + (double)now.tv_nsec;
}

CUdevice measure_open(void)
{
	char name[256];
	CUdevice device;
	CUcontext context;

	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDeviceGetName(name, sizeof(name), device));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
	printf("device %s\n", name);
	return device;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double median(double *values, int count)
{
	qsort(values, (size_t)count, sizeof(*values), ascending);
	return values[count / 2];
}

void measure(const struct measure *m)
{
	double rounds[MAX_ROUNDS];
	double until = now_ns() + BUDGET_MS * 1e6;
	int count = 0;

	for (int i = 0; i < m->per_round; i++) /* warm */
		m->operation();
	do {
		double start = now_ns();
		for (int i = 0; i < m->per_round; i++)
			m->operation();
		rounds[count++] = (now_ns() - start) / m->per_round;
		if (m->after_round)
			m->after_round();
	} while (count < MIN_ROUNDS || (count < MAX_ROUNDS && now_ns() < until));
	printf("%s %.2f\n", m->name, median(rounds, count));
}
