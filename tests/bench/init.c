/* SPDX-License-Identifier: MIT */
/*
 * The cost for a short script: "init NS" is the driver opened, as every runtime does it, cuInit and
 * a context; "script NS" is all of a process that does no more, from its fork until it is gone.
 * ROUNDS (7) processes of their own; the caller chooses the preloaded library.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *find(void *driver, const char *name)
{
	void *symbol = driver ? dlsym(driver, name) : NULL;

	if (!symbol) {
		fprintf(stderr, "init: %s\n", dlerror());
		exit(1);
	}
	return symbol;
}

static void begin(void)
{
	double began = now_ns();
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	__typeof__(cuInit) *init = (__typeof__(init))find(driver, "cuInit");
	__typeof__(cuDevicePrimaryCtxRetain) *retain =
	    (__typeof__(retain))find(driver, "cuDevicePrimaryCtxRetain");
	CUcontext context;

	if (init(0) != CUDA_SUCCESS || retain(&context, 0) != CUDA_SUCCESS) {
		fprintf(stderr, "init: no context\n");
		exit(1);
	}
	printf("init %.0f\n", now_ns() - began);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 7;

	for (int round = 0; round < rounds; round++) {
		double began = now_ns();
		pid_t child = fork();
		int status;

		if (child == 0) {
			begin();
			exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
			return 1;
		printf("script %.0f\n", now_ns() - began);
		fflush(stdout); /* before the next fork, which would print it again */
	}
	return 0;
}
