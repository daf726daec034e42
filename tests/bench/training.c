/* SPDX-License-Identifier: MIT */
/*
 * training PLACED PERCENT LAYERS [later]: how long a step of a training takes that uses every byte
 * in each step. PERCENT % of its buffers fit on the device. It prints lines "training_PERCENT% NS"
 * (a step) and "closed_PERCENT% PARTS" (of a million: the time in which memory moved, calls held).
 *
 * A layer has weights, an activation, a gradient, and two moments, of 4 MiB each. A step has three
 * kernels for each layer: one forward, one backward (the first also tells the loss) and one that
 * optimises. Beside these there are the input and two buffers that hand gradients back. Of 50
 * layers that is 253 buffers, 1012 MiB and 150 kernels. Each kernel reads and writes all of its
 * buffers once.
 *
 * PLACED  seen    Spillway sees what the kernels use
 *         order   the kernels find their buffers in a table on the device, so that all stays where
 *                 it was allocated
 *         direct  without Spillway
 * later   the limit falls only when all is allocated and used
 *
 * MARKS names a file that gets a line "NS mark DURATION_NS" at the end of each step.
 *
 * Before a step is measured it waits until Spillway has decided where memory is best, and nothing
 * has moved for a while; "settled_PERCENT% NS" is how long that took, without this while. On a busy
 * machine the steps may be found later than that: memory that moves while steps are measured was
 * not settled, so it waits and measures again, PATIENCE_S at most.
 */
#include "core/ledger/codes.h"
#include "tests/bench/control.h"
#include "tests/bench/measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

enum {
	LAYERS_MOST = 64,
	BUFFER_MIB = 4,
	UNIT_MIB = 2, /* memory is on one side by so much */
	BUFFERS_MOST = 5 * LAYERS_MOST + 3,
	GIVEN = 5,        /* buffers to a kernel, at most */
	PAGE = 4096,      /* as in the kernel */
	SETTLED_S = 15,   /* nothing has moved for so long, if TRAINING_QUIET_S says nothing else */
	PATIENCE_S = 200, /* until then */
	MEASURED_S = 8,   /* and one step at least */
	STEPS_LEAST = 3,
	STEPS_QUIET = 8, /* nor for so many steps */
	THREADS = 256,
	BLOCKS = 4,
};

/*
 * Adds 1 to the first word of each page of up to five buffers: pN, or of number pN in the table. A
 * buffer that is not there is ~0.
 */
#define USE_BUFFER(n)                                                                           \
	"ld.param.u64 %d0, [p" n "];\nsetp.eq.u64 %q, %d0, 0xffffffffffffffff;\n@%q bra done" n \
	";\n"                                                                                   \
	"setp.eq.u64 %q, %d1, 0;\n@%q bra direct" n ";\n"                                       \
	"mul.lo.u64 %d2, %d0, 8;\nadd.s64 %d2, %d1, %d2;\nld.global.u64 %d0, [%d2];\n"          \
	"direct" n ":\nmov.u32 %r4, %r5;\n"                                                     \
	"again" n ":\nsetp.ge.u32 %q, %r4, %r0;\n@%q bra done" n ";\n"                          \
	"mul.wide.u32 %d3, %r4, 4096;\nadd.s64 %d4, %d0, %d3;\n"                                \
	"ld.global.u32 %r8, [%d4];\nadd.s32 %r8, %r8, 1;\nst.global.u32 [%d4], %r8;\n"          \
	"add.s32 %r4, %r4, %r7;\nbra again" n ";\ndone" n ":\n"

#define KERNEL(name)                                                                               \
	".visible .entry " name "(.param .u64 p0, .param .u64 p1, .param .u64 p2, .param .u64 p3," \
	" .param .u64 p4, .param .u64 table, .param .u32 count)\n{\n"                              \
	".reg .pred %q;\n.reg .b32 %r<16>;\n.reg .b64 %d<8>;\n"                                    \
	"ld.param.u32 %r0, [count];\nld.param.u64 %d1, [table];\n"                                 \
	"mov.u32 %r2, %ntid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %tid.x;\n"                    \
	"mad.lo.s32 %r5, %r3, %r2, %r4;\nmov.u32 %r6, %nctaid.x;\nmul.lo.s32 %r7, %r6, "           \
	"%r2;\n" USE_BUFFER("0") USE_BUFFER("1") USE_BUFFER("2") USE_BUFFER("3")                   \
	    USE_BUFFER("4") "ret;\n}\n"

static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n" KERNEL("forward")
    KERNEL("loss") KERNEL("backward") KERNEL("optimise");

