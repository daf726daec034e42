/* SPDX-License-Identifier: MIT */
/*
 * How fast live memory moves, in nanoseconds, from the moment a file says so until the last chunk
 * is on the other side. Without Spillway the same lines tell how long a plain copy of as many bytes
 * to fresh memory takes, with the GPU idle (the link).
 *
 * moves MIB idle          per MiB, of memory of so much that nobody uses; and for how long of it
 *                         the gate was closed
 * moves MIB waits|never   of a job of so much, which launches kernels (SOFTGPU_KERNEL_TIME_US) all
 *                         the time and waits for them every 25 ms, or never but keeps a few queued.
 *                         Of each move also the longest time for which the gate was ever closed,
 *                         and the time from launch to launch meanwhile; without Spillway that of a
 *                         program left alone
 * moves MIB told|turn     of two jobs of so much, on a device that has room for one, both of which
 *                         launch all the time: one's memory leaves and the other's comes, because
 *                         both are told so at once, or because they take exclusive turns; without
 *                         Spillway the copies there and back
 * moves MIB beside        the other job, until nobody holds the other end of its input
 *
 * demote, shrink  the limit is lowered, to half of what the job holds
 * promote         it is raised again
 * evict, resume   all leaves, and comes back
 */
#include "tests/bench/control.h"
#include "tests/bench/measure.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

enum {
	IDLE_ROUNDS = 5,
	BUSY_ROUNDS = 3,
	EXCHANGES = 5,
	ALONE_MS = 1000,
	QUEUED = 8,
	WAITS_EVERY = 25
};

static CUcontext context;
static CUdeviceptr memory;
static size_t size;

/* One way of moving: what it took, round by round. */
struct times {
	const char *name;
	double took[IDLE_ROUNDS], closed[IDLE_ROUNDS], launch[IDLE_ROUNDS];
};

/* --- the program that works meanwhile --- */

static _Atomic long launched;
static _Atomic bool is_over;
static bool waits;

static void *work(void *cookie)
{
	static const char ptx[] = ".version 6.4\n.target sm_75\n.address_size 64\n"
	                          ".visible .entry empty()\n{\n\tret;\n}\n";
	const struct timespec pause = {.tv_nsec = 100000};
	CUevent queued[QUEUED];
	CUfunction kernel;
	CUmodule module;
	CUstream stream;

	(void)cookie;
	CU(cuCtxSetCurrent(context));
	CU(cuModuleLoadData(&module, ptx));
	CU(cuModuleGetFunction(&kernel, module, "empty"));
	CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < QUEUED; i++)
		CU(cuEventCreate(&queued[i], CU_EVENT_DISABLE_TIMING));
	for (long i = 0; !is_over; i++) {
		CU(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
		launched++;
		if (waits) {
			if (i % WAITS_EVERY == WAITS_EVERY - 1)
				CU(cuStreamSynchronize(stream));
			continue;
		}
		CU(cuEventRecord(queued[i % QUEUED], stream));
		while (cuEventQuery(queued[(i + 1) % QUEUED]) == CUDA_ERROR_NOT_READY)
			nanosleep(&pause, NULL);
	}
	CU(cuStreamSynchronize(stream));
	return NULL;
}

static pthread_t begin_work(void)
{
	pthread_t worker;

	if (pthread_create(&worker, NULL, work, NULL) != 0)
		exit(1);
	return worker;
}

/* --- moving --- */

/* To memory that nobody has touched yet, as that of a moved chunk is. */
static void copy_there_and_back(size_t bytes, double *there, double *back)
{
	double start, middle;
	CUdeviceptr device;
	void *host;

	CU(cuMemHostAlloc(&host, bytes, 0));
	CU(cuMemAlloc(&device, bytes));
	start = now_ns();
	CU(cuMemcpyDtoH(host, memory, bytes));
	middle = now_ns();
	CU(cuMemcpyHtoD(device, host, bytes));
	*back = now_ns() - middle;
	*there = middle - start;
	CU(cuMemFree(device));
	CU(cuMemFreeHost(host));
}

