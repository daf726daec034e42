/*
 * How fast live memory moves, in nanoseconds per MiB: from the moment the limit is changed until the last chunk is on
 * the other side, and of that the time for which the gate was closed. Without Spillway the same lines tell how long a
 * copy of as many bytes to or from pinned memory takes.
 */
#include "tests/bench/control.h"
#include "tests/bench/measure.h"

#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1 << 20)

enum { ROUNDS = 5 };

static CUdeviceptr memory;
static size_t size;

struct times {
	double demote[ROUNDS], demote_closed[ROUNDS], promote[ROUNDS], promote_closed[ROUNDS];
};

/* To memory that nobody has touched yet, as that of a moved chunk is. */
static void copy_rounds(struct times *times)
{
	for (int i = 0; i < ROUNDS; i++) {
		CUdeviceptr back;
		double start, middle;
		void *host;

		CU(cuMemHostAlloc(&host, size, 0));
		CU(cuMemAlloc(&back, size));
		start = now_ns();
		CU(cuMemcpyDtoH(host, memory, size));
		middle = now_ns();
		CU(cuMemcpyHtoD(back, host, size));
		times->promote[i] = times->promote_closed[i] = now_ns() - middle;
		times->demote[i] = times->demote_closed[i] = middle - start;
		CU(cuMemFree(back));
		CU(cuMemFreeHost(host));
	}
}

/* Changes the limit and waits until so many bytes more have moved. */
static void move(uint64_t limit, const char *counter, uint64_t before, double *took, double *closed)
{
	uint64_t closed_before = control_counter("move_ns");
	double start = now_ns();

	control_limit(limit);
	control_wait(counter, true, before + size);
	*took = now_ns() - start;
	*closed = (double)(control_counter("move_ns") - closed_before);
}

static void move_rounds(struct times *times)
{
	uint64_t all = control_counter("device_used");

	for (int i = 0; i < ROUNDS; i++) {
		move(all - size, "demoted_bytes", control_counter("demoted_bytes"),
		     &times->demote[i], &times->demote_closed[i]);
		control_wait("device_used", false, all - size);
		move(2 * all, "promoted_bytes", control_counter("promoted_bytes"),
		     &times->promote[i], &times->promote_closed[i]);
	}
}

static void print(const char *name, double *values)
{
	printf("%s_1MiB %.2f\n", name, median(values, ROUNDS) / ((double)size / (double)MIB));
}

int main(void)
{
	CUdevice device = measure_open();
	struct times times;
	size_t available, total;

	CU(cuMemGetInfo(&available, &total));
	for (size = 2048 * MIB; size > available / 4; size /= 2)
		;
	CU(cuMemAlloc(&memory, size));
	CU(cuMemsetD8(memory, 1, size));
	CU(cuCtxSynchronize());
	if (control_is_possible())
		move_rounds(&times);
	else
		copy_rounds(&times);
	print("demote", times.demote);
	print("demote_closed", times.demote_closed);
	print("promote", times.promote);
	print("promote_closed", times.promote_closed);
	CU(cuMemFree(memory));
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