static CUfunction forward, loss, backward, optimise;
static CUdeviceptr buffers[BUFFERS_MOST], table;
static unsigned uses[BUFFERS_MOST], count, layers;
static int by_table;
static FILE *marks; /* NULL: none are wanted */
static struct {
	unsigned input, handed[2], weights[LAYERS_MOST], activation[LAYERS_MOST],
	    gradient[LAYERS_MOST], moment[LAYERS_MOST][2];
} of;

#define NONE (~0U)

static void use(CUfunction function, unsigned a, unsigned b, unsigned c, unsigned d, unsigned e)
{
	const unsigned given[GIVEN] = {a, b, c, d, e};
	uint64_t p[GIVEN];
	CUdeviceptr in = by_table ? table : 0;
	unsigned pages = BUFFER_MIB * MIB / PAGE;
	void *arguments[] = {&p[0], &p[1], &p[2], &p[3], &p[4], &in, &pages};

	for (int i = 0; i < GIVEN; i++) {
		p[i] = given[i] == NONE ? UINT64_MAX : by_table ? given[i] : buffers[given[i]];
		if (given[i] != NONE)
			uses[given[i]]++;
	}
	CU(cuLaunchKernel(function, BLOCKS, 1, 1, THREADS, 1, 1, 0, NULL, arguments, NULL));
}

static void open_marks(void)
{
	const char *path = getenv("MARKS");

	if (!path)
		return;
	marks = fopen(path, "we");
	if (!marks) {
		perror(path);
		exit(1);
	}
	setvbuf(marks, NULL, _IOLBF, 0);
}

static void step(void)
{
	double began = now_ns();

	for (unsigned l = 0; l < layers; l++)
		use(forward, of.weights[l], l ? of.activation[l - 1] : of.input, of.activation[l],
		    NONE, NONE);
	for (unsigned l = layers; l-- > 0;)
		use(l == layers - 1 ? loss : backward, of.weights[l], of.activation[l],
		    of.handed[l % 2], of.handed[1 - l % 2], of.gradient[l]);
	for (unsigned l = 0; l < layers; l++)
		use(optimise, of.weights[l], of.gradient[l], of.moment[l][0], of.moment[l][1],
		    NONE);
	CU(cuCtxSynchronize());
	if (marks)
		fprintf(marks, "%.0f mark %.0f\n", now_ns(), now_ns() - began);
}

/* In the order in which a program allocates them. */
static void number_buffers(void)
{
	of.input = count++;
	for (unsigned l = 0; l < layers; l++)
		of.weights[l] = count++;
	for (unsigned l = 0; l < layers; l++)
		of.activation[l] = count++;
	for (int i = 0; i < 2; i++)
		of.handed[i] = count++;
	for (unsigned l = 0; l < layers; l++)
		of.gradient[l] = count++;
	for (unsigned l = 0; l < layers; l++) {
		of.moment[l][0] = count++;
		of.moment[l][1] = count++;
	}
}

static void allocate(void)
{
	for (unsigned i = 0; i < count; i++) {
		CU(cuMemAlloc(&buffers[i], BUFFER_MIB * MIB));
		CU(cuMemsetD8(buffers[i], 0, BUFFER_MIB * MIB));
	}
	CU(cuMemcpyHtoD(table, buffers, count * sizeof(*buffers)));
}

static void limit_to(unsigned percent, uint64_t used)
{
	uint64_t units = (uint64_t)count * BUFFER_MIB / UNIT_MIB,
	         on_device = (units * percent + 99) / 100;

	control_change(used + on_device * UNIT_MIB * MIB, false);
	control_wait("limit_set", false, used + on_device * UNIT_MIB * MIB);
}

static uint64_t moved(void)
{
	return control_counter("demoted_bytes") + control_counter("promoted_bytes");
}

/* Returns whether nothing is found out any more of where memory is best. */
static bool is_decided(void)
{
	return control_counter("placement") != PLACED_SURVEYED;
}

/*
 * Goes on until it is decided where memory is best, and nothing has moved for a while since, at
 * most PATIENCE_S after START, in ns of now_ns(). Returns when memory last moved.
 */
static double settle(double start)
{
	double since = now_ns();
	const char *seconds = getenv("TRAINING_QUIET_S");
	double quiet = seconds ? atof(seconds) : SETTLED_S;
	uint64_t was = moved();

	while (now_ns() - since < quiet * 1e9 && now_ns() - start < PATIENCE_S * 1e9) {
		double began = now_ns();

		step();
		/* A survey takes some of the steps. */
		if (STEPS_QUIET * (now_ns() - began) > quiet * 1e9)
			quiet = STEPS_QUIET * (now_ns() - began) / 1e9;
		if (moved() != was || !is_decided())
			since = now_ns();
		was = moved();
	}
	return since;
}