/* Has so many bytes more move, as the file says from now on. */
static void move(struct times *times, int round, uint64_t limit, bool evicted, const char *counter,
                 size_t bytes)
{
	uint64_t closed_before = control_counter("move_ns"), before = control_counter(counter);
	long launched_before = launched;
	double start = now_ns();

	control_change(limit, evicted);
	control_wait(counter, true, before + bytes);
	times->took[round] = now_ns() - start;
	times->closed[round] = (double)(control_counter("move_ns") - closed_before);
	times->launch[round] = times->took[round] / (double)(launched - launched_before + 1);
}

static double time_alone(void)
{
	const struct timespec pause = {.tv_nsec = ALONE_MS % 1000 * 1000000L,
	                               .tv_sec = ALONE_MS / 1000};
	long before = launched;

	nanosleep(&pause, NULL);
	return ALONE_MS * 1e6 / (double)(launched - before);
}

/* --- memory that nobody uses --- */

static void print_per_mib(const char *name, double *values)
{
	printf("%s_1MiB %.2f\n", name, median(values, IDLE_ROUNDS) / ((double)size / (double)MIB));
}

static void measure_idle(void)
{
	struct times demote, promote;

	for (int i = 0; i < IDLE_ROUNDS; i++) {
		uint64_t all;

		if (!control_is_possible()) {
			copy_there_and_back(size, &demote.took[i], &promote.took[i]);
			demote.closed[i] = demote.took[i];
			promote.closed[i] = promote.took[i];
			continue;
		}
		all = control_counter("device_used");
		move(&demote, i, all - size, false, "demoted_bytes", size);
		control_wait("device_used", false, all - size);
		move(&promote, i, 2 * all, false, "promoted_bytes", size);
	}
	print_per_mib("demote", demote.took);
	print_per_mib("demote_closed", demote.closed);
	print_per_mib("promote", promote.took);
	print_per_mib("promote_closed", promote.closed);
}

/* --- memory of a program that works --- */

static void print_busy(struct times *times, const char *kind)
{
	printf("%s_%zuMiB_%s %.0f\n", times->name, size / MIB, kind,
	       median(times->took, BUSY_ROUNDS));
	printf("%s_%zuMiB_%s_launch %.0f\n", times->name, size / MIB, kind,
	       median(times->launch, BUSY_ROUNDS));
}

enum { SHRINK, PROMOTE, EVICT, RESUME, WAYS };

static void move_all_ways(struct times times[WAYS], int round)
{
	uint64_t all = control_counter("device_used"), roomy = 2 * all;
	/* Whole chunks, and no part of one that is there already. */
	size_t half = size / 2, whole = size;

	move(&times[SHRINK], round, all - half, false, "demoted_bytes", half);
	move(&times[PROMOTE], round, roomy, false, "promoted_bytes", half);
	move(&times[EVICT], round, roomy, true, "demoted_bytes", whole);
	move(&times[RESUME], round, roomy, false, "promoted_bytes", whole);
}

static void copy_all_ways(struct times times[WAYS], int round)
{
	copy_there_and_back(size / 2, &times[SHRINK].took[round], &times[PROMOTE].took[round]);
	copy_there_and_back(size, &times[EVICT].took[round], &times[RESUME].took[round]);
}

static void measure_busy(const char *kind)
{
	struct times times[WAYS] = {[SHRINK] = {.name = "shrink"},
	                            [PROMOTE] = {.name = "promote"},
	                            [EVICT] = {.name = "evict"},
	                            [RESUME] = {.name = "resume"}};
	bool moves = control_is_possible();
	pthread_t worker;
	double alone;

	for (int i = 0; i < BUSY_ROUNDS && !moves; i++)
		copy_all_ways(times, i);
	waits = strcmp(kind, "waits") == 0;
	worker = begin_work();
	time_alone();
	alone = moves ? 0 : time_alone();
	for (int i = 0; i < BUSY_ROUNDS; i++) {
		if (moves)
			move_all_ways(times, i);
		else
			for (int way = 0; way < WAYS; way++)
				times[way].launch[i] = alone;
	}
	for (int way = 0; way < WAYS; way++)
		print_busy(&times[way], kind);
	if (moves)
		printf("closed_longest_%zuMiB_%s %.0f\n", size / MIB, kind,
		       (double)control_counter("move_longest_ns"));
	is_over = true;
	pthread_join(worker, NULL);
}

