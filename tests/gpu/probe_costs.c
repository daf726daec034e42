/* SPDX-License-Identifier: MIT */
/* Questions on the cost of moving a chunk: the calls that make, map, open, unmap and release it. */
#include "tests/gpu/probe.h"

#include "tests/clients/program.h"

#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 9, STEPS = 5 };

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), ascending);
	return values[ROUNDS / 2];
}

static void ask_cost(const char *question, char backing, size_t size)
{
	CUmemAllocationProp properties = range_properties(backing);
	CUmemAccessDesc access = range_access();
	CUmemGenericAllocationHandle handle = 0;
	CUdeviceptr base = 0;
	double us[STEPS][ROUNDS];

	attempt_begin();
	ATTEMPT(cuMemAddressReserve(&base, size, 0, 0, 0));
	for (int round = 0; round < ROUNDS; round++) {
		double at[STEPS + 1];
		at[0] = program_now_ms();
		ATTEMPT(cuMemCreate(&handle, size, &properties, 0));
		at[1] = program_now_ms();
		ATTEMPT(cuMemMap(base, size, 0, handle, 0));
		at[2] = program_now_ms();
		ATTEMPT(cuMemSetAccess(base, size, &access, 1));
		at[3] = program_now_ms();
		ATTEMPT(cuMemUnmap(base, size));
		at[4] = program_now_ms();
		ATTEMPT(cuMemRelease(handle));
		at[5] = program_now_ms();
		for (int step = 0; step < STEPS; step++)
			us[step][round] = (at[step + 1] - at[step]) * 1e3;
	}
	if (!attempt_failed(question)) {
		char reply[128];
		snprintf(reply, sizeof(reply),
		         "create %.1f, map %.1f, set access %.1f, unmap %.1f, release %.1f us",
		         median(us[0]), median(us[1]), median(us[2]), median(us[3]), median(us[4]));
		answer(question, reply, "medians of %d, %zu MiB", ROUNDS, size >> 20);
	}
	if (base)
		gpu.cuMemAddressFree(base, size);
}

void ask_costs(void)
{
	static const struct {
		const char *question;
		char backing;
		unsigned chunks;
	} asked[] = {
	    {"cost_device_2MiB", 'd', 1},   {"cost_device_8MiB", 'd', 4},
	    {"cost_device_32MiB", 'd', 16}, {"cost_host_2MiB", 'h', 1},
	    {"cost_host_8MiB", 'h', 4},     {"cost_host_32MiB", 'h', 16},
	};

	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++)
		ASK(asked[i].question,
		    ask_cost(asked[i].question, asked[i].backing, asked[i].chunks * small_chunk));
}
