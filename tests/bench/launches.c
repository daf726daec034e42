/* SPDX-License-Identifier: MIT */
/*
 * Nanoseconds per launch, as "MEASURE NS" lines after a "device NAME" line. Kernels of 50 us
 * (NULL_KERNEL_NS, SOFTGPU_KERNEL_TIME_US) keep the device busy for 80 % of the time. Each figure
 * is the mean over the launches of 2 ms of kernels, a pacing quantum, so that work that pacing does
 * once per quantum counts. Printed is the middle one of many such means. A share of 99 % needs no
 * slot.
 *
 * launch_50us        queued: launches follow each other, then the device catches up
 * launch_50us_apart  each finds the device idle
 * launch_50us_legacy queued, in the legacy stream, in a context without blocking streams: there it
 *                    costs what it does in any other
 */
#include "tests/bench/measure.h"

#include <stdio.h>

enum { PERIOD_NS = 62500, PER_QUANTUM = 40, QUANTA = 201, WARM_UP = 20 };

static CUfunction kernel;
static CUstream stream;

/* Spins until then; after a preemption what was missed is not made up for. */
static double wait_until(double time)
{
	double now;

	while ((now = now_ns()) < time)
		continue;
	return now > time + PERIOD_NS ? now : time;
}

/* The time that so many launches take, in rows of `together`. */
static double launch_quantum(double *next, int together)
{
	double sum = 0;

	for (int i = 0; i < PER_QUANTUM; i += together) {
		*next = wait_until(*next) + (double)together * PERIOD_NS;
		double start = now_ns();
		for (int j = 0; j < together; j++)
			CU(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
		sum += now_ns() - start;
	}
	return sum;
}

static void measure_launches(const char *name, int together)
{
	static double quanta[QUANTA];
	double next = now_ns();

	for (int i = -WARM_UP; i < QUANTA; i++) {
		double sum = launch_quantum(&next, together);
		if (i >= 0)
			quanta[i] = sum / PER_QUANTUM;
	}
	CU(cuStreamSynchronize(stream));
	printf("%s %.2f\n", name, median(quanta, QUANTA));
}

int main(void)
{
	static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
	                          ".visible .entry empty()\n{\n\tret;\n}\n";
	CUdevice device = measure_open();
	CUmodule module;

	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&kernel, module, "empty"));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	measure_launches("launch_50us", PER_QUANTUM);
	measure_launches("launch_50us_apart", 1);
	CU(cuStreamDestroy(stream));
	stream = NULL;
	measure_launches("launch_50us_legacy", PER_QUANTUM);
	CU(cuModuleUnload(module));
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