/* Goes on for TRAINING_WARM_S seconds, one step at least, where the limit is not ours to change. */
static void warm_up(void)
{
	const char *seconds = getenv("TRAINING_WARM_S");
	double until = now_ns() + (seconds ? atof(seconds) * 1e9 : 0);

	do {
		step();
	} while (now_ns() < until);
}

/* Each page of each buffer was counted up by each use, wherever it was. */
static void check(void)
{
	static uint32_t words[BUFFER_MIB * (1 << 20) / sizeof(uint32_t)];

	for (unsigned i = 0; i < count; i++) {
		CU(cuMemcpyDtoH(words, buffers[i], sizeof(words)));
		for (size_t at = 0; at < sizeof(words) / sizeof(*words);
		     at += PAGE / sizeof(*words)) {
			if (words[at] == uses[i])
				continue;
			fprintf(stderr, "training: buffer %u, word %zu: %u, expected %u\n", i, at,
			        words[at], uses[i]);
			exit(1);
		}
	}
}

/* Returns how long a step takes by the device's own clock. */
static double step_ns(CUevent begin, CUevent end)
{
	float ms;

	CU(cuEventRecord(begin, NULL));
	step();
	CU(cuEventRecord(end, NULL));
	CU(cuEventSynchronize(end));
	CU(cuEventElapsedTime(&ms, begin, end));
	return (double)ms * 1e6;
}

/*
 * Measures steps for MEASURED_S. Returns the fastest in ns: a busy machine only adds. *CLOSED
 * becomes the part of this time, in a million, in which memory moved.
 */
static double measure_steps(int is_limited, double *closed)
{
	uint64_t closed_ns = is_limited ? control_counter("move_ns") : 0;
	double start = now_ns(), fastest = 0;
	CUevent begin, end;

	CU(cuEventCreate(&begin, CU_EVENT_DEFAULT));
	CU(cuEventCreate(&end, CU_EVENT_DEFAULT));
	for (int steps = 0; steps < STEPS_LEAST || now_ns() - start < MEASURED_S * 1e9; steps++) {
		double ns = step_ns(begin, end);

		if (!steps || ns < fastest)
			fastest = ns;
	}
	*closed = is_limited
	              ? (double)(control_counter("move_ns") - closed_ns) / (now_ns() - start) * 1e6
	              : 0;
	CU(cuEventDestroy(begin));
	CU(cuEventDestroy(end));
	return fastest;
}

/* Measures steps once memory has settled, and again where it had not. */
static void measure_settled(unsigned percent)
{
	double start = now_ns(), settled, fastest, closed;

	do {
		settled = settle(start);
		fastest = measure_steps(1, &closed);
	} while (closed > 0 && now_ns() - start < PATIENCE_S * 1e9);
	printf("settled_%u%% %.0f\n", percent, settled - start);
	printf("training_%u%% %.0f\n", percent, fastest);
	printf("closed_%u%% %.0f\n", percent, closed);
}

/* Measures steps where no limit binds. */
static void measure_unlimited(unsigned percent)
{
	double closed;

	warm_up();
	printf("training_%u%% %.0f\n", percent, measure_steps(0, &closed));
}

int main(int argc, char **argv)
{
	CUmodule module;
	CUdevice device;
	unsigned percent;
	uint64_t used = 0;
	int is_later, is_limited = control_is_possible();

	if (argc < 4 || argc > 5 || atoi(argv[3]) < 1 || atoi(argv[3]) > LAYERS_MOST) {
		fprintf(stderr, "usage: training seen|order|direct PERCENT LAYERS [later]\n");
		return 2;
	}
	percent = (unsigned)atoi(argv[2]);
	layers = (unsigned)atoi(argv[3]);
	is_later = argc == 5;
	by_table = strcmp(argv[1], "order") == 0;
	device = measure_open();
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&forward, module, "forward"));
	CU(cuModuleGetFunction(&loss, module, "loss"));
	CU(cuModuleGetFunction(&backward, module, "backward"));
	CU(cuModuleGetFunction(&optimise, module, "optimise"));
	CU(cuMemAlloc(&table, sizeof(buffers)));
	number_buffers();
	open_marks();
	if (is_limited)
		used = control_counter("device_used");
	if (is_limited && !is_later)
		limit_to(percent, used);
	allocate();
	step();
	if (is_limited && is_later)
		limit_to(percent, used);
	if (is_limited)
		measure_settled(percent);
	else
		measure_unlimited(percent);
	check();
	for (unsigned i = 0; i < count; i++)
		CU(cuMemFree(buffers[i]));
	CU(cuMemFree(table));
	CU(cuModuleUnload(module));
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
