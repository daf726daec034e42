/* SPDX-License-Identifier: MIT */
/*
 * softgpu-truth: prints the books of the software GPU, one line per device and process.
 *
 * softgpu-truth --watch MS: prints every MS milliseconds the time that each process's kernels had
 * each device so far, and the bytes of host memory that they touched. The time (CLOCK_MONOTONIC,
 * ns) stands first. It prints from the first process until none is left.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/softgpu/machine.h"

#define MOST 256

static struct softgpu_truth truth[MOST];

static int processes_of(int device)
{
	int count = machine_truth(device, truth, MOST);
	return count < MOST ? count : MOST;
}

static void print_books(void)
{
	int count;
	puts("device\tpid\tphysical_bytes\tbusy_ns\tlaunches\tmapped_bytes\thost_bytes\tfetched_"
	     "bytes");
	for (int device = 0; (count = processes_of(device)) >= 0; device++)
		for (int i = 0; i < count; i++)
			printf("%d\t%d\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64
			       "\t%" PRIu64 "\t%" PRIu64 "\n",
			       device, truth[i].pid, truth[i].physical_bytes, truth[i].busy_ns,
			       truth[i].launches, truth[i].mapped_bytes, truth[i].host_bytes,
			       truth[i].fetched_bytes);
}

/* One sample; how many processes there are. */
static int print_sample(void)
{
	int count, processes = 0;
	for (int device = 0; (count = processes_of(device)) >= 0; device++) {
		uint64_t now = now_ns();
		for (int i = 0; i < count; i++)
			printf("%" PRIu64 "\t%d\t%d\t%" PRIu64 "\t%" PRIu64 "\n", now, device,
			       truth[i].pid, truth[i].busy_ns, truth[i].fetched_bytes);
		processes += count;
	}
	return processes;
}

static int watch(long ms)
{
	struct timespec period = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
	bool begun = false;
	puts("time_ns\tdevice\tpid\tbusy_ns\tfetched_bytes");
	for (int processes; (processes = print_sample()) > 0 || !begun;) {
		begun |= processes > 0;
		fflush(stdout);
		nanosleep(&period, NULL);
	}
	return 0;
}

int main(int argc, char **argv)
{
	long ms = argc == 3 && strcmp(argv[1], "--watch") == 0 ? strtol(argv[2], NULL, 10) : 0;
	if (argc == 1) {
		print_books();
		return 0;
	}
	if (ms < 1 || ms > 60000) {
		fputs("usage: softgpu-truth [--watch MS]\n", stderr);
		return 2;
	}
	return watch(ms);
}
