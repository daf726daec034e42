/* SPDX-License-Identifier: MIT */
/*
 * steps PLACED PERCENT MIB: how long a step of a training takes, as a line "step_PERCENT% NS". Its
 * working set has MIB MiB, of which PERCENT % are on the device.
 *
 * The working set is BUFFERS buffers. Every step reads and writes each HOT_EVERY-th of them
 * (weights, gradients, activations). Once in COLD_STEPS steps it uses one of the rest, by turns
 * (data, states of frozen layers).
 *
 * PLACED  heat   Spillway sees what the kernels use
 *         order  the kernels find their buffers in a table on the device, where nobody sees which
 *                they use: the buffers stay where they came to be when they were allocated
 *         host   a limit that leaves nothing on the device
 *         direct without Spillway
 */
#include "tests/bench/control.h"
#include "tests/bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum {
	BUFFERS = 32,
	HOT_EVERY = 4,
	COLD_STEPS = 16,
	SETTLED_MS = 3000,  /* for what stays where it is */
	WARM_UP_MS = 15000, /* for what heat is to move */
	MEASURED_MS = 2000,
	LINE = 128, /* as in the kernel */
	THREADS = 256,
	BLOCKS = 64,
};

/* Adds 1 to the first word of each LINE bytes, of the buffer itself or of the one in the table. */
static const char ptx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry use(.param .u64 p, .param .u32 count, .param .u64 table, .param .u32 index)\n"
    "{\n"
    ".reg .pred %q;\n.reg .b32 %r<16>;\n.reg .b64 %d<8>;\n"
    "ld.param.u64 %d0, [p];\nld.param.u32 %r0, [count];\n"
    "ld.param.u64 %d1, [table];\nld.param.u32 %r1, [index];\n"
    "setp.eq.u64 %q, %d1, 0;\n@%q bra direct;\n"
    "mul.wide.u32 %d2, %r1, 8;\nadd.s64 %d1, %d1, %d2;\nld.global.u64 %d0, [%d1];\n"
    "direct:\n"
    "mov.u32 %r2, %ntid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %tid.x;\n"
    "mad.lo.s32 %r5, %r3, %r2, %r4;\nmov.u32 %r6, %nctaid.x;\nmul.lo.s32 %r7, %r6, %r2;\n"
    "again:\n"
    "setp.ge.u32 %q, %r5, %r0;\n@%q bra done;\n"
    "mul.wide.u32 %d3, %r5, 128;\nadd.s64 %d4, %d0, %d3;\n"
    "ld.global.v4.u32 {%r8, %r9, %r10, %r11}, [%d4];\nadd.s32 %r8, %r8, 1;\n"
    "st.global.v4.u32 [%d4], {%r8, %r9, %r10, %r11};\n"
    "add.s32 %r5, %r5, %r7;\nbra again;\n"
    "done:\nret;\n}\n";

static CUfunction use;
static CUdeviceptr buffers[BUFFERS], table;
static size_t buffer_size;
static int by_table;

static void use_buffer(unsigned i)
{
	CUdeviceptr pointer = by_table ? 0 : buffers[i], in = by_table ? table : 0;
	unsigned count = (unsigned)(buffer_size / LINE);
	void *arguments[] = {&pointer, &count, &in, &i};

	CU(cuLaunchKernel(use, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
}

static void step(unsigned number)
{
	unsigned turn = number / COLD_STEPS;

	for (unsigned i = 0; i < BUFFERS; i += HOT_EVERY)
		use_buffer(i);
	if (number % COLD_STEPS == 0)
		use_buffer(turn % (BUFFERS / HOT_EVERY) * HOT_EVERY + 1 +
		           turn / (BUFFERS / HOT_EVERY) % (HOT_EVERY - 1));
	CU(cuCtxSynchronize());
}

static unsigned steps_for(unsigned number, int milliseconds)
{
	double until = now_ns() + milliseconds * 1e6;

	while (now_ns() < until)
		step(number++);
	return number;
}

/* Measures a step, on average, over full rounds. */
static double measure_steps(unsigned number)
{
	unsigned first;
	double start;

	while (number % COLD_STEPS)
		step(number++);
	first = number;
	start = now_ns();
	do {
		for (int i = 0; i < COLD_STEPS; i++)
			step(number++);
	} while (now_ns() - start < MEASURED_MS * 1e6);
	return (now_ns() - start) / (number - first);
}

int main(int argc, char **argv)
{
	CUmodule module;
	CUdevice device;
	unsigned number = 0;
	int percent;

	if (argc != 4) {
		fprintf(stderr, "usage: steps heat|order|host|direct PERCENT MIB\n");
		return 2;
	}
	percent = atoi(argv[2]);
	buffer_size = strtoul(argv[3], NULL, 10) * MIB / BUFFERS;
	by_table = strcmp(argv[1], "order") == 0;
	device = measure_open();
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&use, module, "use"));
	CU(cuMemAlloc(&table, sizeof(buffers)));
	if (control_is_possible()) {
		uint64_t limit = control_counter("device_used") +
		                 (uint64_t)percent * BUFFERS * buffer_size / 100;

		if (strcmp(argv[1], "host") == 0)
			limit = MIB;
		control_change(limit, false);
		control_wait("limit_set", false, limit);
	}
	for (int i = 0; i < BUFFERS; i++) {
		CU(cuMemAlloc(&buffers[i], buffer_size));
		CU(cuMemsetD8(buffers[i], 0, buffer_size));
	}
	CU(cuMemcpyHtoD(table, buffers, sizeof(buffers)));
	for (unsigned i = 0; i < BUFFERS; i++)
		use_buffer(i);
	if (control_is_possible())
		number =
		    steps_for(number, strcmp(argv[1], "heat") == 0 && percent < 100 ? WARM_UP_MS
		                                                                    : SETTLED_MS);
	printf("step_%d%% %.2f\n", percent, measure_steps(number));
	for (int i = 0; i < BUFFERS; i++)
		CU(cuMemFree(buffers[i]));
	CU(cuMemFree(table));
	CU(cuModuleUnload(module));
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
