/* SPDX-License-Identifier: MIT */
/*
 * The life_* programs share this: they know CUDA and nothing of Spillway. They ask Spillway's tool
 * for their figures in the books. Environment: SPILLWAY_JOB, and SPILLWAY_TOOL, the tool's path.
 */
#ifndef SPILLWAY_TEST_LIFE_H
#define SPILLWAY_TEST_LIFE_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MIB = 1 << 20 };

static inline void check(bool right, const char *what, const char *file, int line)
{
	if (!right) {
		fprintf(stderr, "%s:%d: pid %d: %s\n", file, line, (int)getpid(), what);
		_exit(1);
	}
}
#define EXPECT(condition) check(condition, #condition, __FILE__, __LINE__)

static inline void succeed(CUresult result, const char *what, const char *file, int line)
{
	char text[300];

	snprintf(text, sizeof(text), "%s: error %d", what, (int)result);
	check(result == CUDA_SUCCESS, text, file, line);
}
#define CHECK(call) succeed(call, #call, __FILE__, __LINE__)

static inline void nap_ms(long ms)
{
	struct timespec left = {ms / 1000, ms % 1000 * 1000000};

	while (nanosleep(&left, &left) != 0 && errno == EINTR)
		;
}

/* Waits for a condition that something else makes true; at most 100 s. */
#define EVENTUALLY(condition)                                      \
	do {                                                       \
		int tries_ = 10000;                                \
		while (!(condition) && --tries_)                   \
			nap_ms(10);                                \
		check(tries_ > 0, #condition, __FILE__, __LINE__); \
	} while (0)

/* cuInit and the primary context of device 0. */
static inline CUcontext begin_cuda(void)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	return context;
}

static inline CUdeviceptr take_mib(size_t mib)
{
	CUdeviceptr address;

	CHECK(cuMemAlloc_v2(&address, mib * MIB));
	return address;
}

/* A kernel that does nothing; how long it takes is for SOFTGPU_KERNEL_TIME_US to say. */
static inline CUfunction load_kernel(void)
{
	static const char text[] = ".version 6.4\n.target sm_50\n.address_size 64\n"
	                           ".visible .entry nothing()\n{\nret;\n}\n";
	CUfunction function;
	CUmodule module;

	CHECK(cuModuleLoadData(&module, text));
	CHECK(cuModuleGetFunction(&function, module, "nothing"));
	return function;
}

static inline CUresult launch(CUfunction function, CUstream stream)
{
	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

/* A process that nobody named is a job by itself. */
static inline void job_name(char *name, size_t size)
{
	const char *given = getenv("SPILLWAY_JOB");

	if (given && *given)
		snprintf(name, size, "%s", given);
	else
		snprintf(name, size, "%s-%d", program_invocation_short_name, (int)getpid());
}

/* Returns what `spillway stat` says of the job now; "" when there is none. */
static inline const char *books(void)
{
	static char text[1 << 16];
	char command[600], job[64];
	size_t length;
	FILE *tool;

	job_name(job, sizeof(job));
	snprintf(command, sizeof(command), "%s stat %s --json 2>/dev/null", getenv("SPILLWAY_TOOL"),
	         job);
	tool = popen(command, "r");
	EXPECT(tool);
	length = fread(text, 1, sizeof(text) - 1, tool);
	text[length] = '\0';
	pclose(tool);
	return text;
}

/* A number of the whole job on its first device; -1 where there is none. */
static inline long long book(const char *name)
{
	char key[64];
	const char *found;

	snprintf(key, sizeof(key), "\"%s\":", name);
	found = strstr(books(), key);
	return found ? atoll(found + strlen(key)) : -1;
}

/* MiB charged to the job but for spare chunks; what contexts and modules cost is less than one. */
static inline long long mib_charged(void)
{
	long long bytes = book("device_charged") - book("device_pool");

	return bytes < 0 ? -1 : bytes / MIB;
}

/* Returns how many processes are in that state: "live" or "draining". */
static inline int processes(const char *state)
{
	char key[64];
	int count = 0;

	snprintf(key, sizeof(key), "\"state\":\"%s\"", state);
	for (const char *found = books(); (found = strstr(found, key)); found++)
		count++;
	return count;
}

#endif
