/* SPDX-License-Identifier: MIT */
/*
 * A small frame for the tests of the driver: each case runs in a process of its own, with its own
 * environment, so that no case sees another's driver.
 */
#ifndef SOFTGPU_TEST_H
#define SOFTGPU_TEST_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "tests/softgpu/softgpu.h"

#define MIB (1ULL << 20)

#define SKIPPED 77

#define CHECK(condition)                                                                        \
	do {                                                                                    \
		if (!(condition)) {                                                             \
			fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                \
		}                                                                               \
	} while (0)

#define EXPECT(wanted, call)                                                                       \
	do {                                                                                       \
		CUresult got_ = (call);                                                            \
		if (got_ != (wanted)) {                                                            \
			fprintf(stderr, "%s:%d: %s answers %d, expected %d\n", __FILE__, __LINE__, \
			        #call, (int)got_, (int)(wanted));                                  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

#define OK(call) EXPECT(CUDA_SUCCESS, call)

/* Runs one case; `environment` is "A=1 B=2" or NULL. Adds to the count of failures. */
static inline int run_case(const char *name, void (*test)(void), const char *environment)
{
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		char *rest = strdup(environment ? environment : "");
		for (char *item = strtok(rest, " "); item; item = strtok(NULL, " "))
			putenv(item); /* rest stays, as the environment points into it */
		alarm(60);
		test();
		exit(0);
	}
	int status;
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
		printf("skip  %s\n", name);
		return 0;
	}
	bool passed = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	printf("%s  %s%s\n", passed ? "ok  " : "FAIL", name,
	       WIFSIGNALED(status) ? " (killed by a signal)" : "");
	return !passed;
}

/* A child that does not outlive a test that fails. */
static inline pid_t fork_bound(void)
{
	pid_t child = fork();
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

#define RUN(test, environment) run_case(#test, test, environment)

/* Initialises the driver and makes device 0's primary context current. */
static inline CUcontext start(void)
{
	CUcontext context;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	return context;
}

/* Device memory this process holds, by the driver's own books. */
static inline uint64_t physical_bytes(int device)
{
	struct softgpu_truth truth[16];
	int count = softgpu_truth(device, truth, 16);
	for (int i = 0; i < count && i < 16; i++)
		if (truth[i].pid == getpid())
			return truth[i].physical_bytes;
	return 0;
}

#endif
