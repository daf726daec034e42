/*
 * What a short script pays before its first own call: cuInit and a context, in a process of its own each time. Prints
 * "init NS" for each of ROUNDS (7) processes; what is preloaded is the caller's choice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/measure.h"

static void begin(void)
{
	double began = now_ns();
	CUdevice device;
	CUcontext context;

	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	printf("init %.0f\n", now_ns() - began);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 7;

	for (int round = 0; round < rounds; round++) {
		pid_t child = fork();
		int status;

		if (child == 0) {
			begin();
			_exit(0); /* as abrupt as a driver is used to; it is not timed */
		}
		if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
			return 1;
	}
	return 0;
}
