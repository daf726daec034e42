/* SPDX-License-Identifier: MIT */
/*
 * sharer link MIB, sharer work MIB SECONDS [STEP_US [FILE]]: a program that uses all of its memory
 * again and again, as a training does. It is for jobs that share a GPU by need.
 *
 * link  prints "link_ms=N": how long a plain copy of as many bytes to fresh memory takes
 * work  a step is a kernel for each buffer of 4 MiB, which counts in each page. Prints "ready" once
 *       its memory is there, and at the end
 *
 *       steps=N       so many were done
 *       step_us=N     the middle one's length
 *       full_ms=N     after so long, counted from the first allocation, steps took STEP_US or less,
 *                     four of five; -1: never
 *       again_ms=N    of FILE: how long the first step took after it
 *       wrong=N       pages that did not count each step
 *       pid=N asked_ns=N ready_ns=N
 *                     the process; when it asked for memory first, and had all (CLOCK_MONOTONIC)
 *
 * FILE  it works for two seconds, does nothing until the file is there, and works for SECONDS then
 */
#include "tests/bench/measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum { BUFFER_MIB = 4, PAGE = 4096, BUFFERS_MOST = 4096, STEPS_MOST = 1 << 20, IN_A_ROW = 5 };

static const char ptx[] =
    ".version 6.4\n.target sm_75\n.address_size 64\n"
    ".visible .entry count(.param .u64 p, .param .u32 pages)\n{\n"
    ".reg .pred %q;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\n"
    "ld.param.u64 %d0, [p];\nld.param.u32 %r0, [pages];\nmov.u32 %r1, %tid.x;\n"
    "mov.u32 %r2, %ntid.x;\n"
    "again:\nsetp.ge.u32 %q, %r1, %r0;\n@%q bra done;\n"
    "mul.wide.u32 %d1, %r1, 4096;\nadd.s64 %d1, %d0, %d1;\n"
    "ld.global.u32 %r3, [%d1];\nadd.s32 %r3, %r3, 1;\nst.global.u32 [%d1], %r3;\n"
    "add.s32 %r1, %r1, %r2;\nbra again;\ndone:\nret;\n}\n";

static CUfunction count;
static CUdeviceptr buffer[BUFFERS_MOST];
static int buffers;
static double length_us[STEPS_MOST], ended_ns[STEPS_MOST];
static int steps;

static void allocate(size_t mib)
{
	buffers = (int)(mib / BUFFER_MIB);
	if (buffers > BUFFERS_MOST)
		buffers = BUFFERS_MOST;
	for (int i = 0; i < buffers; i++) {
		CU(cuMemAlloc(&buffer[i], BUFFER_MIB * MIB));
		CU(cuMemsetD8(buffer[i], 0, BUFFER_MIB * MIB));
	}
}

static double step(void)
{
	unsigned pages = BUFFER_MIB * MIB / PAGE;
	double began = now_ns(), ended;

	for (int i = 0; i < buffers; i++)
		CU(cuLaunchKernel(count, 1, 1, 1, 128, 1, 1, 0, NULL,
		                  (void *[]){&buffer[i], &pages}, NULL));
	CU(cuCtxSynchronize());
	ended = now_ns();
	if (steps < STEPS_MOST) {
		ended_ns[steps] = ended;
		length_us[steps++] = (ended - began) / 1e3;
	}
	return (ended - began) / 1e6;
}

static void work(double seconds)
{
	double until = now_ns() + seconds * 1e9;

	while (now_ns() < until)
		step();
}

/* Returns when steps were short, four of five in a row; 0: never. */
static double full_since(double short_us)
{
	for (int i = 0; i + IN_A_ROW <= steps; i++) {
		int good = 0;

		for (int k = i; k < i + IN_A_ROW; k++)
			good += length_us[k] <= short_us;
		if (length_us[i] <= short_us && good >= IN_A_ROW - 1)
			return ended_ns[i] - length_us[i] * 1e3;
	}
	return 0;
}

static unsigned wrong_pages(void)
{
	static uint32_t copy[BUFFER_MIB * MIB / sizeof(uint32_t)];
	unsigned wrong = 0;

	for (int i = 0; i < buffers; i++) {
		CU(cuMemcpyDtoH(copy, buffer[i], sizeof copy));
		for (size_t at = 0; at < sizeof copy / sizeof *copy; at += PAGE / sizeof *copy)
			wrong += copy[at] != (uint32_t)steps;
	}
	return wrong;
}

static void link_of(size_t mib)
{
	CUdeviceptr from;
	char *to = malloc(mib * MIB);
	double began;

	if (!to)
		exit(1);
	CU(cuMemAlloc(&from, mib * MIB));
	began = now_ns();
	CU(cuMemcpyDtoH(to, from, mib * MIB));
	printf("link_ms=%.0f\n", (now_ns() - began) / 1e6);
	free(to);
}

int main(int argc, char **argv)
{
	size_t mib = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
	double short_us = argc > 4 ? strtod(argv[4], NULL) : 0, asked, ready, full, again_ms = -1;
	CUmodule module;

	if (!mib || (strcmp(argv[1], "link") != 0 && argc < 4)) {
		fprintf(stderr, "sharer link MIB, sharer work MIB SECONDS [STEP_US [FILE]]\n");
		return 2;
	}
	measure_open();
	if (strcmp(argv[1], "link") == 0) {
		link_of(mib);
		return 0;
	}
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&count, module, "count"));
	asked = now_ns();
	allocate(mib);
	ready = now_ns();
	printf("ready\n");
	fflush(stdout);
	if (argc > 5) {
		work(2);
		while (access(argv[5], F_OK) != 0)
			usleep(1000);
		again_ms = step();
	}
	work(strtod(argv[3], NULL));
	full = full_since(short_us);
	printf("steps=%d full_ms=%.0f again_ms=%.0f", steps, full > 0 ? (full - asked) / 1e6 : -1,
	       again_ms);
	printf(" pid=%d asked_ns=%.0f ready_ns=%.0f wrong=%u", (int)getpid(), asked, ready,
	       wrong_pages());
	printf(" step_us=%.0f\n", median(length_us, steps));
	return 0;
}