/* --- two jobs --- */

static struct job {
	char name[64], config[4096];
} own, other;

/* Has what follows be about this job. */
static void look_at(const struct job *job)
{
	setenv("SPILLWAY_JOB", job->name, 1);
	setenv("SPILLWAY_CONFIG", job->config, 1);
}

/* Becomes the other job, which says on its input when its memory is there. */
static void become_other(const char *mib, int input)
{
	look_at(&other);
	dup2(input, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	execl("/proc/self/exe", "moves", mib, "beside", (char *)NULL);
	exit(1);
}

static void be_beside(void)
{
	char told = 0;

	begin_work();
	if (write(STDIN_FILENO, &told, 1) == 1 && read(STDIN_FILENO, &told, 1) >= 0)
		_exit(0); /* its thread may wait for a turn */
	_exit(1);
}

/* Starts the other job, which has the device; what this process makes then is on the host. */
static void start_other(const char *mib, bool are_told)
{
	char told;
	int ends[2];

	snprintf(own.name, sizeof(own.name), "%s", getenv("SPILLWAY_JOB"));
	snprintf(own.config, sizeof(own.config), "%s", getenv("SPILLWAY_CONFIG"));
	snprintf(other.name, sizeof(other.name), "%.50s-beside", own.name);
	snprintf(other.config, sizeof(other.config), "%.4000s.beside", own.config);
	look_at(&other);
	control_change(2 * size, false);
	look_at(&own);
	control_change(2 * size, are_told);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		exit(1);
	if (fork() == 0)
		become_other(mib, ends[1]);
	close(ends[1]);
	if (read(ends[0], &told, 1) != 1)
		exit(1);
}

/* Returns how long it takes until all of one has left and all of the other has come. */
static double exchange(const struct job *leaves, const struct job *comes, bool are_told)
{
	uint64_t left, come;
	double start;

	look_at(comes);
	come = control_counter("promoted_bytes");
	look_at(leaves);
	left = control_counter("demoted_bytes");
	if (!are_told)
		control_wait("demoted_bytes", true, left + 1);
	start = now_ns();
	if (are_told)
		control_change(2 * size, true);
	look_at(comes);
	if (are_told)
		control_change(2 * size, false);
	control_wait("promoted_bytes", true, come + size);
	look_at(leaves);
	control_wait("demoted_bytes", true, left + size);
	return now_ns() - start;
}

static void measure_exchange(const char *kind)
{
	bool is_possible = control_is_possible(), are_told = strcmp(kind, "told") == 0;
	double took[EXCHANGES], there, back;

	if (is_possible)
		begin_work();
	for (int i = 0; i < EXCHANGES; i++) {
		if (is_possible) {
			took[i] = exchange(i % 2 ? &own : &other, i % 2 ? &other : &own, are_told);
		} else {
			copy_there_and_back(size, &there, &back);
			took[i] = there + back;
		}
	}
	printf("exchange_%zuMiB_%s %.0f\n", size / MIB, kind, median(took, EXCHANGES));
	fflush(stdout);
	_exit(0); /* as the other job does */
}

int main(int argc, char **argv)
{
	const char *kind = argc > 2 ? argv[2] : "";
	bool exchanges = strcmp(kind, "told") == 0 || strcmp(kind, "turn") == 0;
	CUdevice device;

	if (argc != 3) {
		fprintf(stderr, "usage: moves MIB idle|waits|never|told|turn\n");
		return 2;
	}
	size = strtoull(argv[1], NULL, 10) * MIB;
	if (exchanges && control_is_possible())
		start_other(argv[1], strcmp(kind, "told") == 0);
	device = measure_open();
	CU(cuCtxGetCurrent(&context));
	CU(cuMemAlloc(&memory, size));
	CU(cuMemsetD8(memory, 1, size));
	CU(cuCtxSynchronize());
	if (exchanges)
		measure_exchange(kind);
	else if (strcmp(kind, "beside") == 0)
		be_beside();
	else if (strcmp(kind, "idle") == 0)
		measure_idle();
	else
		measure_busy(kind);
	CU(cuMemFree(memory));
	CU(cuDevicePrimaryCtxRelease(device));
	return 0;
}
