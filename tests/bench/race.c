/* SPDX-License-Identifier: MIT */
/*
 * Eight processes race for a device's memory, 1 MiB at a time. They end when each is refused, or
 * the job is as large as the device (argument MIB, each process's most). Then they hold their
 * memory and say so, until standard input ends.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/measure.h"

enum { PROCESSES = 8 };

static void take(int most, int held, int end)
{
	CUdeviceptr memory;
	CUdevice device;
	CUcontext context;
	char byte = 0;
	int taken = 0;

	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuCtxCreate(&context, NULL, 0, device));
	while (taken < most && cuMemAlloc(&memory, 1 << 20) == CUDA_SUCCESS)
		taken++;
	if (write(held, &byte, 1) != 1 || read(end, &byte, 1) < 0)
		_exit(1);
	_exit(0);
}

int main(int argc, char **argv)
{
	int most = argc > 1 ? atoi(argv[1]) : 64, held[2], end[2];
	char byte;

	if (pipe(held) != 0 || pipe(end) != 0)
		return 1;
	for (int i = 0; i < PROCESSES; i++)
		if (fork() == 0) {
			close(end[1]);
			take(most, held[1], end[0]);
		}
	close(held[1]);
	close(end[0]);
	for (int i = 0; i < PROCESSES; i++)
		if (read(held[0], &byte, 1) != 1)
			return 1;
	printf("held\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	close(end[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
