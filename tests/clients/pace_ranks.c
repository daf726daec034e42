/* SPDX-License-Identifier: MIT */
/*
 * The ranks of pace_load: each has a device. After each launch of work it launches a kernel that
 * waits for those of all other ranks, as an all-reduce does. They are threads of one process, or
 * processes; their kernels meet in pinned host memory.
 */
#include "tests/clients/pace_load.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/clients/client.h"
#include "tests/clients/program.h"

/* A line of memory for each rank's word; rounds that a rank may be ahead of the slowest. */
enum { APART = 32, AHEAD = QUEUE_MARKS, NAP_NS = 200000 };

/* The page that all ranks see; the first is for their kernels. */
static struct meeting {
	unsigned rounds[4096 / sizeof(unsigned)];
	_Atomic unsigned ready, last_round;
	_Atomic uint64_t start_ns;
	double loops_per_ms;
	struct load_counts counts[MAX_RANKS];
	uint64_t stop_ns, end_ns[MAX_RANKS];
} * meeting;

/* Rank 0 says which round is the last: one that no rank has begun. */
static void decide(unsigned round)
{
	bool enough =
	    load_options.launches
	        ? round >= load_options.launches
	        : load_now_ns() >= meeting->start_ns + load_options.seconds * 1000000000ull;

	if (!enough || meeting->last_round != UINT32_MAX)
		return;
	meeting->last_round = round + 2 * AHEAD;
	meeting->stop_ns = load_now_ns();
}

static void wait_for_all(unsigned rank)
{
	if (rank == 0)
		while (meeting->ready != load_options.ranks - 1)
			usleep(1000);
	else
		meeting->ready++;
	if (rank == 0)
		meeting->start_ns = load_now_ns();
	while (!meeting->start_ns)
		usleep(100);
}

static void run_rank(unsigned rank)
{
	CUdeviceptr words;
	CUdevice device;
	CUcontext context;
	struct queue queue;
	unsigned apart = APART, ranks = load_options.ranks, round = 0;
	unsigned nap_ns = load_options.asleep ? NAP_NS : 0;

	CU(cuInit(0));
	if (cuDeviceGet(&device, (int)rank) != CUDA_SUCCESS)
		program_die("%u ranks need as many devices", ranks);
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
	CUmodule module = load_module();
	CUfunction meet = client_function(module, "meet");
	if (load_options.processes || rank == 0)
		CU(cuMemHostRegister(meeting->rounds, sizeof(meeting->rounds),
		                     CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
	queue_open(&queue, module, NULL, rank);
	wait_for_all(rank);
	CU(cuMemHostGetDevicePointer(&words, meeting->rounds, 0));
	while (round++ != meeting->last_round) {
		if (rank == 0)
			decide(round);
		queue_launch(&queue);
		CLIENT_LAUNCH(meet, 1, 1, 1, queue.stream, &words, &apart, &rank, &ranks, &round,
		              &nap_ns);
		queue.counts.launches++;
		queue_mark(&queue);
	}
	queue_close(&queue);
	meeting->end_ns[rank] = load_now_ns();
	meeting->counts[rank] = queue.counts;
	meeting->counts[rank].steps = round - 1;
	CU(cuModuleUnload(module));
	if (load_options.processes)
		CU(cuMemHostUnregister(meeting->rounds));
}

static void *run_thread(void *rank)
{
	run_rank((unsigned)(uintptr_t)rank);
	return NULL;
}

static void run_threads(void)
{
	pthread_t threads[MAX_RANKS];

	for (unsigned i = 0; i < load_options.ranks; i++)
		if (pthread_create(&threads[i], NULL, run_thread, (void *)(uintptr_t)i) != 0)
			program_die("no thread for rank %u", i);
	for (unsigned i = 0; i < load_options.ranks; i++)
		pthread_join(threads[i], NULL);
}

static void run_processes(void)
{
	fflush(NULL);
	for (unsigned i = 0; i < load_options.ranks; i++) {
		pid_t child = fork();
		if (child < 0)
			program_die("no process for rank %u", i);
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_rank(i);
			exit(0);
		}
	}
	for (unsigned i = 0; i < load_options.ranks; i++) {
		int status;
		wait(&status);
		if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
			kill(0, SIGTERM); /* the others wait for its kernels */
			program_die("a rank has failed");
		}
	}
}

struct load_counts ranks_run(uint64_t *start_ns, uint64_t *stop_ns, uint64_t *end_ns)
{
	struct load_counts sum = {0};

	meeting =
	    mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (meeting == MAP_FAILED)
		program_die("no shared memory");
	meeting->last_round = UINT32_MAX;
	if (load_options.processes)
		run_processes();
	else
		run_threads();
	*end_ns = 0;
	for (unsigned i = 0; i < load_options.ranks; i++) {
		const struct load_counts *counts = &meeting->counts[i];
		if (counts->steps != meeting->counts[0].steps ||
		    meeting->rounds[i * APART] != (unsigned)counts->steps)
			program_die("rank %u made %lu steps and met in %u, rank 0 made %lu", i,
			            counts->steps, meeting->rounds[i * APART],
			            meeting->counts[0].steps);
		sum.launches += counts->launches;
		sum.kernels += counts->kernels;
		sum.work_ms += counts->work_ms;
		if (*end_ns < meeting->end_ns[i])
			*end_ns = meeting->end_ns[i];
	}
	sum.steps = meeting->counts[0].steps;
	*start_ns = meeting->start_ns;
	*stop_ns = meeting->stop_ns;
	return sum;
}
